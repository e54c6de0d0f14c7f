"""The embedding tables, laid out for kernels: rows are aligned to cache lines and zero-padded."""

from collections.abc import Iterator

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.random import INIT, draw, stream, unit
from neglm_cli.simd import ROW_UNIT, aligned
from neglm_cli.store.container import Matrix
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.composition import SubwordInputs, compose
from neglm_cli.vectors.ngrams import NGrams
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


class NGramTable(Table):
    """The rows of n-grams, one for each bucket, and the n-grams of each word."""

    def __init__(self, ngrams: NGrams, buckets: int, size: int, parts: int) -> None:
        super().__init__(buckets, size, parts)
        self.ngrams = ngrams
        self.words = len(ngrams.starts) - 1

    def add_frequencies(self, of_words: np.ndarray) -> np.ndarray:
        """Sum the frequencies of the words that have each n-gram: float64 (buckets,)."""
        ids, starts = self.ngrams
        return np.bincount(ids, np.repeat(of_words, np.diff(starts)), self.shape[0])


class ComposedVectors:
    """The vectors of words, composed block by block: a `Matrix`."""

    def __init__(self, words: Table, ngrams: NGramTable) -> None:
        self.shape = (ngrams.words, words.shape[1])
        self._words, self._ngrams = words, ngrams

    def blocks(self) -> Iterator[np.ndarray]:
        for first in range(0, self.shape[0], BLOCK_ROWS):
            yield self[np.arange(first, min(first + BLOCK_ROWS, self.shape[0]))]

    def __getitem__(self, words: np.ndarray) -> np.ndarray:
        found = []
        for words_part, ngrams_part in zip(self._words.parts, self._ngrams.parts, strict=True):
            part = np.empty(len(words) * self._words.row_size, np.float32)
            compose(SubwordInputs(words_part, ngrams_part, *self._ngrams.ngrams, self._words.row_size), words, part)
            found.append(part.reshape(len(words), -1))
        return np.concatenate(found, axis=1)[:, : self.shape[1]]


class Tables:
    """Input vectors, of words, and output vectors, of contexts; and, for subwords, input vectors of n-grams.

    words: rows of words, 0 if they have none of their own, as in floret; buckets: for the n-grams, 0 without
    subwords."""

    ngrams: NGramTable | None

    def __init__(
        self, words: int, contexts: int, size: int, parts: int = 1, ngrams: NGrams | None = None, buckets: int = 0
    ) -> None:
        try:
            self.inputs, self.outputs = Table(words, size, parts), Table(contexts, size, parts)
            self.ngrams = NGramTable(ngrams, buckets, size, parts) if ngrams is not None else None
        except (MemoryError, ValueError) as error:
            need = (words + contexts + buckets) * size * 4
            of_ngrams = f" and {buckets:,} buckets of n-grams" if buckets else ""
            raise NeglmError(
                f"vectors of size {size:,} for {words:,} words{of_ngrams} need {need:,} bytes of memory, more than is "
                f"available; use a smaller --size, {'fewer --buckets, ' if buckets else ''}or a larger --min-count"
            ) from error

    @property
    def vectors(self) -> Matrix:
        """The vectors of words."""
        return self.inputs if self.ngrams is None else ComposedVectors(self.inputs, self.ngrams)

    @property
    def bytes(self) -> int:
        """Memory of all tables, and of the list of n-grams."""
        listed = 0 if self.ngrams is None else sum(array.nbytes for array in self.ngrams.ngrams)
        return sum(table.flat.nbytes for table in self._all()) + listed

    def initialize(self, seed: int, limit: float) -> None:
        """Initialize input vectors uniformly in ±limit/size, and output vectors with zeros.

        N-grams start at zero, unless words have no rows of their own: those that no word of the vocabulary has add
        nothing to the vectors of unknown words."""
        key = stream(seed, INIT)
        table = self.inputs if self.inputs.shape[0] or self.ngrams is None else self.ngrams
        rows, size = table.shape
        for first in range(0, rows, BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, rows)
            bits = draw(key, np.arange(first * size, last * size, dtype=np.uint64))
            table[first:last] = ((unit(bits) - np.float32(0.5)) * np.float32(2 * limit) / np.float32(size)).reshape(
                -1, size
            )

    def initialize_from(self, given: Vectors, words: WordIndex, contexts: WordIndex) -> int:
        """Copy the vectors of words that `given` contains. Return the number of these words.

        With subwords, the rows of words and n-grams are copied if both have the same n-grams. Otherwise the row of a
        word is its vector times its number of rows: as n-grams start at zero, its composed vector is the given one."""
        rows, scale = given.vectors, None
        if self.ngrams is not None:
            if given.subwords is not None and given.subwords.ngrams.shape == self.ngrams.shape:
                rows = given.subwords.words
                self.ngrams[np.arange(self.ngrams.shape[0])] = given.subwords.ngrams
            elif not self.inputs.shape[0]:
                raise NeglmError(
                    "--floret starts only from vectors of --floret with the same --subwords, --hash-count and "
                    "--buckets: its table has no rows of words to copy others to"
                )
            else:
                scale = (1 + np.diff(self.ngrams.ngrams.starts)).astype(np.float32)
        if not self.inputs.shape[0]:
            known = int((given.words.ids(words) >= 0).sum())
        else:
            known = _copy_known(self.inputs, words, rows, given.words, scale)
        _copy_known(self.outputs, contexts, given.context_vectors, given.contexts)
        return known

    def is_finite(self) -> bool:
        return all(table.is_finite() for table in self._all())

    def _all(self) -> list[Table]:
        return [self.inputs, self.outputs, *([] if self.ngrams is None else [self.ngrams])]


def _copy_known(
    table: Table, words: WordIndex, given: np.ndarray, given_words: WordIndex, scale: np.ndarray | None = None
) -> int:
    """Copy the rows of words, times the scale of each, if given. Return their number."""
    if not len(given_words):
        return 0
    ids = given_words.ids(words)
    known = np.flatnonzero(ids >= 0)
    for first in range(0, len(known), BLOCK_ROWS):
        part = known[first : first + BLOCK_ROWS]
        table[part] = given[ids[part]] if scale is None else given[ids[part]] * scale[part, None]
    return len(known)
