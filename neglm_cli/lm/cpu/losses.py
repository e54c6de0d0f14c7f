"""The losses, with a common interface: `sample` noise words for a minibatch, then `compute` loss and gradients.

A loss writes the gradient of y to d_y. Gradients of the output table are sparse (`gradients`, see `tables`) or, for the
softmax, dense.
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
    draw_token_noise,
    gradients_of_shared_noise,
    list_shared_occurrences,
    shared_loss_of_rows,
    token_loss_of_rows,
)
from neglm_cli.lm.cpu.softmax import BLOCK, ROW, SoftmaxBuffers, softmax_loss
from neglm_cli.lm.cpu.step import sum_of_output_squares
from neglm_cli.lm.cpu.tables import SparseGradients, gather_gradients, group_occurrences
from neglm_cli.lm.cpu.threads import Worker, synchronize
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.lm.setup import MAX_SCORES
from neglm_cli.settings.train_lm import Settings


class Loss(Protocol):
    """A loss function of y. All threads of a team call it concurrently."""

    y: np.ndarray  # (N, ·): output of the forward pass
    gradients: SparseGradients  # of the output table; no rows for the softmax
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
    ) -> tuple[float, float]:  # fmt: skip
        """Compute loss and gradients. Return the thread's parts of the loss and of the sum of squares of the output
        table's gradients."""
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
        return SoftmaxLoss(shape, settings, offsets)
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
        self._noise, self._offsets = noise, offsets
        self._words = np.zeros((rows, settings.k + 1), np.int32)
        self.y = arrays.zeros(rows, width)
        self._parts = len(parts) - 1
        part = np.tile(part_of_rows(parts), settings.bptt)
        of_row = np.repeat(np.arange(rows), settings.k + 1)
        self.gradients = arrays.sparse_gradients(
            shape.words, width, of_row, part[of_row], self._parts, settings.threads
        )  # fmt: skip
        self.scratch = 0

    def sample(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> None:
        words = self._words[: config.batch * config.steps]
        draw_token_noise(self._noise, batch, words, worker)
        group_occurrences(words.reshape(-1), self.gradients, self._parts, worker)

    def compute(
        self, table: np.ndarray, d_y: np.ndarray, batch: BatchArrays, config: StepConfig, reduction: Reduction,
        worker: Worker,
    ) -> tuple[float, float]:  # fmt: skip
        words, gradients = self._words[: config.batch * config.steps], self.gradients
        loss = token_loss_of_rows(
            OutputLayer(self.y, table, self._offsets), d_y, words, gradients.factors, config.loss_scale, worker
        )
        return loss, gather_gradients(gradients, self.y, reduction, worker.thread)

    def buffers(self) -> tuple[Any, ...]:
        return self._noise, self._offsets, self._words, self.y

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
        occurrences = self._parts * groups * k + rows
        self._words = np.zeros(occurrences, np.int32)
        self._source = arrays.zeros(rows + self._parts * groups * k, width)
        self.y = self._source[:rows]
        self._rows = arrays.zeros(max(groups * k, 1), width)
        self._packed = arrays.zeros(max(groups, 1) * panels, width, PANEL)
        self._scores = arrays.zeros(rows, panels * PANEL)
        self._part_of_row = np.tile(part_of_rows(parts), settings.bptt)
        self.gradients = arrays.sparse_gradients(
            shape.words, width, np.zeros(occurrences), np.zeros(occurrences), self._parts, settings.threads
        )
        self.scratch = PANEL * k

    def _shared(self, config: StepConfig) -> SharedNoise:
        rows = config.batch * config.steps
        group_rows = max(min(self._group_rows, rows), 1)
        groups = -(-rows // group_rows)
        return SharedNoise(
            self._words[: groups * self._k].reshape(groups, self._k), group_rows, self._rows, self._packed,
            self._scores, self._source[len(self.y) :],
        )  # fmt: skip

    def sample(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> None:
        rows, noise = config.batch * config.steps, self._shared(config)
        occurrences = self._words[: self._parts * noise.words.size + rows]
        if worker.thread == 0:
            draw_shared_noise(self._noise, batch, noise.words)
            list_shared_occurrences(batch.targets[:rows], occurrences, self.gradients, self._part_of_row, self._parts)
        synchronize(worker)
        group_occurrences(occurrences, self.gradients, self._parts, worker)

    def compute(
        self, table: np.ndarray, d_y: np.ndarray, batch: BatchArrays, config: StepConfig, reduction: Reduction,
        worker: Worker,
    ) -> tuple[float, float]:  # fmt: skip
        rows, noise = config.batch * config.steps, self._shared(config)
        layer = OutputLayer(self.y, table, self._offsets)
        factors = self.gradients.factors[self._parts * noise.words.size :]
        loss = shared_loss_of_rows(layer, d_y, noise, batch.targets[:rows], factors, config.loss_scale, worker)
        gradients_of_shared_noise(self.y, noise, rows, reduction, worker)
        return loss, gather_gradients(self.gradients, self._source, reduction, worker.thread)

    def buffers(self) -> tuple[Any, ...]:
        return self._noise, self._offsets, self._words, self._source, self._rows, self._packed, self._scores

    def table_gradients(self) -> tuple[Any, ...]:
        return (self.gradients,)

    def noise_words(self, config: StepConfig) -> np.ndarray | None:
        return self._shared(config).words


# --- softmax ----------------------------------------------------------------------------------------------


class SoftmaxLoss:
    """The full softmax, computed for as many rows at a time as there is memory for scores."""

    def __init__(self, shape: Shape, settings: Settings, offsets: np.ndarray) -> None:
        rows, width, threads = settings.batch * settings.bptt, padded(shape.hidden + 1), settings.threads
        blocks, chunk_rows = -(-shape.words // BLOCK), min(rows, max(1, MAX_SCORES // shape.words))
        self.y = arrays.zeros(rows, width)
        self.gradients = arrays.sparse_gradients(shape.words, width, np.zeros(1), np.zeros(1), 1, threads)
        self.dense_gradients = arrays.zeros(shape.words, width)
        self._offsets = offsets
        self._buffers = SoftmaxBuffers(
            arrays.zeros(blocks, chunk_rows, ROW),
            arrays.zeros(blocks, chunk_rows),
            arrays.zeros(threads, chunk_rows, width),
            arrays.normalizer_buffers(shape, rows, threads),
        )
        self.scratch = PANEL * BLOCK

    def sample(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> None:
        """Do nothing: there are no noise words."""

    def compute(
        self, table: np.ndarray, d_y: np.ndarray, batch: BatchArrays, config: StepConfig, reduction: Reduction,
        worker: Worker,
    ) -> tuple[float, float]:  # fmt: skip
        layer = OutputLayer(self.y, table, self._offsets)
        targets = batch.targets[: config.batch * config.steps]
        loss = softmax_loss(
            layer, d_y, self.dense_gradients, targets, self._buffers, config.loss_scale, reduction, worker
        )  # fmt: skip
        return loss, sum_of_output_squares(self.dense_gradients, worker)

    def buffers(self) -> tuple[Any, ...]:
        return self._offsets, self.y, self._buffers

    def table_gradients(self) -> tuple[Any, ...]:
        return self.gradients, self.dense_gradients

    def noise_words(self, config: StepConfig) -> np.ndarray | None:
        return None
