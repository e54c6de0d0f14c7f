from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.kernels import kernel
from neglm_cli.text.bits import PADDING
from neglm_cli.text.table import SEED, Scratch, TableArrays, WordTable, find, insert
from neglm_cli.text.tokens import padded
from tests.text.reference import counts, sentences, texts


def contents(table: WordTable) -> dict[bytes, int]:
    word_bytes = table.word_bytes.tobytes()
    ends = table.offsets.tolist()
    return {word_bytes[ends[i] : ends[i + 1]]: int(table.counts[i]) for i in range(table.size)}


def entries(table: WordTable, *words: bytes) -> list[int]:
    return table.entries(np.cumsum([0, *map(len, words)]), padded(b"".join(words))).tolist()


@given(st.lists(texts, max_size=5))
def test_counts_like_a_counter(parts: list[bytes]) -> None:
    table, scratch = WordTable(), Scratch()
    words = lines = 0
    for text in parts:
        new_words, new_lines = table.count_text(padded(text + b"\n"), len(text) + 1, scratch)
        words, lines = words + new_words, lines + new_lines
    expected = counts(*(text + b"\n" for text in parts))
    assert contents(table) == dict(expected)
    assert words == expected.total()
    assert lines == sum(len(sentences(text + b"\n")) for text in parts)


def test_grows_through_many_words_and_finds_each() -> None:
    text = b" ".join(b"word%d" % i for i in range(50_000)) + b"\n"
    table, scratch = WordTable(), Scratch()
    table.count_text(padded(text), len(text), scratch)
    table.count_text(padded(text), len(text), scratch)
    assert table.size == 50_000
    assert set(table.counts.tolist()) == {2}
    assert entries(table, *(b"word%d" % i for i in range(50_000))) == list(range(50_000))
    assert entries(table, b"word50000", b"") == [-1, -1]


def test_words_of_every_length_differ_in_their_last_byte() -> None:
    words = [b"x" * length + end for length in range(80) for end in (b"a", b"b", b"\x00")]
    text = b" ".join(words) + b"\n"
    table = WordTable()
    table.count_text(padded(text), len(text), Scratch())
    assert contents(table) == dict(Counter(words))


def test_a_word_larger_than_the_capacity() -> None:
    word = b"y" * 3_000_000
    text = b"a " + word + b" b " + word + b"\n"
    table = WordTable()
    table.count_text(padded(text), len(text), Scratch())
    assert contents(table) == {b"a": 1, word: 2, b"b": 1}


@given(texts, texts)
def test_adding_tables(one: bytes, other: bytes) -> None:
    tables = []
    for text in (one, other):
        table = WordTable()
        table.count_text(padded(text + b"\n"), len(text) + 1, Scratch())
        tables.append(table)
    tables[0].add_table(tables[1])
    assert contents(tables[0]) == dict(counts(one + b"\n", other + b"\n"))


@given(texts, texts)
def test_lookup_of_entries_unknown_words_and_line_ends(known: bytes, text: bytes) -> None:
    table, scratch = WordTable(), Scratch()
    table.count_text(padded(known + b"\n"), len(known) + 1, scratch)
    ids = table.lookup_text(padded(text + b"\n"), len(text) + 1, -2, -3, scratch)
    entries = {word: entry for entry, word in enumerate(contents(table))}
    expected = [i for words in sentences(text + b"\n") for i in (*(entries.get(word, -2) for word in words), -3)]
    assert ids.dtype == np.int32
    assert ids.tolist() == expected


def test_word_bytes_keep_their_padding() -> None:
    """Bytes that kernels read past the last word must belong to the table."""
    table = WordTable()
    for text in (b"a\n", b"y" * 120 + b"\n"):
        table.count_text(padded(text), len(text), Scratch())
    assert len(table.word_bytes) == table.offsets[-1] + PADDING


@kernel
def found_with_equal_hashes(text, length, table):  # type: ignore[no-untyped-def]
    """Insert the first word, look for the second under the same hash."""
    h = np.uint64(12345)
    insert(text, 0, length, h, np.int64(h & np.uint64(table.slots.size - 1)), 1, 0, table)
    return find(text, length, length, h, table.slots, table.offsets, table.word_bytes)[0]


@pytest.mark.parametrize(("text", "entry"), [(b"onetwo", -1), (b"oneone", 0), (b"longer one!longer two!", -1)])
def test_equal_hashes_do_not_make_equal_words(text: bytes, entry: int) -> None:
    table = TableArrays(
        SEED,
        np.zeros(8, np.uint64),
        np.zeros(3, np.int64),
        np.zeros(2, np.int64),
        padded(bytes(99)),
    )
    assert found_with_equal_hashes(padded(text), len(text) // 2, table) == entry
