"""A training step on the CPU, run by every thread of a team: forward, loss, backward, optimizer step."""

import math
from typing import Any

import numpy as np

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig, ThreadPartition, Weights
from neglm_cli.lm.cpu.batch_parts import batch_parts
from neglm_cli.lm.cpu.gemm import PANEL, Reduction
from neglm_cli.lm.cpu.losses import make_loss
from neglm_cli.lm.cpu.optimizer import Moments, flush_decay, flush_lazy_updates, update_rows
from neglm_cli.lm.cpu.step import (
    backward,
    carry_states,
    forward,
    gradient_norm,
    sum_of_layer_squares,
    sum_of_output_squares,
    sum_of_row_squares,
    transpose_layers,
    update_layers,
    update_output,
)
from neglm_cli.lm.cpu.tables import SparseGradients, gather_gradients, group_occurrences
from neglm_cli.lm.cpu.threads import Team, Worker, synchronize
from neglm_cli.lm.parameters import padded
from neglm_cli.lm.setup import LOG_Z_ROWS, DeviceSetup

EMBEDDING, OUTPUT = range(2)  # the tables
Rows = tuple[np.ndarray, np.ndarray]  # of a table: int32 (rows,), and their gradients


class Training:
    """The arrays of a training run, for this rank's rows of the batch, and its step."""

    def __init__(self, setup: DeviceSetup, weights: Weights, team: Team, owned: ThreadPartition) -> None:
        shape, settings, ranks = setup.shape, setup.local_settings, setup.ranks
        threads, batch, steps = settings.threads, settings.batch, settings.bptt
        parts = batch_parts(setup.settings.batch, ranks.rank, ranks.size)
        self.shape, self.team, self.weights = shape, team, weights
        embedding_rows = setup.settings.batch * steps if ranks.size > 1 else 0
        self.gradients, self.flat_gradients = arrays.dense_gradients(weights, embedding_rows * shape.embedding)
        self.loss = make_loss(shape, settings, parts, setup.alias_table(), setup.train_offsets())
        self.state = arrays.optimizer_state(weights, shape, settings.optimizer)
        if settings.anchored:
            for anchor, trained in zip(self.state.exp_avg, weights, strict=True):
                anchor[:] = trained
        self.transposed = arrays.transposed_weights(shape, owned)
        self.activations = arrays.activations(shape, batch, steps, self.loss.y)
        self.buffers = arrays.backward_buffers(shape, batch, steps, owned)
        self.embedding_gradients = arrays.embedding_gradients(shape, parts, steps, threads)
        scratch = PANEL * max(*shape.inputs, shape.hidden)
        scratch = max(scratch, self.loss.scratch, padded(shape.embedding), padded(shape.hidden + 1))
        self.reductions = [Reduction(parts, arrays.zeros(2, scratch)) for _ in range(threads)]
        exp_avg, exp_avg_sq = self.state.exp_avg, self.state.exp_avg_sq
        self._moments = (
            Moments(weights.embedding, exp_avg.embedding, exp_avg_sq.embedding),
            Moments(weights.output, exp_avg.output, exp_avg_sq.output),
        )
        self._anchored, self._catches_up = settings.anchored, settings.catches_up
        rows = min(LOG_Z_ROWS, batch)
        self.log_z_y = arrays.zeros(rows, padded(shape.hidden + 1))
        self.log_z_buffers = arrays.normalizer_buffers(shape, rows, threads)

    def step(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> tuple[float, float]:
        """Train on one minibatch. Return the thread's part of the loss, and the global gradient norm.

        If the norm is NaN or infinite, nothing is updated.
        """
        loss, output_squares = self.forward_and_loss(batch, config, worker)
        squares = output_squares + self.backward(batch, config, worker)
        norm = gradient_norm(squares, self.buffers.squares, worker)
        self.optimizer_step(
            config, norm, _of_thread(self.embedding_gradients, worker), _of_thread(self.loss.gradients, worker), worker
        )
        return loss, norm

    def forward_and_loss(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> tuple[float, float]:
        """Return the thread's parts of the loss and of the sum of squares of the output table's gradients."""
        group_occurrences(batch.ids, self.embedding_gradients, self._parts(worker), worker)
        self.loss.sample(batch, config, worker)
        if self._catches_up:
            self._flush(EMBEDDING, _of_thread(self.embedding_gradients, worker)[0], config)
            self._flush(OUTPUT, _of_thread(self.loss.gradients, worker)[0], config)
            synchronize(worker)
        forward(self.weights, self.activations, batch, config, worker)
        return self.loss.compute(
            self.weights.output, self.buffers.d_y, batch, config, self.reductions[worker.thread], worker
        )

    def backward(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> float:
        """Compute all other gradients. Return the thread's part of their sum of squares."""
        reduction = self.reductions[worker.thread]
        squares = backward(
            self.transposed, self.gradients, self.activations, self.buffers, batch, config, reduction, worker
        )
        return squares + gather_gradients(self.embedding_gradients, self.buffers.d_x[0], reduction, worker.thread)

    def optimizer_step(self, config: StepConfig, norm: float, inputs: Rows, outputs: Rows, worker: Worker) -> None:
        """Update the parameters that the thread owns, and carry the states to the next minibatch."""
        if math.isfinite(norm):
            update_layers(self.weights, self.gradients, self.state, self.transposed, config, norm, worker)
            for table, (rows, gradients) in ((EMBEDDING, inputs), (OUTPUT, outputs)):
                update_rows(self._moments[table], rows, gradients, self.state.last_update_step[table], config, norm)
            if self.loss.dense_gradients is not None:
                update_output(self._moments[OUTPUT], self.loss.dense_gradients, config, norm, worker)
            carry_states(self.activations, config.batch * config.steps, config.batch, worker)

    def apply_reduced_gradients(self, config: StepConfig, inputs: Rows, outputs: Rows, worker: Worker) -> float:
        """Update with the gradients of all ranks. Return their norm. inputs, outputs: table rows touched by any
        rank."""
        inputs, outputs = _share_of(inputs, worker), _share_of(outputs, worker)
        squares = sum_of_layer_squares(self.gradients, worker)
        for _, gradients in (inputs, outputs):
            squares = sum_of_row_squares(squares, gradients)
        if self.loss.dense_gradients is not None:
            squares += sum_of_output_squares(self.loss.dense_gradients, worker)
        norm = gradient_norm(squares, self.buffers.squares, worker)
        if self._catches_up and math.isfinite(norm):
            for table, (rows, _) in ((EMBEDDING, inputs), (OUTPUT, outputs)):
                self._flush(table, rows, config)  # rows that this rank did not touch
        self.optimizer_step(config, norm, inputs, outputs, worker)
        return norm

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        """Apply the lazy updates of Adam to all rows, after `step` steps."""
        if self._catches_up and not self._anchored:
            all_rows = np.arange(self.shape.words, dtype=np.int32)
            for table in (EMBEDDING, OUTPUT):
                flush_lazy_updates(self._moments[table], self.state.last_update_step[table], all_rows, step + 1, rate)

    def flush_decay(self, table: int, rows: np.ndarray, step: int, decay: float, worker: Worker) -> None:
        """Apply the decay that the thread's share of rows skipped in the first `step` steps."""
        share = slice(*(len(rows) * at // worker.threads for at in (worker.thread, worker.thread + 1)))
        flush_decay(self._moments[table], self.state.last_update_step[table], rows[share], step + 1, decay)

    def memory(self) -> dict[str, int]:
        """Return the bytes of all arrays, by purpose."""
        purposes: dict[str, tuple[Any, ...]] = {
            "parameters": (self.weights,),
            "optimizer": (self.state,),
            "gradients": (self.gradients, self.embedding_gradients, *self.loss.table_gradients()),
            "minibatch": (
                self.activations, self.buffers, self.transposed, *self.loss.buffers(), *self.reductions, self.log_z_y,
                self.log_z_buffers,
            ),
        }  # fmt: skip
        return {purpose: _bytes(arrays_) for purpose, arrays_ in purposes.items()}

    def transpose(self) -> None:
        """Update the transposed copies of the weights."""
        self.team.results(transpose_layers, self.weights, self.transposed)

    def _flush(self, table: int, rows: np.ndarray, config: StepConfig) -> None:
        last_update_step = self.state.last_update_step[table]
        if self._anchored:
            flush_decay(self._moments[table], last_update_step, rows, config.step, config.decay)
        else:
            flush_lazy_updates(self._moments[table], last_update_step, rows, config.step, config.rate)

    def _parts(self, worker: Worker) -> int:
        return len(self.reductions[worker.thread].parts) - 1


def _of_thread(gradients: SparseGradients, worker: Worker) -> Rows:
    """Return the thread's rows, and their gradients."""
    count = gradients.counts[worker.thread, 0]
    return gradients.rows[worker.thread, :count], gradients.values[worker.thread, :count]


def _share_of(rows: Rows, worker: Worker) -> Rows:
    """Return a thread's share of a list of rows."""
    total = len(rows[0])
    share = slice(total * worker.thread // worker.threads, total * (worker.thread + 1) // worker.threads)
    return rows[0][share], rows[1][share]


def _bytes(arrays_: Any) -> int:
    """Return the bytes of an array, or of all arrays in a tuple."""
    return arrays_.nbytes if isinstance(arrays_, np.ndarray) else sum(map(_bytes, arrays_))
