"""The protocols of a backend (reference, CPU, CUDA): `Device` trains a model, `Scorer` scores text with it."""

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
    decay: float = 0.0  # share of a parameter that a step removes, or of its distance to the trained one (adaptation)


class StepResult(NamedTuple):
    """The result of a training step."""

    loss: float  # nats, summed over words
    words: int
    norm: float  # of the gradient, before clipping


class Pending(Protocol):
    """A submitted training step."""

    def result(self) -> StepResult: ...


class Finished:
    """A completed training step."""

    def __init__(self, trained: StepResult) -> None:
        self._trained = trained

    def result(self) -> StepResult:
        return self._trained


class Scores(NamedTuple):
    """Scores of each word, float64 (B, T)."""

    log_probabilities: np.ndarray  # exact, natural logarithms
    log_z: np.ndarray  # their log-normalizers


class State(NamedTuple):
    """Hidden and cell states of B rows of text, (L, B, H) each."""

    h: np.ndarray
    c: np.ndarray

    @classmethod
    def zeros(cls, shape: Shape, rows: int) -> "State":
        return cls(*np.zeros((2, shape.layers, rows, shape.hidden), np.float32))

    @classmethod
    def concatenate(cls, states: "list[State]") -> "State":
        return cls(*(np.concatenate(arrays, axis=1) for arrays in zip(*states, strict=True)))

    def select(self, rows: np.ndarray | slice) -> "State":
        return State(self.h[:, rows], self.c[:, rows])


class StepOutput(NamedTuple):
    """The result of reading one word in each of B rows."""

    state: State
    y: np.ndarray  # (B, ·): the output of the last layer, which predicts the next word


class Scorer(Protocol):
    """Scores texts with a device's parameters, at most `capacity` words a call.

    `score` and `advance` read B texts side by side, T words of each. The scorer keeps their states: a call continues
    where the last one ended, with the same B. `step` takes states as arguments instead, so that a caller can branch; it
    discards the states that the scorer keeps.
    """

    capacity: int

    def reset(self, state: State | None = None) -> None:
        """Start new texts, from zero states or from given ones, of B rows."""
        ...

    def parameters_changed(self) -> None:
        """Discard what was computed from parameters, because a training step has changed them."""
        ...

    def advance(self, inputs: np.ndarray) -> None:
        """Read words without scoring, which is faster. inputs: int32 (B, T)."""
        ...

    def score(
        self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True, sizes: np.ndarray | None = None
    ) -> Scores:
        """Score targets. inputs, targets: int32 (B, T).

        If not normalized, logits stand in for log-probabilities, log Z is 0, and the time does not depend on the size
        of the vocabulary. sizes (B,): the number of words of each row, longest first, if rows end before T. Then the
        values after a row's end mean nothing, and a row that has ended must not go on.
        """
        ...

    def outputs(self) -> np.ndarray:
        """The outputs of the last layer that the last call of `score` predicted from: float32 (B, T, H)."""
        ...

    def step(self, state: State | None, words: np.ndarray) -> StepOutput:
        """Read one word in each row. words: (B,); state: of the rows before these words, None for zeros."""
        ...

    def log_z(self, y: np.ndarray) -> np.ndarray:
        """The log-normalizer of each row of y: float64 (B,). At most `capacity` rows."""
        ...

    def target_logits(self, y: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The logit of targets[i] for row i of y: float64 (B,). Any number of rows."""
        ...

    def logits(self, y: np.ndarray) -> np.ndarray:
        """The logits of all words: (B, V). At most `capacity` rows."""
        ...


def gather_rows(ranks: Ranks, state: np.ndarray) -> np.ndarray:
    """Gather the states of all rows of the batch at rank 0, from each rank's own: (L, B, H)."""
    rows = np.ascontiguousarray(state.transpose(1, 0, 2))  # so that the ranks' rows are contiguous
    gathered = ranks.gather_arrays(rows.reshape(-1)).reshape(-1, *rows.shape[1:])
    return np.ascontiguousarray(gathered.transpose(1, 0, 2))


def rows_of_tables(shape: Shape, inputs: np.ndarray | None, targets: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the rows of each table that words have as inputs and as targets, int32. None stands for all words."""
    words = {shape.input_vectors: [inputs]}
    words.setdefault("output", []).append(targets)
    return {
        table: np.arange(shape.words, dtype=np.int32)
        if any(each is None for each in needed)
        else np.unique(np.concatenate([each.reshape(-1) for each in needed if each is not None])).astype(np.int32)
        for table, needed in words.items()
    }


class Device(Protocol):
    """A model in the memory of a backend."""

    shape: Shape

    def prepare_training(self) -> None:
        """Allocate the arrays that only training needs."""
        ...

    def train(self, minibatch: Minibatch) -> Pending:
        """Submit a training step. Steps run in the order of submission."""
        ...

    def add_to_average(self, number: int) -> None:
        """Submit an update of the parameters' average by their values after the steps submitted so far. number: of this
        snapshot, from 1 on."""
        ...

    def swap_average(self) -> None:
        """Exchange the parameters and their average, to validate or save it."""
        ...

    def log_z(self) -> np.ndarray:
        """Compute log Z after the last words of the last minibatch, float64, one value a row."""
        ...

    def scorer(self, capacity: int) -> Scorer:
        """Make a scorer with the current parameters, for at most `capacity` words a call."""
        ...

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        """Apply the updates of exact Adam that rows skipped in the first `step` steps."""
        ...

    def flush_decay(self, step: int, decay: float, inputs: np.ndarray | None, targets: np.ndarray | None) -> None:
        """Apply the decay of anchored SGD that rows skipped in the first `step` steps, before they are read.

        inputs, targets: words whose rows of the embedding and of the output table are needed; None for all.
        """
        ...

    def parameters(self) -> Tensors:
        """Return the tensors of a language model file."""
        ...

    def state(self) -> Tensors:
        """Return the other tensors of a training state file."""
        ...

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Load the tensors of a checkpoint."""
        ...

    def close(self) -> None: ...
