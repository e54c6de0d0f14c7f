import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.text.bigrams import HALF, PairCounts
from neglm_cli.text.phrase_joining import LINE_END, UNKNOWN_WORD, PhraseJoiner, PhrasePairs, PhraseWriter, joined_words
from neglm_cli.text.tokens import padded

FIRST_PHRASE = 10
streams = st.lists(st.lists(st.sampled_from([0, 1, 2, 3, UNKNOWN_WORD, LINE_END]), max_size=20), max_size=6)
pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True)


def made(pairs: list[tuple[int, int]]) -> PhrasePairs:
    keys = np.array([first << int(HALF) | second for first, second in sorted(pairs)], np.uint64)
    joined = np.arange(FIRST_PHRASE, FIRST_PHRASE + len(keys), dtype=np.int32)
    return PhrasePairs.of(PairCounts(keys, np.ones(len(keys), np.int64)), joined)


@given(streams, pairs)
def test_joins_from_left_to_right_across_chunks(chunks: list[list[int]], pairs: list[tuple[int, int]]) -> None:
    joiner = PhraseJoiner(made(pairs))
    written = [number for chunk in [*chunks, [LINE_END]] for number in joiner.join(np.array(chunk, np.int32)).tolist()]

    whole = [number for chunk in chunks for number in chunk] + [LINE_END]
    expected: list[int] = []
    times = [0] * len(pairs)
    while whole:
        pair = tuple(whole[:2])
        if pair in pairs:
            index = sorted(pairs).index((pair[0], pair[1]))
            times[index] += 1
            expected.append(FIRST_PHRASE + index)
            whole = whole[2:]
        else:
            expected.append(whole.pop(0))
    assert written == expected
    assert joiner.join_counts.tolist() == times


def test_a_table_of_many_pairs() -> None:
    """Keys that differ in few bits share slots; all are found, and no others."""
    many = [(first, second) for first in range(0, 4_000, 40) for second in range(0, 4_000, 40)]
    joiner = PhraseJoiner(made(many))
    stream = np.array([number for pair in many for number in (*pair, LINE_END)], np.int32)
    joined = joiner.join(stream).tolist()
    assert joined[::2] == list(range(FIRST_PHRASE, FIRST_PHRASE + len(many)))
    others = np.array([number for first, second in many for number in (first + 1, second, LINE_END)], np.int32)
    assert joiner.join(others).tolist() == others.tolist()


def test_joined_words() -> None:
    sizes = np.array([1, 2, 3], np.int32)
    stream = np.array([0, 2, LINE_END, UNKNOWN_WORD, 1, LINE_END], np.int32)
    assert joined_words(stream, sizes).tolist() == [False, False, True, True, False, False, True]


def test_trailing_whitespace_is_held_until_the_next_block() -> None:
    writer = PhraseWriter(b"--")

    def write(text: bytes, *joined: bool) -> bytes:
        return b"".join(writer.write(padded(text), len(text), np.array(joined, np.bool_)))

    assert write(b"  new \t", False) == b"  new"
    assert write(b" ") == b""
    assert write(b"\v york  city ", True, True) == b"--york--city"
    assert write(b" \n to", False) == b"  \n to"
    assert writer.space == b""


def test_empty_lines_do_not_accumulate_in_memory() -> None:
    """Many blocks of newlines only, as in a decompression bomb."""
    writer, nothing = PhraseWriter(b"_"), np.empty(0, np.bool_)
    block = padded(b" \n" * 500)
    written = b""
    for _ in range(20):
        written += b"".join(writer.write(block, 1000, nothing))
        assert len(writer.space) <= 2
    assert written + writer.space == b" \n" * 10_000
