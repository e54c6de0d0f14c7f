"""A training step on the CPU, run by every thread of a team: forward, loss, backward, optimizer step."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig, ThreadPartition, Weights
from neglm_cli.lm.cpu.average import swap, update_average
from neglm_cli.lm.cpu.batch_parts import batch_parts, part_of_rows
from neglm_cli.lm.cpu.gemm import PANEL, Reduction
from neglm_cli.lm.cpu.losses import make_loss
from neglm_cli.lm.cpu.optimizer import Moments, flush_decay, flush_lazy_updates, update_rows
from neglm_cli.lm.cpu.step import (
    backward,
    carry_states,
    drop_recurrent_gradients,
    drop_recurrent_weights,
    forward,
    gradient_norm,
    sum_of_layer_squares,
    sum_of_output_squares,
    sum_of_row_squares,
    transpose_layers,
    update_layers,
    update_output,
)
from neglm_cli.lm.cpu.tables import SparseGradients, add_to_dense, copy_rows, gather_gradients, group_occurrences
from neglm_cli.lm.cpu.threads import Team, Worker, synchronize
from neglm_cli.lm.parameters import padded
from neglm_cli.lm.setup import LOG_Z_ROWS, DeviceSetup

Rows = tuple[np.ndarray, np.ndarray]  # of a table: int32 (rows,), and their gradients


class Training:
    """The arrays of a training run, for this rank's rows of the batch, and its step."""

    def __init__(self, setup: DeviceSetup, weights: Weights, team: Team, owned: ThreadPartition) -> None:
        shape, settings, ranks = setup.shape, setup.local_settings, setup.ranks
        threads, batch, steps = settings.threads, settings.batch, settings.bptt
        parts = batch_parts(setup.settings.batch, ranks.rank, ranks.size)
        self.shape, self.team, self.weights = shape, team, weights
        self.loss = make_loss(shape, settings, parts, setup.alias_table(), setup.train_offsets())
        self.tied_to_dense = shape.tied and self.loss.dense_gradients is not None
        inputs = setup.settings.batch * steps if ranks.size > 1 and (self.tied_to_dense or not shape.tied) else 0
        self.gradients, self.flat_gradients = arrays.dense_gradients(weights, inputs * shape.width(shape.input_vectors))
        self._dropped: Weights | None = None  # the weights with recurrent dropout
        if settings.recurrent_dropout_threshold:
            self._dropped = weights._replace(w_hh=arrays.zeros(*weights.w_hh.shape))
        self.state = arrays.optimizer_state(weights, shape, settings.optimizer)
        if settings.anchored:
            for name, anchor in self.state.exp_avg.distinct().items():
                anchor[:] = getattr(weights, name)
        self.average = arrays.zeros_like(weights) if settings.average else None
        self.transposed = arrays.transposed_weights(shape, owned)
        self.activations = arrays.activations(shape, batch, steps, self.loss.y)
        self.buffers = arrays.backward_buffers(shape, batch, steps, owned)
        self.sparse = {"output": self.loss.gradients}  # by table
        if not shape.tied:
            part_of_input = np.tile(part_of_rows(parts), steps)
            self.sparse["embedding"] = arrays.embedding_gradients(shape, part_of_input, len(parts) - 1, threads)
        scratch = PANEL * max(*shape.inputs, shape.hidden)
        scratch = max(scratch, self.loss.scratch, padded(shape.embedding), padded(shape.hidden + 1))
        self.reductions = [Reduction(parts, arrays.zeros(2, scratch)) for _ in range(threads)]
        exp_avg, exp_avg_sq = self.state.exp_avg, self.state.exp_avg_sq
        self._moments = {
            table: Moments(*(getattr(arrays_, table) for arrays_ in (weights, exp_avg, exp_avg_sq)))
            for table in shape.tables
        }
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
        rows = {table: _of_thread(self.sparse[table], worker) for table in self.shape.tables}
        if self.tied_to_dense:
            rows = self._add_to_dense(rows["output"], worker)
            squares += sum_of_output_squares(self.loss.dense_gradients, worker)
        norm = gradient_norm(squares, self.buffers.squares, worker)
        self.optimizer_step(config, norm, rows, worker)
        return loss, norm

    def forward_and_loss(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> tuple[float, float]:
        """Return the thread's parts of the loss and of the sum of squares of the output table's gradients, which a tied
        model does not have yet."""
        if self._dropped is not None:
            drop_recurrent_weights(self.weights, self._dropped.w_hh, self.transposed, batch, config, worker)
        if not self.shape.tied:
            self.sparse["embedding"].factors[: len(batch.ids)] = batch.input_scale  # the same by every thread
            group_occurrences(batch.ids, self.sparse["embedding"], self._parts(worker), worker)
        self.loss.sample(batch, config, worker)
        if self._catches_up:
            for table in self.shape.tables:
                self._flush(table, _of_thread(self.sparse[table], worker)[0], config)
            synchronize(worker)
        forward(self._dropped or self.weights, self.activations, batch, config, worker)
        reduction = self.reductions[worker.thread]
        loss = self.loss.compute(self.weights.output, self.buffers.d_y, batch, config, reduction, worker)
        return loss, 0.0 if self.shape.tied else self.loss.gather(reduction, worker)

    def backward(self, batch: BatchArrays, config: StepConfig, worker: Worker) -> float:
        """Compute all other gradients. Return the thread's part of their sum of squares."""
        reduction = self.reductions[worker.thread]
        squares: float = backward(
            self.transposed, self.gradients, self.activations, self.buffers, batch, config, reduction, worker
        )
        d_x = self.buffers.d_x[0]
        if self.loss.d_inputs is None:
            return squares + gather_gradients(self.sparse["embedding"], d_x, reduction, worker.thread)
        copy_rows(d_x, self.loss.d_inputs, config.embedding, worker)
        return squares + self.loss.gather(reduction, worker)

    def optimizer_step(self, config: StepConfig, norm: float, rows: dict[str, Rows], worker: Worker) -> None:
        """Update the parameters that the thread owns, and carry the states to the next minibatch. rows: of each table,
        with their gradients."""
        if math.isfinite(norm):
            update_layers(self.weights, self.gradients, self.state, self.transposed, config, norm, worker)
            for table, (touched, gradients) in rows.items():
                steps = self._last_update_step(table)
                update_rows(self._moments[table], touched, gradients, steps, config, norm)
            if self.loss.dense_gradients is not None:
                update_output(self._moments["output"], self.loss.dense_gradients, config, norm, worker)
            carry_states(self.activations, config.batch * config.steps, config.batch, worker)

    def apply_reduced_gradients(
        self, batch: BatchArrays, config: StepConfig, reduced: dict[str, Rows], worker: Worker
    ) -> float:
        """Update with the gradients of all ranks. Return their norm. reduced: rows of each table that any rank has
        touched, with their gradients."""
        rows = {table: _share_of(reduced[table], worker) for table in self.shape.tables}
        if self.tied_to_dense:
            rows = self._add_to_dense(rows["output"], worker)
        if config.recurrent_threshold:
            drop_recurrent_gradients(self.gradients, batch, config, worker)
        squares = sum_of_layer_squares(self.gradients, worker)
        for _, gradients in rows.values():
            squares = sum_of_row_squares(squares, gradients)
        if self.loss.dense_gradients is not None:
            squares += sum_of_output_squares(self.loss.dense_gradients, worker)
        norm: float = gradient_norm(squares, self.buffers.squares, worker)
        if self._catches_up and math.isfinite(norm):
            for table, (touched, _) in rows.items():
                self._flush(table, touched, config)  # rows that this rank did not touch
        self.optimizer_step(config, norm, rows, worker)
        return norm

    def add_to_average(self, number: int, worker: Worker) -> None:
        for average, parameters in self._averaged():
            update_average(average, parameters, np.float32(1 / number), worker)

    def swap_average(self, worker: Worker) -> None:
        for average, parameters in self._averaged():
            swap(average, parameters, worker)

    def _averaged(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield flat arrays of averages, and of their parameters."""
        assert self.average is not None
        parameters = self.weights.distinct()
        for name, average in self.average.distinct().items():
            yield average.reshape(-1), parameters[name].reshape(-1)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        """Apply the lazy updates of Adam to all rows, after `step` steps."""
        if self._catches_up and not self._anchored:
            all_rows = np.arange(self.shape.words, dtype=np.int32)
            for table in self.shape.tables:
                flush_lazy_updates(self._moments[table], self._last_update_step(table), all_rows, step + 1, rate)

    def flush_decay(self, table: str, rows: np.ndarray, step: int, decay: float, worker: Worker) -> None:
        """Apply the decay that the thread's share of rows skipped in the first `step` steps."""
        share = slice(*(len(rows) * at // worker.threads for at in (worker.thread, worker.thread + 1)))
        flush_decay(self._moments[table], self._last_update_step(table), rows[share], step + 1, decay)

    def memory(self) -> dict[str, int]:
        """Return the bytes of all arrays, by purpose."""
        purposes: dict[str, tuple[Any, ...]] = {
            "parameters": (self.weights,),
            "optimizer": (self.state, self.average or ()),
            "gradients": (self.gradients, *self.sparse.values(), *self.loss.table_gradients()),
            "minibatch": (
                self.activations, self.buffers, self.transposed, *self.loss.buffers(), *self.reductions, self.log_z_y,
                self.log_z_buffers, *(() if self._dropped is None else (self._dropped.w_hh,)),
            ),
        }  # fmt: skip
        return {purpose: sum(_sizes(arrays_).values()) for purpose, arrays_ in purposes.items()}

    def transpose(self) -> None:
        """Update the transposed copies of the weights."""
        self.team.results(transpose_layers, self.weights, self.transposed)

    def _add_to_dense(self, rows: Rows, worker: Worker) -> dict[str, Rows]:
        """Add rows to the softmax's dense gradients. Return the rows of tables that are left: none."""
        add_to_dense(*rows, self.loss.dense_gradients, worker)
        return {}

    def _flush(self, table: str, rows: np.ndarray, config: StepConfig) -> None:
        moments, last_update_step = self._moments[table], self._last_update_step(table)
        if self._anchored:
            flush_decay(moments, last_update_step, rows, config.step, config.decay)
        else:
            flush_lazy_updates(moments, last_update_step, rows, config.step, config.rate)

    def _last_update_step(self, table: str) -> np.ndarray:
        steps: np.ndarray = self.state.last_update_step[self.shape.tables.index(table)]
        return steps

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


def _sizes(arrays_: Any) -> dict[int, int]:
    """Return the bytes of an array, or of the distinct arrays in a tuple, by identity."""
    if isinstance(arrays_, np.ndarray):
        return {id(arrays_): arrays_.nbytes}
    return {identity: size for each in arrays_ for identity, size in _sizes(each).items()}
