"""The losses, with a common interface: `sample` noise words for a minibatch, `compute` the loss, `gather` gradients.

A loss writes the gradient of y to d_y. Gradients of the output table are sparse (`gradients`, see `tables`) or, for the
softmax, dense. In a tied model the inputs of a minibatch are occurrences of the output table, too: their gradients, the
rows of d_x, are copied to `d_inputs` before `gather`.
"""

from typing import Any, Protocol

import numpy as np

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig
from neglm_cli.lm.cpu.batch_parts import part_of_rows
from neglm_cli.lm.cpu.gemm import PANEL, Reduction
from neglm_cli.lm.cpu.sampled import (
    OutputLayer,
    SharedNoise,
    draw_shared_noise,
    gradients_of_shared_noise,
    list_shared_occurrences,
    list_token_occurrences,
    shared_loss_of_rows,
    token_loss_of_rows,
)
from neglm_cli.lm.cpu.softmax import BLOCK, ROW, SoftmaxBuffers, softmax_loss
from neglm_cli.lm.cpu.step import sum_of_output_squares
from neglm_cli.lm.cpu.tables import (
    SparseGradients,
    gather_gradients,
    group_occurrences,
    list_inputs,
)
from neglm_cli.lm.cpu.threads import Worker, synchronize
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.lm.setup import MAX_SCORES
from neglm_cli.settings.train_lm import Settings


class Loss(Protocol):
    """A loss function of y. All threads of a team call it concurrently."""

    y: np.ndarray  # (N, ·): output of the forward pass
    gradients: SparseGradients  # of the output table; no rows for the softmax
    d_inputs: np.ndarray | None  # (N, ·): gradients of the inputs of a tied model, else None
    scratch: int  # values per thread

    @property
    def dense_gradients(self) -> np.ndarray | None:
        """Gradients of the output table, (V, ·), for the softmax; None if they are sparse."""
        ...

    def sample(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> None:
        """Draw noise words, and find the thread's rows of the output table."""
        ...

    def compute(
        self, table: np.ndarray, d_y: np.ndarray, batch: BatchArrays, config: StepConfig, reduction: Reduction,
        worker: Worker,
    ) -> float:  # fmt: skip
        """Compute the loss and the gradient of y. Return the thread's part of the loss."""
        ...

    def gather(self, reduction: Reduction, worker: Worker) -> float:
        """Compute the gradients of the output table. Return the thread's part of their sum of squares."""
        ...

    def buffers(self) -> tuple[Any, ...]:
        """Return the arrays it has allocated, except gradients of the output table."""
        ...

    def table_gradients(self) -> tuple[Any, ...]:
        """Return the arrays of the output table's gradients."""
        ...

    def noise_words(self, config: StepConfig) -> np.ndarray | None:
        """Return the noise words of a minibatch if all ranks share them; None if each rank draws its own."""
        ...


def make_loss(shape: Shape, settings: Settings, parts: np.ndarray, noise: np.ndarray, offsets: np.ndarray) -> Loss:
    """Create the loss for some rows of a batch. noise: the alias table; offsets: float32 (V,), added to training
    scores."""
    if not settings.sampled:
        return SoftmaxLoss(shape, settings, parts, offsets)
    kind = SharedLoss if settings.shared_noise else TokenLoss
    return kind(shape, settings, parts, noise, offsets)


# --- noise words for each token ---------------------------------------------------------------------------


class TokenLoss:
    """Negative sampling with separate noise words for each row."""

    dense_gradients = None

    def __init__(
        self, shape: Shape, settings: Settings, parts: np.ndarray, noise: np.ndarray, offsets: np.ndarray
    ) -> None:
        rows, width = settings.batch * settings.bptt, padded(shape.hidden + 1)
        inputs = rows if shape.tied else 0
        self._noise, self._offsets, self._k = noise, offsets, settings.k
        self._words = np.zeros(rows * (settings.k + 1) + inputs, np.int32)
        self._source = arrays.zeros(rows + inputs, width)
        self.y = self._source[:rows]
        self.d_inputs = self._source[rows:] if shape.tied else None
        self._parts, self._part_of_row = len(parts) - 1, np.tile(part_of_rows(parts), settings.bptt)
        self.gradients = arrays.sparse_gradients(shape.words, width, len(self._words), self._parts, settings.threads)
        self._losses = arrays.zeros(settings.threads, settings.k)
        self.scratch = 0

    def _token_words(self, config: StepConfig) -> np.ndarray:
        """The noise words of each row, then its target: (N, K + 1)."""
        rows = config.batch * config.steps
        return self._words[: rows * (self._k + 1)].reshape(rows, self._k + 1)

    def sample(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> None:
        words, inputs = self._token_words(config), 0
        if self.d_inputs is not None:
            inputs = len(batch.ids)
            list_inputs(batch, words.size, len(self.y), self._part_of_row, self._words, self.gradients, worker
            )  # fmt: skip
        list_token_occurrences(self._noise, batch, words, self.gradients, self._part_of_row, worker)
        group_occurrences(self._words[: words.size + inputs], self.gradients, self._parts, worker)

    def compute(
        self, table: np.ndarray, d_y: np.ndarray, batch: BatchArrays, config: StepConfig, reduction: Reduction,
        worker: Worker,
    ) -> float:  # fmt: skip
        words = self._token_words(config)
        layer, factors = OutputLayer(self.y, table, self._offsets), self.gradients.factors[: words.size]
        return token_loss_of_rows(layer, d_y, words, factors, self._losses, config.loss_scale, worker)

    def gather(self, reduction: Reduction, worker: Worker) -> float:
        return gather_gradients(self.gradients, self._source, reduction, worker.thread)

    def buffers(self) -> tuple[Any, ...]:
        return self._noise, self._offsets, self._words, self._source, self._losses

    def table_gradients(self) -> tuple[Any, ...]:
        return (self.gradients,)

    def noise_words(self, config: StepConfig) -> np.ndarray | None:
        return None


# --- shared noise words -----------------------------------------------------------------------------------


class SharedLoss:
    """Negative sampling with noise words shared by the rows of a time step, or of a minibatch.

    The gradients of shared noise rows are summed separately, by part of the batch, and stored after y, so that an
    occurrence adds either a row of y or such a sum.
    """

    dense_gradients = None

    def __init__(
        self, shape: Shape, settings: Settings, parts: np.ndarray, noise: np.ndarray, offsets: np.ndarray
    ) -> None:
        rows, width, k = settings.batch * settings.bptt, padded(shape.hidden + 1), settings.k
        self._group_rows = settings.group_rows
        groups, panels = rows // self._group_rows, -(-k // PANEL)
        self._noise, self._offsets, self._k = noise, offsets, k
        self._parts = len(parts) - 1
        noise_words, inputs = self._parts * groups * k, rows if shape.tied else 0
        self._words = np.zeros(noise_words + rows + inputs, np.int32)
        self._source = arrays.zeros(rows + noise_words + inputs, width)
        self.y = self._source[:rows]
        self.d_inputs = self._source[rows + noise_words :] if shape.tied else None
        self._rows = arrays.zeros(max(groups * k, 1), width)
        self._packed = arrays.zeros(max(groups, 1) * panels, width, PANEL)
        self._scores = arrays.zeros(rows, panels * PANEL)
        self._losses = arrays.zeros(settings.threads, k)
        self._part_of_row = np.tile(part_of_rows(parts), settings.bptt)
        self.gradients = arrays.sparse_gradients(shape.words, width, len(self._words), self._parts, settings.threads)
        self.scratch = PANEL * k

    def _shared(self, config: StepConfig) -> SharedNoise:
        rows = config.batch * config.steps
        group_rows = max(min(self._group_rows, rows), 1)
        groups = -(-rows // group_rows)
        return SharedNoise(
            self._words[: groups * self._k].reshape(groups, self._k), group_rows, self._rows, self._packed,
            self._scores, self._source[len(self.y) :], self._losses,
        )  # fmt: skip

    def sample(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> None:
        rows, noise = config.batch * config.steps, self._shared(config)
        occurrences, inputs = self._parts * noise.words.size + rows, 0
        if self.d_inputs is not None:
            inputs, first = len(batch.ids), len(self._source) - len(self.d_inputs)
            list_inputs(batch, occurrences, first, self._part_of_row, self._words, self.gradients, worker)
        if worker.thread == 0:
            draw_shared_noise(self._noise, batch, noise.words)
            words = self._words[:occurrences]
            list_shared_occurrences(batch.targets[:rows], words, self.gradients, self._part_of_row, self._parts)
        synchronize(worker)
        group_occurrences(self._words[: occurrences + inputs], self.gradients, self._parts, worker)

    def compute(
        self, table: np.ndarray, d_y: np.ndarray, batch: BatchArrays, config: StepConfig, reduction: Reduction,
        worker: Worker,
    ) -> float:  # fmt: skip
        rows, noise = config.batch * config.steps, self._shared(config)
        layer = OutputLayer(self.y, table, self._offsets)
        factors = self.gradients.factors[self._parts * noise.words.size :]
        loss: float = shared_loss_of_rows(layer, d_y, noise, batch.targets[:rows], factors, config.loss_scale, worker)
        gradients_of_shared_noise(self.y, noise, rows, reduction, worker)
        return loss

    def gather(self, reduction: Reduction, worker: Worker) -> float:
        return gather_gradients(self.gradients, self._source, reduction, worker.thread)

    def buffers(self) -> tuple[Any, ...]:
        buffers = self._source, self._rows, self._packed, self._scores, self._losses
        return self._noise, self._offsets, self._words, *buffers

    def table_gradients(self) -> tuple[Any, ...]:
        return (self.gradients,)

    def noise_words(self, config: StepConfig) -> np.ndarray | None:
        return self._shared(config).words


# --- softmax ----------------------------------------------------------------------------------------------


class SoftmaxLoss:
    """The full softmax, computed for as many rows at a time as there is memory for scores."""

    def __init__(self, shape: Shape, settings: Settings, parts: np.ndarray, offsets: np.ndarray) -> None:
        rows, width, threads = settings.batch * settings.bptt, padded(shape.hidden + 1), settings.threads
        blocks, chunk_rows = -(-shape.words // BLOCK), min(rows, max(1, MAX_SCORES // shape.words))
        self.y = arrays.zeros(rows, width)
        self.d_inputs = arrays.zeros(rows, width) if shape.tied else None
        self._parts, self._part_of_row = len(parts) - 1, np.tile(part_of_rows(parts), settings.bptt)
        self._words = np.zeros(rows if shape.tied else 1, np.int32)
        self.gradients = arrays.sparse_gradients(shape.words, width, len(self._words), self._parts, threads)
        self.dense_gradients = arrays.zeros(shape.words, width)
        self._offsets = offsets
        self._buffers = SoftmaxBuffers(
            arrays.zeros(blocks, chunk_rows, ROW),
            arrays.zeros(blocks, chunk_rows),
            arrays.zeros(threads, chunk_rows, width),
            np.zeros((threads, chunk_rows)),
            np.zeros((threads, 2), np.int64),
            arrays.normalizer_buffers(shape, rows, threads),
        )
        self.scratch = PANEL * BLOCK

    def sample(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> None:
        """Find the rows of inputs: there are no noise words."""
        if self.d_inputs is not None:
            list_inputs(batch, 0, 0, self._part_of_row, self._words, self.gradients, worker)
            synchronize(worker)
            group_occurrences(self._words[: len(batch.ids)], self.gradients, self._parts, worker)

    def compute(
        self, table: np.ndarray, d_y: np.ndarray, batch: BatchArrays, config: StepConfig, reduction: Reduction,
        worker: Worker,
    ) -> float:  # fmt: skip
        layer = OutputLayer(self.y, table, self._offsets)
        targets = batch.targets[: config.batch * config.steps]
        return softmax_loss(
            layer, d_y, self.dense_gradients, targets, self._buffers, config.loss_scale, reduction, worker
        )  # fmt: skip

    def gather(self, reduction: Reduction, worker: Worker) -> float:
        """Gather the rows of a tied model's inputs, which are added to the dense gradients later."""
        if self.d_inputs is not None:
            gather_gradients(self.gradients, self.d_inputs, reduction, worker.thread)
            return 0.0
        return sum_of_output_squares(self.dense_gradients, worker)

    def buffers(self) -> tuple[Any, ...]:
        return self._offsets, self.y, self._words, *(() if self.d_inputs is None else (self.d_inputs,)), self._buffers

    def table_gradients(self) -> tuple[Any, ...]:
        return self.gradients, self.dense_gradients

    def noise_words(self, config: StepConfig) -> np.ndarray | None:
        return None
