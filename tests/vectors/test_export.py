"""Selection, normalization, and words that a format cannot represent."""

from pathlib import Path

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import exchange
from neglm_cli.vectors.formats import Format
from tests.vectors.exchange import assert_same_bits, some_vectors


def word_index(*words: bytes) -> WordIndex:
    return WordIndex.of(words, np.ones(len(words)))


def test_the_most_frequent() -> None:
    words = WordIndex.of([b"a", b"b", b"c", b"d"], np.array([2, 5, 2, 9]))
    vectors = np.arange(8, dtype=np.float32).reshape(4, 2)
    chosen, rows = exchange.most_frequent(words, vectors, 3)
    assert list(chosen) == [b"d", b"b", b"a"]
    assert chosen.counts.tolist() == [9, 5, 2]
    assert rows.tolist() == [[6, 7], [2, 3], [0, 1]]
    assert list(exchange.most_frequent(words, vectors, 9)[0]) == [b"d", b"b", b"a", b"c"]


def test_unit_length() -> None:
    vectors = np.array([[3, 4], [0, 0], [-2e38, 2e38], [1e-40, 0]], np.float32)
    expected = [[0.6, 0.8], [0, 0], [-(0.5**0.5), 0.5**0.5], [1, 0]]
    assert_same_bits(exchange.normalized(vectors), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        (Format.TEXT, [b"New_York", b"a_b", b"_c_", b"d__e"]),
        (Format.BINARY, [b"New_York", b"a_b", b"_c_", b"d__e"]),
        (Format.TSV, [b"New York", b"a_b", b"_c_", b"d\v\fe"]),
        (Format.NPY, [b"New York", b"a\tb", b"_c_", b"d\v\fe"]),
    ],
)
def test_whitespace_in_words(format: Format, expected: list[bytes]) -> None:
    before = [b"New York", b"a\tb", b"\nc\r", b"d\v\fe"]
    changed, count = exchange.replace_white_space(word_index(*before, b"plain"), format)
    assert list(changed) == [*expected, b"plain"]
    assert count == sum(old != new for old, new in zip(before, expected, strict=True))


def test_words_that_become_equal() -> None:
    with pytest.raises(NeglmError, match="`New York` and `New_York` would both be written as `New_York`"):
        exchange.replace_white_space(word_index(b"x", b"New York", b"New_York"), Format.TEXT)
    assert exchange.replace_white_space(word_index(b"New York", b"New_York"), Format.NPY)[1] == 0


def test_binary_matches_word2vec(workplace: Path) -> None:
    vectors = np.array([[1, 2], [3, 4]], np.float32)
    exchange.write(word_index(b"a", b"b"), vectors, "out.bin", Format.BINARY)
    expected = b"2 2\na " + np.array([1, 2], "<f4").tobytes() + b"\nb " + np.array([3, 4], "<f4").tobytes() + b"\n"
    assert Path("out.bin").read_bytes() == expected


def test_the_projector(workplace: Path) -> None:
    before = some_vectors()
    assert exchange.write(before.words, before.vectors, "out.tsv", Format.TSV) == ["out.tsv", "out.metadata.tsv"]
    assert_same_bits(np.loadtxt("out.tsv", np.float32, delimiter="\t"), before.vectors)
    head, *lines = Path("out.metadata.tsv").read_bytes().splitlines()
    assert head == b"word\tcount"
    pairs = zip(before.words, before.words.counts, strict=True)
    assert lines == [b"%b\t%d" % pair for pair in pairs]


def test_numpy_reads_the_matrix(workplace: Path) -> None:
    before = some_vectors()
    assert exchange.write(before.words, before.vectors, "out.npy", Format.NPY) == ["out.npy", "out.words.txt"]
    assert_same_bits(np.load("out.npy"), before.vectors)
    assert Path("out.words.txt").read_bytes().split(b"\n") == [*before.words, b""]


def test_the_same_bytes_every_time(workplace: Path) -> None:
    before = some_vectors()
    for name in ("one.txt.gz", "two.txt.gz"):
        exchange.write(before.words, before.vectors, name, Format.TEXT)
    assert Path("one.txt.gz").read_bytes() == Path("two.txt.gz").read_bytes()
