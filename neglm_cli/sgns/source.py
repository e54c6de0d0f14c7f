"""Training data as the trainer sees it: windows, each of a target and its contexts.

A pair drawn from a table is a window of one context, so the trainer treats text and tables alike.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np


class Windows(NamedTuple):
    starts: np.ndarray  # int64 (n+1,): window w has contexts[starts[w]:starts[w+1]]
    contexts: np.ndarray  # int32: rows of the input table
    targets: np.ndarray  # int32 (n,): rows of the output table
    positions: np.ndarray  # int64 (n,): in the epoch; the key of the noise words

    @property
    def pairs(self) -> int:
        return len(self.contexts)


class Segment(NamedTuple):
    """Part of an epoch: the unit of work of a thread."""

    end: int  # its end in the epoch
    windows: Callable[[], Windows]  # computed by the thread that trains on them


class Source(Protocol):
    """Text or a table of pairs."""

    length: int  # of an epoch, in words or pairs

    @property
    def update_frequencies(self) -> tuple[np.ndarray, np.ndarray]:
        """Expected updates of each row per word or pair, for the input and output tables: float64."""
        ...

    def segments(self, epoch: int, start: int, stop: int | None = None) -> Iterator[Segment]:
        """Yield the segments of an epoch from position `start` to `stop`, or to the end."""
        ...
