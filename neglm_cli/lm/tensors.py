"""Tables on their way to a file."""

from collections.abc import Iterator

import numpy as np

from neglm_cli.lm.device import Tensors

ROWS_AT_ONCE = 4096


class Rows:
    """A table without the padding of its rows, which is written some rows at a time: it is never copied as a whole."""

    def __init__(self, table: np.ndarray, width: int) -> None:
        self.shape = (len(table), width)
        self.dtype = table.dtype
        self._table = table

    def blocks(self) -> Iterator[np.ndarray]:
        width = self.shape[1]
        for first in range(0, len(self._table), ROWS_AT_ONCE):
            yield np.ascontiguousarray(self._table[first : first + ROWS_AT_ONCE, :width])


def whole(tensors: Tensors) -> dict[str, np.ndarray]:
    """As arrays in memory, which is for small models."""
    return {name: t if isinstance(t, np.ndarray) else np.concatenate(list(t.blocks())) for name, t in tensors.items()}
