import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.store import wordlists
from neglm_cli.text.word_index import WordIndex

ends = st.text("ab", min_size=1, max_size=3)
words = st.tuples(st.sampled_from(["", "a" * 8, "a" * 7]), ends).map(lambda parts: "".join(parts).encode())


@given(st.lists(words, unique=True, min_size=1), st.lists(words), st.integers(1, 5))
def test_every_word_is_found_and_no_other(listed: list[bytes], others: list[bytes], searched: int) -> None:
    index = WordIndex.of(listed)
    expected = [listed.index(word) if word in listed else -1 for word in [*listed, *others]]
    assert index.ids(WordIndex.of([*listed, *others])).tolist() == expected
    before, wordlists.SEARCHED = wordlists.SEARCHED, searched  # several chunks
    try:
        assert [index.id(word) for word in [*listed, *others]] == expected
        assert index.id(b"") == -1
    finally:
        wordlists.SEARCHED = before


def test_words_of_a_read_only_file() -> None:
    """Mapped files are read-only arrays."""
    index = WordIndex(np.frombuffer(b"onetwo", np.uint8), np.array([0, 3, 6]), np.array([2, 1]))
    index.offsets.flags.writeable = index.counts.flags.writeable = False
    assert index.ids(WordIndex.of([b"two", b"three"])).tolist() == [1, -1]


def test_long_words_with_the_same_beginning() -> None:
    listed = [b"x" * 40 + bytes([65 + i]) for i in range(20)]
    index = WordIndex.of(listed)
    assert [index.id(word) for word in listed] == list(range(20))
    assert index.id(b"x" * 41) == -1


def test_a_word_of_ten_megabytes() -> None:
    word = b"ab" * 5_000_000
    index = WordIndex.of([b"the", word])
    assert index.id(word) == 1
    assert index.id(word[1:]) == -1
