"""Data-parallel training: each rank trains on its own shards of the corpus, and the ranks average their tables.

In a round, each rank trains on one shard. The rows of the most frequent words are averaged after every round, twice as
many less frequent ones after every second, four times as many after every fourth, and so on: by Zipf's law, all rows
have then had about the same number of updates.

Between two averages, each of N ranks applies n updates, starting from common values. What would one rank reach after
all n·N updates? If an update covers a fraction r of the distance to the optimum, n updates cover 1 − (1−r)^n. So the
step from the last common values to the mean is scaled by (1 − (1−r)^(nN)) / (1 − (1−r)^n): by N for words with few
updates, which add up; by 1 for words that have converged. r is assumed to be the learning rate. That is too small in
the few directions that most vectors share, where updates are large; short rounds limit the overshoot there.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.scale.ranks import Ranks
from neglm_cli.sgns.tables import Table, Tables

EVERY_ROUND = 256  # rows averaged after every round
ALL_AFTER = 64  # rounds after which all rows are averaged
BLOCK_ROWS = 1 << 16


def rows_after(number: int, rows: int) -> int:
    """Return how many rows, the most frequent first, are averaged after a round; the first round is 1."""
    return rows if number % ALL_AFTER == 0 else min(rows, EVERY_ROUND * (2 * (number & -number) - 1))


def step_scale(updates: np.ndarray, fraction: float, ranks: int) -> np.ndarray:
    """Return the factor of the step to the mean, from 1 to the number of ranks. updates: of each row; fraction: r."""
    decay = -np.log1p(-min(fraction, 0.5)) * np.maximum(updates, 1e-9)
    return np.expm1(-decay * ranks) / np.expm1(-decay)


def bytes_of_copies(tables: Tables, used: int) -> int:
    """Return the memory of the values that `Averaging` keeps. used: rows of n-grams that words have."""
    rows = tables.inputs.shape[0] + tables.outputs.shape[0] + used
    return rows * (4 * tables.outputs.shape[1] + 16)  # common, per_word and pending


class _Averaged(NamedTuple):
    """A table of which some rows are averaged, the most frequent first."""

    table: Table
    rows: np.ndarray | None  # int64, in this order; None for all, in the order of the table
    common: np.ndarray  # float32 (rows, D): values after the last average
    per_word: np.ndarray  # float64 (rows,): see `Source.update_frequencies`
    pending: np.ndarray  # float64 (rows,): words trained since then

    @staticmethod
    def of(table: Table, per_word: np.ndarray) -> "_Averaged":
        return _Averaged(table, None, table[:], per_word, np.zeros(len(per_word)))

    @staticmethod
    def by_frequency(table: Table, per_word: np.ndarray) -> "_Averaged":
        """Sort the rows, and leave out those that are never updated."""
        rows = np.argsort(-per_word, kind="stable")[: np.count_nonzero(per_word)]
        return _Averaged(table, rows, table[rows], per_word[rows], np.zeros(len(rows)))


class Averaging:
    """Averages the tables of all ranks. update_frequencies: see `Source`."""

    def __init__(self, ranks: Ranks, tables: Tables, update_frequencies: tuple[np.ndarray, np.ndarray]) -> None:
        self._ranks = ranks
        of_words, of_contexts = update_frequencies
        self._tables = [_Averaged.of(tables.outputs, of_contexts)]
        if tables.inputs.shape[0]:
            self._tables.insert(0, _Averaged.of(tables.inputs, of_words))
        if tables.ngrams is not None:
            of_ngrams = tables.ngrams.add_frequencies(of_words)
            self._tables.append(_Averaged.by_frequency(tables.ngrams, of_ngrams))
        self._rounds = 0

    def after_round(self, words: int, rate: float) -> None:
        """Average the rows that are due. words: trained by each rank in the round."""
        self._rounds += 1
        for averaged in self._tables:
            averaged.pending[:] += words
        self._average(rate, self._rounds)

    def average_all(self, rate: float) -> None:
        """Average all rows, so that all ranks have the same tables."""
        self._average(rate, ALL_AFTER)

    def _average(self, rate: float, number: int) -> None:
        size = self._ranks.size
        for table, rows, common, per_word, pending in self._tables:
            due = rows_after(number, len(pending))
            for first in range(0, due, BLOCK_ROWS):
                part = slice(first, min(first + BLOCK_ROWS, due))
                in_table = part if rows is None else rows[part]
                steps = table[in_table] - common[part]
                self._ranks.allreduce(steps.reshape(-1))
                factors = step_scale(pending[part] * per_word[part], rate, size) / size
                common[part] += factors[:, None].astype(np.float32) * steps
                table[in_table] = common[part]
            pending[:due] = 0
