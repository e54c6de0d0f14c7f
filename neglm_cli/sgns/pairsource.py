"""A table of pairs as training data, drawn in proportion to their counts."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.objective.noise import alias_table, draw_word, probabilities
from neglm_cli.objective.random import PAIR, draw, stream
from neglm_cli.sgns.source import Segment, Windows

SEGMENT = 1 << 16  # pairs


class PairSource:
    """Draws pairs from a table. The length of an epoch is the sum of its counts.

    rows, columns: int32, counts: int64: the cells of the table.
    """

    def __init__(self, rows: np.ndarray, columns: np.ndarray, counts: np.ndarray, seed: int) -> None:
        self.length = int(counts.sum())
        self._table = alias_table(probabilities(counts, 1))
        self._rows, self._columns = rows, columns
        words, contexts = (np.bincount(ids, counts) / self.length for ids in (rows, columns))
        self._update_frequencies = words, contexts
        self._seed = seed

    @property
    def update_frequencies(self) -> tuple[np.ndarray, np.ndarray]:
        return self._update_frequencies

    def segments(self, epoch: int, start: int, stop: int | None = None) -> Iterator[Segment]:
        key = stream(self._seed, PAIR, epoch)
        stop = self.length if stop is None else stop
        for first in range(start, stop, SEGMENT):
            end = min(first + SEGMENT, stop)
            yield Segment(end, partial(self._draw, first, end, key))

    def _draw(self, first: int, end: int, key: np.uint64) -> Windows:
        contexts, targets = np.empty((2, end - first), np.int32)
        draw_pairs(self._table, self._rows, self._columns, first, key, contexts, targets)
        return Windows(np.arange(end - first + 1), contexts, targets, np.arange(first, end))


@kernel
def draw_pairs(table, rows, columns, begin, key, contexts, targets):
    """Draw contexts and targets, the pairs at positions `begin` and following of an epoch."""
    for i in range(contexts.size):
        cell = draw_word(table, draw(key, np.uint64(begin + i)))
        contexts[i] = rows[cell]
        targets[i] = columns[cell]
