"""Data-parallel training: every rank has some rows of the batch, and all apply the sum of their gradients.

While the backward pass runs, the output table's gradients are on their way; those of the layers and of the embedding
follow in one sum. Parameters are never sent: they start the same on all ranks and get the same updates.
"""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig, Weights, zeros
from neglm_cli.lm.cpu.losses import SoftmaxLoss
from neglm_cli.lm.cpu.tables import SparseGradients
from neglm_cli.lm.device import Minibatch, StepResult
from neglm_cli.lm.parameters import padded
from neglm_cli.scale.ranks import Ranks
from neglm_cli.scale.rows import agree_on_rows, spread

if TYPE_CHECKING:
    from neglm_cli.lm.cpu.training import Training

NO_ROWS = np.empty(0, np.int32)


def contiguous_gradients(weights: Weights, extra: int) -> tuple[Weights, np.ndarray]:
    """Gradients of the layers in one flat array, which is returned, too, with `extra` values after them."""
    layers = (weights.w_ih, weights.w_hh, weights.bias)
    flat = zeros(sum(array.size for array in layers) + extra)
    ends = np.cumsum([array.size for array in layers])
    w_ih, w_hh, bias = (
        flat[end - array.size : end].reshape(array.shape) for array, end in zip(layers, ends, strict=True)
    )
    return Weights(w_ih, w_hh, bias, zeros(1, 1), zeros(1, 1)), flat


class DataParallel:
    """The step of one rank among several."""

    def __init__(self, ranks: Ranks, training: "Training", flat: np.ndarray) -> None:
        """flat: the gradients of the layers, with room for those of embedded words after them."""
        shape = training.shape
        self._ranks, self._training, self._flat = ranks, training, flat
        self._embedding = shape.embedding
        self._layers = sum(array.size for array in training.gradients[:3])
        self._widths = padded(shape.embedding), padded(shape.hidden + 1)
        self._columns = shape.hidden + 1
        self._buffers = [zeros(1, width) for width in self._widths]

    def step(self, whole: Minibatch, batch: BatchArrays, config: StepConfig) -> StepResult:
        """whole: the minibatch with the rows of all ranks; batch: those of this one."""
        ranks, training, run = self._ranks, self._training, self._training.team.results
        losses = run(training.forward_and_loss, batch, config)
        loss = np.array([sum(loss for loss, _ in losses)])
        output = ranks.start(self._reduce_output, whole, config)
        run(training.backward, batch, config)
        inputs = np.unique(whole.inputs).astype(np.int32)
        end = self._layers + len(inputs) * self._embedding
        input_gradients = self._flat[self._layers : end].reshape(len(inputs), self._embedding)
        spread(inputs, _by_thread(training.embedding_gradients), input_gradients)
        rest = ranks.start(self._reduce_rest, end, loss)
        outputs, output_gradients = output.result()
        rest.result()
        norms = run(
            training.apply_reduced_gradients, config, (inputs, self._padded(0, input_gradients)),
            (outputs, output_gradients),
        )  # fmt: skip
        return StepResult(float(loss[0]), whole.inputs.size, norms[0])

    def _reduce_rest(self, end: int, loss: np.ndarray) -> None:
        self._ranks.sum(loss)
        self._ranks.sum(self._flat[:end])

    def _reduce_output(self, whole: Minibatch, config: StepConfig) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the output table that any rank has touched, and their gradients."""
        ranks, loss = self._ranks, self._training.loss
        if isinstance(loss, SoftmaxLoss):
            ranks.sum(loss.dense_gradients.reshape(-1))
            return NO_ROWS, self._buffers[1][:0]
        parts = _by_thread(loss.gradients)
        noise = loss.noise_words(config)
        if noise is not None:  # the text and the noise words are known to all ranks
            words = np.unique(np.concatenate([noise.reshape(-1), whole.targets.reshape(-1)]))
        else:
            words = agree_on_rows(ranks, np.concatenate([own for own, _ in parts]))
        rows = np.empty((len(words), self._columns), np.float32)
        spread(words, parts, rows)
        ranks.sum(rows.reshape(-1))
        return words, self._padded(1, rows)

    def _padded(self, table: int, rows: np.ndarray) -> np.ndarray:
        """Copy rows to rows of the kernels' length."""
        buffer = self._buffers[table]
        if len(rows) > len(buffer):
            buffer = self._buffers[table] = zeros(len(rows) * 5 // 4, self._widths[table])
        buffer[: len(rows), : rows.shape[1]] = rows
        return buffer[: len(rows)]


def _by_thread(gradients: SparseGradients) -> list[tuple[np.ndarray, np.ndarray]]:
    """What each thread has gathered: rows, and their gradients."""
    counts = gradients.counts[:, 0].tolist()
    return [(gradients.rows[i, :n], gradients.values[i, :n]) for i, n in enumerate(counts)]
