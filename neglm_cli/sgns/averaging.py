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

import numpy as np

from neglm_cli.scale.ranks import Ranks
from neglm_cli.sgns.tables import Tables

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


class Averaging:
    """Averages the tables of all ranks. update_frequencies: see `Source`."""

    def __init__(self, ranks: Ranks, tables: Tables, update_frequencies: tuple[np.ndarray, np.ndarray]) -> None:
        self._ranks = ranks
        both = (tables.inputs, tables.outputs)
        self._tables = [
            (table, table[:], per_word, np.zeros(len(per_word)))
            for table, per_word in zip(both, update_frequencies, strict=True)
        ]
        self._rounds = 0

    def after_round(self, words: int, rate: float) -> None:
        """Average the rows that are due. words: trained by each rank in the round."""
        self._rounds += 1
        for _, _, _, pending in self._tables:
            pending += words
        self._average(rate, self._rounds)

    def average_all(self, rate: float) -> None:
        """Average all rows, so that all ranks have the same tables."""
        self._average(rate, ALL_AFTER)

    def _average(self, rate: float, number: int) -> None:
        size = self._ranks.size
        for table, common, per_word, pending in self._tables:
            rows = rows_after(number, table.shape[0])
            for first in range(0, rows, BLOCK_ROWS):
                part = slice(first, min(first + BLOCK_ROWS, rows))
                steps = table[part] - common[part]
                self._ranks.allreduce(steps.reshape(-1))
                factors = step_scale(pending[part] * per_word[part], rate, size) / size
                common[part] += factors[:, None].astype(np.float32) * steps
                table[part] = common[part]
            pending[:rows] = 0
