"""Training with other processes: each trains on parts of the corpus of its own, and now and then they average.

A round is a part for each process. The rows of the most frequent words are averaged after every round, those of twice
as many less frequent ones after every second, of four times as many after every fourth, and so on: by Zipf's law all
have then moved about as often.

Between two averages N processes go n steps each, from a common place. Had one gone all n·N steps, where would it be?
If a step covers a share r of what is left of the way, n steps cover 1 − (1−r)^n of it. So the next common place is the
mean of theirs, but farther from the last by the factor (1 − (1−r)^(nN)) / (1 − (1−r)^n): N for words that have hardly
moved, whose steps add up; 1 for those that are where they want to be. r is taken to be the learning rate. That is too
little in the few directions that most vectors share, where steps are long: what keeps the sum from going too far there
are rounds that are short.
"""

import numpy as np

from neglm_cli.scale.ranks import Ranks
from neglm_cli.sgns.tables import Tables

ALWAYS = 256  # rows that are averaged after every round
ALL_AFTER = 64  # rounds
ROWS_AT_ONCE = 1 << 16


def rows_after(number: int, rows: int) -> int:
    """How many of the first rows are averaged after this round, the first being 1."""
    return rows if number % ALL_AFTER == 0 else min(rows, ALWAYS * (2 * (number & -number) - 1))


def farther(steps: np.ndarray, share: float, processes: int) -> np.ndarray:
    """How much farther than the mean: between 1 and the number of processes. share: r."""
    way = -np.log1p(-min(share, 0.5)) * np.maximum(steps, 1e-9)
    return np.expm1(-way * processes) / np.expm1(-way)


class Averaging:
    """steps: how often each word and each context is expected to be moved, for each word of the corpus."""

    def __init__(self, ranks: Ranks, tables: Tables, steps: tuple[np.ndarray, np.ndarray]) -> None:
        self._ranks = ranks
        both = (tables.inputs, tables.outputs)
        self._tables = [
            (table, table[:], per_word, np.zeros(len(per_word))) for table, per_word in zip(both, steps, strict=True)
        ]
        self._rounds = 0

    def after_round(self, words: int, rate: float) -> None:
        """words: those that each process has trained on."""
        self._rounds += 1
        for _, _, _, waited in self._tables:
            waited += words
        self._average(rate, self._rounds)

    def everything(self, rate: float) -> None:
        """So that all processes have the same tables."""
        self._average(rate, ALL_AFTER)

    def _average(self, rate: float, number: int) -> None:
        size = self._ranks.size
        for table, common, per_word, waited in self._tables:
            rows = rows_after(number, table.shape[0])
            for first in range(0, rows, ROWS_AT_ONCE):
                part = slice(first, min(first + ROWS_AT_ONCE, rows))
                ways = table[part] - common[part]
                self._ranks.allreduce(ways.reshape(-1))
                factors = farther(waited[part] * per_word[part], rate, size) / size
                common[part] += factors[:, None].astype(np.float32) * ways
                table[part] = common[part]
            waited[:rows] = 0
