"""The two matrices of a model, laid out for the kernels: rows start at cache lines and are padded with zeros."""

from collections.abc import Iterator

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.random import START, draw, stream, unit
from neglm_cli.simd import ROW_UNIT, aligned
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors

ROWS_AT_ONCE = 4096


class Table:
    """A matrix of float32 (V, D). `parts` threads may have dimensions of their own, in tables one behind the other."""

    def __init__(self, rows: int, size: int, parts: int) -> None:
        self.shape = (rows, size)
        self.dtype = np.dtype(np.float32)
        self.row_size = -(-size // (ROW_UNIT * parts)) * ROW_UNIT  # of one part
        self.flat = aligned(parts * rows * self.row_size)
        self._parts = self.flat.reshape(parts, rows, self.row_size)

    def __getitem__(self, rows: "slice | np.ndarray") -> np.ndarray:
        """Some rows as an array: a copy."""
        return np.concatenate([part[rows] for part in self._parts], axis=1)[:, : self.shape[1]]

    def __setitem__(self, rows: "slice | np.ndarray", values: np.ndarray) -> None:
        for number, part in enumerate(self._parts):
            mine = values[:, number * self.row_size : (number + 1) * self.row_size]
            part[rows, : mine.shape[1]] = mine

    def blocks(self) -> Iterator[np.ndarray]:
        """All rows in order, some at a time."""
        for first in range(0, self.shape[0], ROWS_AT_ONCE):
            yield self[first : first + ROWS_AT_ONCE]

    def whole(self) -> np.ndarray:
        return self[:]

    def finite(self) -> bool:
        """Whether all numbers are numbers."""
        return all(np.isfinite(self.flat[i : i + (1 << 20)]).all() for i in range(0, len(self.flat), 1 << 20))


class Tables:
    """inputs, for words, and outputs, for contexts."""

    def __init__(self, words: int, contexts: int, size: int, parts: int = 1) -> None:
        try:
            self.inputs, self.outputs = Table(words, size, parts), Table(contexts, size, parts)
        except (MemoryError, ValueError) as error:
            need = (words + contexts) * size * 4
            raise NeglmError(
                f"vectors of size {size:,} for {words:,} words take {need:,} bytes of memory, more than there are: "
                "use a smaller --size, or a larger --min-count"
            ) from error

    def start(self, seed: int) -> None:
        """word2vec's start: words small and random, contexts zero."""
        key = stream(seed, START)
        rows, size = self.inputs.shape
        for first in range(0, rows, ROWS_AT_ONCE):
            last = min(first + ROWS_AT_ONCE, rows)
            bits = draw(key, np.arange(first * size, last * size, dtype=np.uint64))
            self.inputs[first:last] = ((unit(bits) - np.float32(0.5)) / np.float32(size)).reshape(-1, size)

    def start_from(self, given: Vectors, words: WordIndex, contexts: WordIndex) -> int:
        """Take over the vectors of words that are given; returns how many that are. The others stay as they are."""
        known = _take_over(self.inputs, words, given.vectors, given.words)
        _take_over(self.outputs, contexts, given.context_vectors, given.contexts)
        return known

    def finite(self) -> bool:
        return self.inputs.finite() and self.outputs.finite()


def _take_over(table: Table, words: WordIndex, given: np.ndarray, given_words: WordIndex) -> int:
    if not len(given_words):
        return 0
    ids = np.fromiter((given_words.id(word) for word in words), np.int64, len(words))
    known = np.flatnonzero(ids >= 0)
    for first in range(0, len(known), ROWS_AT_ONCE):
        part = known[first : first + ROWS_AT_ONCE]
        table[part] = given[ids[part]]
    return len(known)
