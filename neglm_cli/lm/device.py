"""The device protocol: what a trainer and a scorer need of a backend (reference, CPU, CUDA)."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from neglm_cli.lm.parameters import Shape
from neglm_cli.scale.ranks import Ranks
from neglm_cli.store.container import Matrix

Tensors = dict[str, np.ndarray | Matrix]


class Minibatch(NamedTuple):
    """B rows of T words. Random numbers are drawn by position, so that they are the same on all devices."""

    inputs: np.ndarray  # int32 (B, T)
    targets: np.ndarray  # int32 (B, T)
    positions: np.ndarray  # uint64 (B, T): of the targets in the corpus
    epoch: int
    number: int  # of the minibatch in its epoch
    step: int  # of all minibatches of the training, from 1 on
    rate: float


class StepResult(NamedTuple):
    """The result of a training step."""

    loss: float  # nats, summed over words
    words: int
    norm: float  # of the gradient, before clipping


class Pending(Protocol):
    """A training step that was submitted."""

    def result(self) -> StepResult: ...


class Finished:
    """A training step that is done."""

    def __init__(self, trained: StepResult) -> None:
        self._trained = trained

    def result(self) -> StepResult:
        return self._trained


class Scores(NamedTuple):
    """Scores of each word, float64 (B, T)."""

    log_probabilities: np.ndarray  # exact, natural logarithms
    log_z: np.ndarray  # their log-normalizers


class Scorer(Protocol):
    """Scores a text piece by piece, from a zero state on."""

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        """Score targets. inputs, targets: int32 (1, T), T at most as many as the scorer was made for."""
        ...

    def advance(self, inputs: np.ndarray) -> None:
        """Update the state without scoring, which is faster."""
        ...


def gather_rows(ranks: Ranks, state: np.ndarray) -> np.ndarray:
    """Gather the states of all rows of the batch at rank 0, from each rank's own: (L, B, H)."""
    rows = np.ascontiguousarray(state.transpose(1, 0, 2))  # so that the ranks' rows are contiguous
    gathered = ranks.gather_arrays(rows.reshape(-1)).reshape(-1, *rows.shape[1:])
    return np.ascontiguousarray(gathered.transpose(1, 0, 2))


class Device(Protocol):
    """A model in the memory of a backend."""

    shape: Shape

    def prepare_training(self) -> None:
        """Allocate what only training needs."""
        ...

    def train(self, minibatch: Minibatch) -> Pending:
        """Submit a training step, which runs after those before it."""
        ...

    def log_z(self) -> np.ndarray:
        """log Z after the last words of the last minibatch."""
        ...

    def scorer(self, rows: int) -> Scorer:
        """A scorer with the current parameters, for at most `rows` words at a time."""
        ...

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        """Apply the updates of exact Adam that rows have skipped, after `step` steps."""
        ...

    def parameters(self) -> Tensors:
        """The tensors of a language model file."""
        ...

    def state(self) -> Tensors:
        """The other tensors of a checkpoint."""
        ...

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Load the tensors of a checkpoint."""
        ...

    def close(self) -> None: ...
