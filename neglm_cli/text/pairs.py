"""Pairs (x, y) with counts: a sparse co-occurrence matrix."""

from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError, times
from neglm_cli.text.byte_order import gather_words, sort_by_bytes
from neglm_cli.text.tokens import padded
from neglm_cli.text.word_index import WordIndex


class Pairs:
    """A sparse co-occurrence matrix in COO format. Cell i is (words[rows[i]], contexts[columns[i]]).

    Cells are distinct and sorted by row, then by column; the constructor sorts them and sums duplicates.
    Some words and contexts may have no cell, if they come from vectors trained on more pairs.
    """

    def __init__(
        self,
        words: WordIndex,
        contexts: WordIndex,
        rows: np.ndarray,
        columns: np.ndarray,
        counts: np.ndarray,
        files: list[dict[str, Any]] | None = None,
    ) -> None:
        keys = rows.astype(np.int64) * max(1, len(contexts)) + columns
        if len(keys) and not (keys[1:] > keys[:-1]).all():
            keys, counts = add_up(keys, counts)
            rows, columns = np.divmod(keys, len(contexts))
        self.words = words  # V
        self.contexts = contexts  # C
        self.rows = rows.astype(np.int32)  # (N,)
        self.columns = columns.astype(np.int32)  # (N,)
        self.counts = counts.astype(np.int64)  # (N,): at least 1
        self.files = files or []  # path, size and fingerprint of each input file

    def __len__(self) -> int:
        """Return the number of distinct pairs."""
        return len(self.counts)

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def row_totals(self) -> np.ndarray:
        """Counts of each x, int64 (V,)."""
        return _totals(self.rows, self.counts, len(self.words))

    @property
    def column_totals(self) -> np.ndarray:
        """Counts of each y, int64 (C,)."""
        return _totals(self.columns, self.counts, len(self.contexts))

    def count(self, row: int, column: int) -> int:
        """Return the count of a pair."""
        first, last = np.searchsorted(self.rows, [row, row + 1])
        cell = first + np.searchsorted(self.columns[first:last], column)
        return int(self.counts[cell]) if cell < last and self.columns[cell] == column else 0

    def cut(self, min_count: int) -> "Pairs":
        """Drop each x and each y that occurs fewer than `min_count` times, and their pairs."""
        if min_count <= 1:
            return self
        rows, columns = self.row_totals, self.column_totals
        kept = (rows[self.rows] >= min_count) & (columns[self.columns] >= min_count)
        if not kept.any():
            raise NeglmError(
                f"--min-count {min_count} leaves no pairs: the most frequent left side occurs "
                f"{times(int(rows.max()))}, the most frequent right side {times(int(columns.max()))}; lower --min-count"
            )
        cells = Pairs(self.words, self.contexts, self.rows[kept], self.columns[kept], self.counts[kept], self.files)
        words, row_ids = ranked(self.words.offsets, cells.row_totals, padded(self.words.words.data))
        contexts, column_ids = ranked(self.contexts.offsets, cells.column_totals, padded(self.contexts.words.data))
        return Pairs(words, contexts, row_ids[cells.rows], column_ids[cells.columns], cells.counts, self.files)

    def restricted(self, words: WordIndex, contexts: WordIndex) -> "Pairs":
        """Keep the pairs of these words and contexts, with their ids."""
        row_ids = words.ids(self.words)
        column_ids = contexts.ids(self.contexts)
        rows, columns = row_ids[self.rows], column_ids[self.columns]
        known = (rows >= 0) & (columns >= 0)
        return Pairs(words, contexts, rows[known], columns[known], self.counts[known], self.files)


def add_up(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys, sorted, and the sum of the counts of each."""
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[firsts], np.add.reduceat(counts[order], firsts)


def ranked(offsets: np.ndarray, counts: np.ndarray, word_bytes: np.ndarray) -> tuple[WordIndex, np.ndarray]:
    """Index a table's words by descending count, then by bytes. Return the word index and the ids of the entries.

    Entries with a count of 0 are left out: their id is -1.
    """
    entries = sort_by_bytes(np.flatnonzero(counts), offsets, word_bytes)
    order = entries[np.argsort(-counts[entries], kind="stable")]
    new_offsets = np.empty(len(order) + 1, np.int64)
    words = np.empty(int((offsets[order + 1] - offsets[order]).sum()), np.uint8)
    gather_words(order, offsets, word_bytes, new_offsets, words)
    ids = np.full(len(counts), -1)
    ids[order] = np.arange(len(order))
    return WordIndex(words, new_offsets, counts[order]), ids


def _totals(ids: np.ndarray, counts: np.ndarray, size: int) -> np.ndarray:
    totals = np.zeros(size, np.int64)
    np.add.at(totals, ids, counts)
    return totals
