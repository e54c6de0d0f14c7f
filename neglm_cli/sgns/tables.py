"""The two embedding tables, laid out for kernels: rows are aligned to cache lines and zero-padded."""

from collections.abc import Iterator

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.random import INIT, draw, stream, unit
from neglm_cli.simd import ROW_UNIT, aligned
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors

BLOCK_ROWS = 4096


class Table:
    """A float32 matrix (V, D), split by dimension into `parts` matrices, one per thread.

    If threads shared rows, hardware prefetching would cause false sharing of cache lines.
    """

    def __init__(self, rows: int, size: int, parts: int) -> None:
        self.shape = (rows, size)
        self.dtype = np.dtype(np.float32)
        self.row_size = -(-size // (ROW_UNIT * parts)) * ROW_UNIT  # of one part
        self.flat = aligned(parts * rows * self.row_size)
        self.parts = self.flat.reshape(parts, rows * self.row_size)
        self._matrices = self.flat.reshape(parts, rows, self.row_size)

    def __getitem__(self, rows: "slice | np.ndarray") -> np.ndarray:
        """Copy rows to an array."""
        return np.concatenate([part[rows] for part in self._matrices], axis=1)[:, : self.shape[1]]

    def __setitem__(self, rows: "slice | np.ndarray", values: np.ndarray) -> None:
        for i, part in enumerate(self._matrices):
            columns = values[:, i * self.row_size : (i + 1) * self.row_size]
            part[rows, : columns.shape[1]] = columns

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield blocks of rows, in order."""
        for first in range(0, self.shape[0], BLOCK_ROWS):
            yield self[first : first + BLOCK_ROWS]

    def is_finite(self) -> bool:
        """Return True if there are no NaN or infinite values."""
        return all(np.isfinite(self.flat[i : i + (1 << 20)]).all() for i in range(0, len(self.flat), 1 << 20))


class Tables:
    """Input vectors, of words, and output vectors, of contexts."""

    def __init__(self, words: int, contexts: int, size: int, parts: int = 1) -> None:
        try:
            self.inputs, self.outputs = Table(words, size, parts), Table(contexts, size, parts)
        except (MemoryError, ValueError) as error:
            need = (words + contexts) * size * 4
            raise NeglmError(
                f"vectors of size {size:,} for {words:,} words need {need:,} bytes of memory, more than is available; "
                "use a smaller --size, or a larger --min-count"
            ) from error

    def initialize(self, seed: int) -> None:
        """Initialize like word2vec: small random input vectors, zero output vectors."""
        key = stream(seed, INIT)
        rows, size = self.inputs.shape
        for first in range(0, rows, BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, rows)
            bits = draw(key, np.arange(first * size, last * size, dtype=np.uint64))
            self.inputs[first:last] = ((unit(bits) - np.float32(0.5)) / np.float32(size)).reshape(-1, size)

    def initialize_from(self, given: Vectors, words: WordIndex, contexts: WordIndex) -> int:
        """Copy the vectors of words that `given` contains. Return the number of these words."""
        known = _copy_known(self.inputs, words, given.vectors, given.words)
        _copy_known(self.outputs, contexts, given.context_vectors, given.contexts)
        return known

    def is_finite(self) -> bool:
        return self.inputs.is_finite() and self.outputs.is_finite()


def _copy_known(table: Table, words: WordIndex, given: np.ndarray, given_words: WordIndex) -> int:
    if not len(given_words):
        return 0
    ids = given_words.ids(words)
    known = np.flatnonzero(ids >= 0)
    for first in range(0, len(known), BLOCK_ROWS):
        part = known[first : first + BLOCK_ROWS]
        table[part] = given[ids[part]]
    return len(known)
