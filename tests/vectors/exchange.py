"""Vectors for tests of export and import."""

import numpy as np
from hypothesis import strategies as st

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.exchange import read
from neglm_cli.vectors.reading import Table
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors

WORDS = [b"the", b"of", "süß".encode(), b"1", b"-", b"a_b", b"nan", b"e5", "日本".encode(), b"zebra"]


def vectors_of(words: list[bytes], vectors: np.ndarray, counts: list[int] | None = None) -> Vectors:
    index = WordIndex.of(words, np.array(counts or [1] * len(words)))
    matrix = np.asarray(vectors, np.float32)
    return Vectors(index, matrix, NO_CONTEXTS, np.empty((0, matrix.shape[1]), np.float32))


def some_vectors(size: int = 7) -> Vectors:
    random = np.random.default_rng(3)
    return vectors_of(WORDS, random.standard_normal((len(WORDS), size)), list(range(100, 100 - len(WORDS), -1)))


def read_back(path: str) -> Table:
    return read(path, None, None)[0]


def assert_same_bits(left: np.ndarray, right: np.ndarray) -> None:
    assert left.dtype == right.dtype == np.float32
    assert left.shape == right.shape
    np.testing.assert_array_equal(left.view(np.uint32), right.view(np.uint32))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Draw words of any bytes except whitespace, and finite values of all magnitudes."""
    allowed = st.sampled_from([byte for byte in range(256) if byte not in b" \t\n\r\v\f"])
    word = st.lists(allowed, min_size=1, max_size=8).map(bytes)
    words = draw(st.lists(word, min_size=1, max_size=6, unique=True))
    size = draw(st.integers(2, 6))
    finite = st.integers(0, 2**32 - 1).filter(lambda bits: bits & 0x7F800000 != 0x7F800000)
    count = len(words) * size
    bits = draw(st.lists(finite, min_size=count, max_size=count))
    return Table(words, np.array(bits, np.uint32).view(np.float32).reshape(len(words), size))
