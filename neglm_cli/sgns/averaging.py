"""Training with other processes: each trains on parts of the corpus of its own, and now and then they average.

A round is a part for each process. The rows of the 256 most frequent words are averaged after every round, those of
the next 512 after every second one, of the next 1024 after every fourth, and so on: by Zipf's law all have then moved
about as often. Between two averages each process goes its own way from a common place; the next one is there plus the
mean of their ways, times a factor: that many more steps, of N processes, would have led farther.
"""

import os

import numpy as np

from neglm_cli.scale.ranks import Ranks
from neglm_cli.sgns.tables import Tables

ALWAYS = 256  # rows that are averaged after every round
ALL_AFTER = 32  # rounds
EVERY_ROW = 1 << 62
ROWS_AT_ONCE = 1 << 16


def rows_after(number: int) -> int:
    """How many of the first rows are averaged after this round, the first being 1."""
    if number % ALL_AFTER == 0:
        return EVERY_ROW
    return ALWAYS * (2 * (number & -number) - 1)


class Averaging:
    def __init__(self, ranks: Ranks, tables: Tables) -> None:
        self._ranks = ranks
        self._tables = [(table, table[:]) for table in (tables.inputs, tables.outputs)]
        self._rounds = 0

    def after_round(self) -> None:
        self._rounds += 1
        self._average(rows_after(self._rounds))

    def everything(self) -> None:
        """So that all processes have the same tables."""
        self._average(EVERY_ROW)

    def _average(self, rows: int) -> None:
        factor = np.float32(os.environ.get("FACTOR", "1"))
        for table, common in self._tables:
            for first in range(0, min(rows, table.shape[0]), ROWS_AT_ONCE):
                part = slice(first, min(first + ROWS_AT_ONCE, rows, table.shape[0]))
                way = table[part] - common[part]
                self._ranks.sum(way.reshape(-1))
                common[part] += factor * way
                table[part] = common[part]
