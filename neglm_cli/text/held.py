"""A corpus in memory, as a sequence of word ids."""

import numpy as np


class Held:
    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids.astype(np.int32)
        self.length = len(ids)

    def cursor(self, position: int) -> "Place":
        return Place(self.ids, position)


class Place:
    def __init__(self, ids: np.ndarray, position: int) -> None:
        self._ids = ids
        self._position = position

    def take(self, count: int) -> np.ndarray:
        taken = self._ids[self._position : self._position + count]
        self._position += len(taken)
        return taken
