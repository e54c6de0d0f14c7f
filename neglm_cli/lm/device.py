"""What a trainer needs of a device: nothing in it says where the arrays are, or who multiplies them."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from neglm_cli.lm.parameters import Shape
from neglm_cli.scale.ranks import Ranks
from neglm_cli.store.container import Matrix

Tensors = dict[str, np.ndarray | Matrix]


class Minibatch(NamedTuple):
    """B rows of T words. Randomness is drawn for positions, which are the same on all devices."""

    inputs: np.ndarray  # int32 (B, T)
    targets: np.ndarray  # int32 (B, T)
    positions: np.ndarray  # uint64 (B, T): places of the targets in the corpus
    epoch: int
    number: int  # of the minibatch in its epoch
    step: int  # of all minibatches of the training, from 1 on
    rate: float


class Trained(NamedTuple):
    """What came of a minibatch."""

    loss: float  # nats, summed over words
    words: int
    norm: float  # of the gradient, before clipping


class Pending(Protocol):
    """A minibatch that is under way."""

    def result(self) -> Trained: ...


class Finished:
    """A minibatch that is done already."""

    def __init__(self, trained: Trained) -> None:
        self._trained = trained

    def result(self) -> Trained:
        return self._trained


class Scores(NamedTuple):
    """Of each word, float64 (B, T)."""

    log_probabilities: np.ndarray  # exact, natural logarithms
    log_z: np.ndarray  # what normalised them


class Scorer(Protocol):
    """Reads on from where it is; begins with no state."""

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        """inputs, targets: int32 (1, T), T at most what was asked for."""
        ...

    def pass_over(self, inputs: np.ndarray) -> None:
        """Read on without scores, which takes less time."""
        ...


def rows_of_all(ranks: Ranks, state: np.ndarray) -> np.ndarray:
    """At the first process: the state of all rows of the batch, from that of each process's own; (L, B, H)."""
    rows = np.ascontiguousarray(state.transpose(1, 0, 2))  # so that one process's follow another's
    together = ranks.gather_arrays(rows.reshape(-1)).reshape(-1, *rows.shape[1:])
    return np.ascontiguousarray(together.transpose(1, 0, 2))


class Device(Protocol):
    shape: Shape

    def prepare_training(self) -> None:
        """Make the arrays that only a training needs."""
        ...

    def train(self, minibatch: Minibatch) -> Pending:
        """Begin to train on a minibatch: after the one before, and whether or not someone waits for the result."""
        ...

    def log_z(self) -> np.ndarray:
        """log Z at the last words of the last minibatch."""
        ...

    def scorer(self, rows: int) -> Scorer:
        """With the parameters as they are; for one row of text, `rows` words at a time."""
        ...

    def finish_moves(self, step: int, rate: float) -> None:
        """Make up for all that was put off (see --adam exact), so that the parameters are what they should be."""
        ...

    def parameters(self) -> Tensors:
        """The tensors of a language model file."""
        ...

    def state(self) -> Tensors:
        """The other tensors of a training state file."""
        ...

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Go on from such tensors."""
        ...

    def close(self) -> None: ...
