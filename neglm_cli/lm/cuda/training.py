"""A training step on the GPU: forward, loss, backward, optimizer step. All launches are asynchronous."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from neglm_cli.lm.cuda import optimizer
from neglm_cli.lm.cuda.arrays import (
    Activations,
    BackwardBuffers,
    BatchArrays,
    Moments,
    SparseGradients,
    StepConfig,
    Weights,
    copy_weights,
    first_output,
    table_rows,
    table_width,
    zero_state,
    zero_weights,
)
from neglm_cli.lm.cuda.data_parallel import DataParallel
from neglm_cli.lm.cuda.functions import DECAY, DROPOUT_KEYS, STEP
from neglm_cli.lm.cuda.gemm import MatrixView
from neglm_cli.lm.cuda.gpu import Array, blocks_for
from neglm_cli.lm.cuda.losses import make_loss
from neglm_cli.lm.cuda.network import Network
from neglm_cli.lm.cuda.optimizer import Reduction, Update
from neglm_cli.lm.cuda.staging import step_values
from neglm_cli.lm.cuda.tables import TableGradients, most_rows
from neglm_cli.lm.device import Minibatch
from neglm_cli.lm.optimizers import KINDS
from neglm_cli.lm.setup import DeviceSetup

SUM_BLOCKS = 256
FLUSHED_ROWS = 1 << 16  # per launch: a desktop's driver ends launches that take seconds


class Training:
    """The arrays of a training run, for this rank's rows of the batch, and its step."""

    def __init__(self, setup: DeviceSetup, network: Network, weights: Weights) -> None:
        gpu, shape, settings, ranks = network.gpu, setup.shape, setup.local_settings, setup.ranks
        self._gpu, self._network, self._shape, self._settings = gpu, network, shape, settings
        self.weights, self._alias_table = weights, gpu.upload(setup.alias_table())
        self.state = zero_state(gpu, shape, settings.optimizer)
        self.average = zero_weights(gpu, shape) if settings.average else None
        if settings.anchored:
            copy_weights(gpu, weights, self.state.exp_avg)
        self.gradients = zero_weights(gpu, shape, tables=False)
        self.activations = Activations(gpu, shape, settings.batch, settings.bptt)
        self._tables = TableGradients(gpu, shape, settings, float(setup.bias), setup.noise)
        self._loss = make_loss(network, self._tables, settings, gpu.upload(setup.train_offsets()))
        capacity, source = self._tables.layout.capacity, self._tables.terms.source
        self._y = MatrixView(source, capacity)
        d_c, d_h = (gpu.zeros((settings.batch, shape.hidden)) for _ in range(2))
        self._buffers = BackwardBuffers(gpu.zeros((capacity, table_width(shape))), source, d_c, d_h)
        self.result = gpu.zeros(2, np.float64)  # of the last minibatch: see `optimizer.LOSS` and `NORM`
        self._reduction = Reduction(gpu.zeros(2 * SUM_BLOCKS, np.float64), gpu.zeros(1, np.int32), self.result)
        self._corrections = gpu.upload(optimizer.bias_corrections()) if settings.exact_adam else gpu.zeros(1)
        self._parallel = None
        if ranks.size > 1:
            parts = -(-setup.settings.batch // setup.batch)
            most = most_rows(shape, parts * capacity, parts * self._tables.noise_words, setup.noise)
            self._parallel = DataParallel(ranks, gpu, most, shape, settings)

    def step(self, batch: BatchArrays, config: StepConfig, global_batch: Minibatch) -> None:
        """Train on one minibatch. batch: this rank's rows; global_batch: the rows of all ranks."""
        self.forward_and_loss(batch, config)
        self.backward(batch, config)
        sparse = self._tables.gradients
        if self._loss.dense_size and self._shape.tied:
            sparse = self._tables.move_to(self._loss.dense_gradients)
        if self._parallel is not None:
            sparse = self._reduce(self._parallel, batch, global_batch, sparse)
        self.optimizer_step(batch, config, sparse)

    def forward_and_loss(self, batch: BatchArrays, config: StepConfig) -> None:
        self._tables.find_rows(batch, config, self._alias_table)
        if self._settings.catches_up:
            self._flush(self._tables.gradients, batch.header)
        self._network.forward(self.weights.table, batch, config, self.activations, self._y)
        self._loss.compute(self.weights.table, self._buffers.d_y, batch, config)

    def backward(self, batch: BatchArrays, config: StepConfig) -> None:
        """Compute all other gradients."""
        self._network.backward(batch, config, self.activations, self._buffers, self.gradients.views)
        self._tables.gather(batch, config)

    def _reduce(
        self, parallel: DataParallel, batch: BatchArrays, global_batch: Minibatch, local: SparseGradients
    ) -> SparseGradients:  # fmt: skip
        """Sum the gradients of all ranks. Return the table's. local: this rank's."""
        dense = [self.gradients.layers]
        if self._loss.dense_size:
            dense.append(self._loss.dense_gradients.reshape(-1))
        sparse = parallel.reduce(global_batch, local, dense)
        if self._settings.catches_up:
            self._flush(sparse, batch.header)  # rows that this rank did not touch
        return sparse

    def optimizer_step(self, batch: BatchArrays, config: StepConfig, sparse: SparseGradients) -> None:
        """Clip gradients by norm, and update all parameters. If the norm is NaN or infinite, nothing is updated."""
        gpu, state, dense_size = self._gpu, self.state, self._loss.dense_size
        dense, layers = self._dense_gradients, self.weights.layers
        gpu.launch(
            optimizer.loss_and_gradient_norm, min(SUM_BLOCKS, blocks_for(gpu, SUM_BLOCKS)),
            layers=self.gradients.layers, sparse=sparse, dense=dense, losses=self._loss.losses,
            reduction=self._reduction, rows=config.rows, dense_size=dense_size,
        )  # fmt: skip
        update = Update(KINDS[self._settings.optimizer], self._settings.clip, batch.header)
        gpu.launch(
            optimizer.update_rows, blocks_for(gpu, self._tables.layout.total), moments=self._table_moments,
            sparse=sparse, last_update_step=state.last_update_step, update=update, result=self.result,
        )  # fmt: skip
        moments = Moments(layers, state.exp_avg.layers, state.exp_avg_sq.layers)
        self._update_range(moments, self.gradients.layers, update, 0, layers.size)
        if dense_size:
            first = first_output(self._shape) * table_width(self._shape)
            self._update_range(self._table_moments, dense, update, first, dense_size)

    @cached_property
    def _dense_gradients(self) -> Array:
        """Those of the output table, flat."""
        return self._loss.dense_gradients.reshape(-1)

    def _update_range(self, moments: Moments, gradients: Array, update: Update, first: int, count: int) -> None:
        self._gpu.launch(
            optimizer.update_range, blocks_for(self._gpu, -(-count // optimizer.THREADS)), moments=moments,
            gradients=gradients, update=update, result=self.result, first=first, count=count,
        )  # fmt: skip

    def add_to_average(self, number: int) -> None:
        for average, parameters, blocks in self._averaged():
            self._gpu.launch(
                optimizer.update_average, blocks, average=average, parameters=parameters, weight=np.float32(1 / number)
            )

    def swap_average(self) -> None:
        for average, parameters, blocks in self._averaged():
            self._gpu.launch(optimizer.swap, blocks, a=average, b=parameters)

    def _averaged(self) -> Iterator[tuple[Array, Array, int]]:
        """Yield flat arrays of averages and of their parameters, and the blocks to launch for them."""
        assert self.average is not None
        for average, parameters in zip(self.average[:2], self.weights[:2], strict=True):  # tables, layers
            blocks = blocks_for(self._gpu, -(-average.size // optimizer.THREADS))
            yield average.reshape(-1), parameters.reshape(-1), blocks

    def _flush(self, sparse: SparseGradients, header: Array) -> None:
        """Apply the updates, or the decay of anchored SGD, that rows skipped before the header's step."""
        common = {
            "moments": self._table_moments, "width": table_width(self._shape), "header": header, "rows": sparse.rows,
            "counts": sparse.counts, "last_update_step": self.state.last_update_step,
        }  # fmt: skip
        blocks = blocks_for(self._gpu, self._tables.layout.total)
        if self._settings.anchored:
            self._gpu.launch(optimizer.flush_decay, blocks, **common)
        else:
            self._gpu.launch(optimizer.flush_lazy_updates, blocks, corrections=self._corrections, **common)

    def flush_rows(self, rows: np.ndarray, step: int, rate: float = 0.0, decay: float = 0.0) -> None:
        """Apply what these rows of the table skipped in the first `step` steps."""
        header = np.zeros(DROPOUT_KEYS, np.uint64)
        header[STEP : DECAY + 1] = step_values(self._settings.optimizer, step + 1, rate, decay)
        on_gpu = self._gpu.upload(header)
        for first in range(0, len(rows), FLUSHED_ROWS):
            with self._listed(rows[first : first + FLUSHED_ROWS]) as listed:
                self._flush(listed, on_gpu)

    def flush_all_rows(self, step: int, rate: float) -> None:
        self.flush_rows(np.arange(table_rows(self._shape)), step, rate)

    @contextmanager
    def _listed(self, rows: np.ndarray) -> Iterator[SparseGradients]:
        """Make a list of rows for kernels, freed when they have ended."""
        listed = self._gpu.upload(rows.astype(np.int32))
        counts = self._gpu.upload(np.array([len(rows), 0], np.int32))
        yield SparseGradients(listed, counts, self._tables.gradients.values)
        self._gpu.synchronize()

    def memory(self) -> dict[str, int]:
        """Return the bytes of arrays that outlive a minibatch, by purpose, as on the CPU."""
        state, sparse = self.state, self._tables.gradients
        gradients = self.gradients.nbytes + self._loss.dense_gradients.nbytes
        return {
            "parameters": self.weights.nbytes,
            "optimizer": state.exp_avg.nbytes
            + state.exp_avg_sq.nbytes
            + state.last_update_step.nbytes
            + (self.average.nbytes if self.average else 0),
            "gradients": gradients + sum(array.nbytes for array in sparse),
        }

    def total_loss(self, loss: float) -> float:
        """Sum the loss over ranks. loss: this rank's."""
        return loss if self._parallel is None else self._parallel.sum_of(loss)

    @cached_property
    def _table_moments(self) -> Moments:
        state = self.state
        return Moments(*(array.table.reshape(-1) for array in (self.weights, state.exp_avg, state.exp_avg_sq)))
