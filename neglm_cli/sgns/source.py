"""What training sees: windows, each a target and the contexts it makes pairs with.

Text has windows, and a pair that is drawn from a table is a window of one context; the trainer does not know which.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np


class Windows(NamedTuple):
    starts: np.ndarray  # int64 (n+1,): window w has contexts starts[w] to starts[w+1]
    contexts: np.ndarray  # int32: their rows in the table of inputs
    targets: np.ndarray  # int32 (n,): rows in the table of outputs
    places: np.ndarray  # int64 (n,): where in the epoch each stands, for which its noise is drawn

    @property
    def pairs(self) -> int:
        return len(self.contexts)


class Stretch(NamedTuple):
    """A part of an epoch, large enough to be worth a thread's while."""

    end: int  # where in the epoch it ends
    windows: Callable[[], Windows]  # makes them: work for the thread that trains on them


class Source(Protocol):
    """What is trained on, epoch after epoch."""

    length: int  # of an epoch, in words or pairs

    @property
    def moves(self) -> tuple[np.ndarray, np.ndarray]:
        """How often each row of the inputs and of the outputs occurs, for a word or pair: float64."""
        ...

    def stretches(self, epoch: int, start: int, stop: int | None = None) -> Iterator[Stretch]:
        """The stretches of an epoch, from the one that starts there to the one that ends at `stop`, or to
        the last."""
        ...
