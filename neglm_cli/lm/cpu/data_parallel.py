"""Data-parallel training: every rank computes gradients of some rows of the batch, and all apply their sum.

The output table's gradients are reduced while the backward pass runs; those of the layers and of the embedding follow
in one allreduce. The table of a tied model, unless its gradient is dense, follows the backward pass, too. Parameters
are never sent: they start the same on all ranks and get the same updates.
"""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig, zeros
from neglm_cli.lm.cpu.tables import SparseGradients
from neglm_cli.lm.device import Minibatch, StepResult
from neglm_cli.lm.parameters import padded
from neglm_cli.scale.ranks import Ranks
from neglm_cli.scale.rows import scatter_rows, union_of_rows
from neglm_cli.settings.parameters import DENSE

if TYPE_CHECKING:
    from neglm_cli.lm.cpu.training import Training

NO_ROWS = np.empty(0, np.int32)


class DataParallel:
    """The step of one rank among several."""

    def __init__(self, ranks: Ranks, training: "Training") -> None:
        self._ranks, self._training = ranks, training
        self._flat = training.flat_gradients  # of the dense parameters, then of the minibatch's embedding rows
        self._layers = sum(getattr(training.gradients, name).size for name in DENSE)
        self._columns = {table: training.shape.width(table) for table in training.shape.tables}
        self._buffers = {table: zeros(1, padded(columns)) for table, columns in self._columns.items()}

    def step(self, global_batch: Minibatch, batch: BatchArrays, config: StepConfig) -> StepResult:
        """Train on one minibatch. global_batch: the rows of all ranks; batch: those of this rank."""
        ranks, training, run = self._ranks, self._training, self._training.team.results
        not_dropped = config._replace(recurrent_threshold=0)  # sums of gradients are masked, as on a single rank
        losses = run(training.forward_and_loss, batch, config)
        loss = np.array([sum(loss for loss, _ in losses)])
        if training.shape.tied and not training.tied_to_dense:
            run(training.backward, batch, not_dropped)
            output = ranks.submit(self._reduce_output, global_batch, config)
            ranks.submit(self._reduce_rest, self._layers, loss).result()
            reduced = {"output": output.result()}
        else:
            output = ranks.submit(self._reduce_output, global_batch, config)
            run(training.backward, batch, not_dropped)
            inputs = self._reduce_inputs(global_batch, loss)
            reduced = {"output": output.result()} | {training.shape.input_vectors: inputs}
        norms = run(training.apply_reduced_gradients, batch, config, reduced)
        return StepResult(float(loss[0]), global_batch.inputs.size, norms[0])

    def _reduce_inputs(self, global_batch: Minibatch, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reduce the rows of inputs with the dense gradients and the loss. Return these rows and their gradients."""
        table = self._training.shape.input_vectors
        inputs, columns = np.unique(global_batch.inputs).astype(np.int32), self._columns[table]
        end = self._layers + len(inputs) * columns
        gradients = self._flat[self._layers : end].reshape(len(inputs), columns)
        scatter_rows(inputs, _by_thread(self._training.sparse[table]), gradients)
        self._ranks.submit(self._reduce_rest, end, loss).result()
        return inputs, self._padded(table, gradients)

    def _reduce_rest(self, end: int, loss: np.ndarray) -> None:
        self._ranks.allreduce(loss)
        self._ranks.allreduce(self._flat[:end])

    def _reduce_output(self, global_batch: Minibatch, config: StepConfig) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the output table that any rank has touched, and the sums of their gradients."""
        ranks, loss = self._ranks, self._training.loss
        if loss.dense_gradients is not None:
            ranks.allreduce(loss.dense_gradients.reshape(-1))
            return NO_ROWS, self._buffers["output"][:0]
        parts = _by_thread(loss.gradients)
        noise = loss.noise_words(config)
        if noise is not None:  # the text and the noise words are known to all ranks
            text = [global_batch.targets, *([global_batch.inputs] if self._training.shape.tied else [])]
            words = np.unique(np.concatenate([noise.reshape(-1), *(words.reshape(-1) for words in text)]))
        else:
            words = union_of_rows(ranks, np.concatenate([rows for rows, _ in parts]))
        rows = np.empty((len(words), self._columns["output"]), np.float32)
        scatter_rows(words, parts, rows)
        ranks.allreduce(rows.reshape(-1))
        return words, self._padded("output", rows)

    def _padded(self, table: str, rows: np.ndarray) -> np.ndarray:
        """Copy rows of gradients to rows of the padded length that kernels take."""
        buffer = self._buffers[table]
        if len(rows) > len(buffer):
            buffer = self._buffers[table] = zeros(len(rows) * 5 // 4, buffer.shape[1])
        buffer[: len(rows), : rows.shape[1]] = rows
        return buffer[: len(rows)]


def _by_thread(gradients: SparseGradients) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows that each thread has gathered, and their gradients."""
    counts = gradients.counts[:, 0].tolist()
    return [(gradients.rows[i, :n], gradients.values[i, :n]) for i, n in enumerate(counts)]
