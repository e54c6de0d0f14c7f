"""The launches of the forward and backward pass through the layers of a model."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.arrays import Activations, BackwardBuffers, BatchArrays, StepConfig, state_width
from neglm_cli.lm.cuda.functions import DROPOUT_KEYS
from neglm_cli.lm.cuda.gemm import Extent, Gemm, MatrixView
from neglm_cli.lm.cuda.gpu import SHARED_BYTES, Array, Gpu, Grid, Kernel
from neglm_cli.lm.cuda.lstm import LayerArrays, OutputGradients, StepKernels, Tiling
from neglm_cli.lm.cuda.tables import carry_states, lookup
from neglm_cli.lm.device import State
from neglm_cli.lm.parameters import Shape

FLOAT_BYTES = 4
LARGE_BATCH = 64  # rows from which on a time step has enough work for a launch of its own
RESERVED_BYTES = 1 << 10  # of shared memory, for cooperative kernels from sm_90 on
MAX_ROWS, SLICES, LEAST_DEPTH, THREADS = 32, 32, 16, 256


class PersistentPlan(NamedTuple):
    """The launch of a kernel that computes all time steps; see `lstm.forward`."""

    grid: Grid
    tiling: Tiling


def persistent_plan(
    gpu: Gpu, kernel: Kernel, units: int, inner: int, batch: int, columns: int
) -> PersistentPlan | None:
    """Return a plan whose blocks the GPU can run at once, or None.

    Each block copies the whole state of every time step to its shared memory, so one block per multiprocessor is best;
    if its weights do not fit there, there are more. The more shared memory, the fewer stages of these copies.
    inner: terms of a sum; columns: sums of each unit.
    """
    best = min(units, -(-units // gpu.multiprocessors))
    for shared_bytes in sorted({gpu.shared_bytes, SHARED_BYTES}, reverse=True):
        for block_units in (*range(best, units + 1), *range(best - 1, 0, -1)):
            plan = _plan_with(block_units, shared_bytes, units, inner, batch, columns)
            blocks = -(-units // block_units)
            if plan is not None and blocks <= gpu.most_blocks(kernel, plan.grid.threads, plan.grid.shared):
                return plan
    return None


def _plan_with(
    block_units: int, shared_bytes: int, units: int, inner: int, batch: int, columns: int
) -> PersistentPlan | None:
    """Return the plan with so many units per block, or None if so much shared memory, or a block, is too small."""
    at_once = min(MAX_ROWS, -(-batch // lstm.ROWS) * lstm.ROWS)
    slices = min(SLICES, max(1, THREADS // (block_units * at_once // lstm.ROWS)), inner)
    weights = columns * block_units * inner
    rest = (shared_bytes - RESERVED_BYTES) // FLOAT_BYTES - weights
    depth = min(inner, rest // at_once)
    if depth < min(LEAST_DEPTH, inner) or slices * at_once * columns * block_units > rest:
        return None
    threads = min(THREADS, -(-block_units * (at_once // lstm.ROWS) * slices // 32) * 32)
    if block_units * (at_once // lstm.ROWS) > threads:
        return None
    blocks = -(-units // block_units)
    shared = FLOAT_BYTES * (weights + max(depth * at_once, slices * at_once * columns * block_units))
    return PersistentPlan(Grid(blocks, threads, shared), Tiling(block_units, at_once, slices, depth))


@dataclass(frozen=True)
class Kernels:
    """Configurable kernels: a simulator has variants with fewer threads."""

    gemm: Gemm
    steps: StepKernels = lstm.STEP_KERNELS
    rounded_gemm: Gemm | None = None  # in training, for --precision
    step_products: bool = False  # recurrent products of large batches by `gemm`, too

    def for_training(self) -> "Kernels":
        return self if self.rounded_gemm is None else replace(self, gemm=self.rounded_gemm, step_products=True)


class Network:
    """The layers of a model, and their kernels."""

    def __init__(self, gpu: Gpu, kernels: Kernels, shape: Shape, weights: list[Array], batch: int) -> None:
        self.gpu, self.gemm, self.shape = gpu, kernels.gemm, shape
        self._weights = weights
        self._dropped = weights  # with recurrent dropout: copies of their own
        self._step_kernels = kernels.steps
        self._step_products = kernels.step_products and batch >= LARGE_BATCH
        self._batch = batch

    def allocate_dropped(self) -> None:
        """Allocate the copies of weights that recurrent dropout needs."""
        self._dropped = [self.gpu.zeros(weights.shape) for weights in self._weights]

    @cached_property
    def forward_plan(self) -> PersistentPlan | None:
        """The plan of `lstm.forward`; None: a launch per time step."""
        return self._plan(lstm.forward, self.shape.hidden, lstm.GATES)

    @cached_property
    def backward_plan(self) -> PersistentPlan | None:
        """The plan of `lstm.backward`, which only training compiles; None: a launch per time step."""
        return self._plan(lstm.backward, lstm.GATES * self.shape.hidden, 1)

    def _plan(self, kernel: Kernel, inner: int, columns: int) -> PersistentPlan | None:
        if self._batch >= LARGE_BATCH:
            return None
        return persistent_plan(self.gpu, kernel, self.shape.hidden, inner, self._batch, columns)

    def forward(
        self, table: Array, batch: BatchArrays, config: StepConfig, activations: Activations, y: MatrixView
    ) -> None:
        """Compute y from the words of a minibatch: embedding, LSTM layers, dropout around each."""
        gpu, shape, rows = self.gpu, self.shape, config.rows
        if config.recurrent_threshold:
            for number in range(shape.layers):
                self._drop_recurrent(self._weights[number], self._dropped[number], number, batch, config)
        gpu.launch(lookup, rows, table=table, batch=batch, config=config, x=activations.xh[0], width=shape.embedding)
        for number in range(shape.layers):
            layer = self._layer(number, activations)
            if activations.last_rows:
                gpu.launch(
                    carry_states, config.batch, xh=layer.xh, c=layer.c, batch=batch, config=config,
                    last_rows=activations.last_rows, inputs=layer.inputs,
                )  # fmt: skip
            self.gemm.matmul(
                "nn", MatrixView(layer.xh), MatrixView(layer.weights), MatrixView(layer.z),
                Extent(rows, 4 * layer.units, layer.inputs + 1),
            )  # fmt: skip
            out = MatrixView(activations.xh[number + 1]) if number + 1 < shape.layers else y
            arguments = {"layer": layer, "out": out, "batch": batch, "config": config}
            if self.forward_plan is not None:
                grid, tiling = self.forward_plan
                gpu.launch(lstm.forward, grid, step=0, tiling=tiling, **arguments)
            elif self._step_products:
                self._forward_by_products(layer, arguments)
            else:
                self._launch_steps(self._step_kernels.forward, range(config.steps), arguments)
        activations.last_rows = rows

    def backward(
        self, batch: BatchArrays, config: StepConfig, activations: Activations, buffers: BackwardBuffers,
        gradients: list[Array],
    ) -> None:  # fmt: skip
        """Compute gradients of the layers' weights, and d_x of the first layer, before dropout, from that of y."""
        gpu, gemm, rows = self.gpu, self.gemm, config.rows
        d_out = buffers.d_y
        for number in reversed(range(self.shape.layers)):
            layer = self._layer(number, activations)
            columns, inputs = 4 * layer.units, layer.inputs
            arguments = {
                "layer": layer, "gradients": OutputGradients(d_out, buffers.d_c), "batch": batch, "config": config
            }  # fmt: skip
            if self.backward_plan is not None:
                grid, tiling = self.backward_plan
                gpu.launch(lstm.backward, grid, step=config.steps - 1, tiling=tiling, **arguments)
            elif self._step_products:
                self._backward_by_products(layer, buffers.d_h, arguments)
            else:
                self._launch_steps(self._step_kernels.backward, range(config.steps - 1, -1, -1), arguments)
            xh, d_z, d_x = MatrixView(layer.xh), MatrixView(layer.z), MatrixView(buffers.d_x)
            gemm.matmul("tn", xh, d_z, MatrixView(gradients[number]), Extent(inputs + 1 + layer.units, columns, rows))
            gemm.matmul("nt", d_z, MatrixView(layer.weights), d_x, Extent(rows, inputs, columns))
            if config.recurrent_threshold:
                self._drop_recurrent(gradients[number], gradients[number], number, batch, config)
            d_out = buffers.d_x

    def _drop_recurrent(
        self, source: Array, target: Array, number: int, batch: BatchArrays, config: StepConfig
    ) -> None:  # fmt: skip
        inputs, units, layers = self.shape.inputs[number], self.shape.hidden, self.shape.layers
        self.gpu.launch(
            lstm.drop_recurrent, inputs + 1 + units, source=source, target=target, batch=batch, config=config,
            key=DROPOUT_KEYS + layers + 1 + number, first=inputs + 1, units=units,
        )  # fmt: skip

    def _layer(self, number: int, activations: Activations) -> LayerArrays:
        return LayerArrays(
            number=number + 1, inputs=self.shape.inputs[number], units=self.shape.hidden, xh=activations.xh[number],
            weights=self._dropped[number], z=activations.z[number], c=activations.c[number],
        )  # fmt: skip

    def _forward_by_products(self, layer: LayerArrays, arguments: dict[str, Any]) -> None:
        """Run all time steps: for each a product, and a launch for the cells."""
        batch, units, state = arguments["config"].batch, layer.units, layer.inputs + 1
        for step in range(arguments["config"].steps):
            h, w_hh = MatrixView(layer.xh, step * batch, state), MatrixView(layer.weights, state)
            z = MatrixView(layer.z, step * batch)
            self.gemm.matmul("nn", h, w_hh, z, Extent(batch, lstm.GATES * units, units), accumulate=True)
            self.gpu.launch(lstm.cell_step_forward, batch, step=step, **arguments)

    def _backward_by_products(self, layer: LayerArrays, d_h: Array, arguments: dict[str, Any]) -> None:
        batch, steps = arguments["config"].batch, arguments["config"].steps
        for step in reversed(range(steps)):
            if step < steps - 1:
                d_z, w_hh = MatrixView(layer.z, (step + 1) * batch), MatrixView(layer.weights, layer.inputs + 1)
                extent = Extent(batch, layer.units, lstm.GATES * layer.units)
                self.gemm.matmul("nt", d_z, w_hh, MatrixView(d_h), extent)
            self.gpu.launch(lstm.cell_step_backward, batch, step=step, d_h=d_h, **arguments)

    def _launch_steps(self, kernel: Kernel, steps: range, arguments: dict[str, Any]) -> None:
        batch, units = arguments["config"].batch, self.shape.hidden
        for step in steps:
            self.gpu.launch(kernel, (-(-units // kernel.tile[1]), -(-batch // kernel.tile[0])), step=step, **arguments)


# --- states on the host ---------------------------------------------------------------------------------


def write_state(gpu: Gpu, shape: Shape, activations: Activations, state: State, row: int) -> None:
    """Upload the state of the next forward pass, which carries it from `row`, at least B, to row 0."""
    activations.last_rows = row
    for layer, inputs in enumerate(shape.inputs):
        rows = len(state.h[layer])
        xh = np.zeros((rows, state_width(inputs, shape.hidden)), np.float32)
        xh[:, inputs] = 1
        xh[:, inputs + 1 : inputs + 1 + shape.hidden] = state.h[layer]
        gpu.write(activations.xh[layer][row : row + rows], xh)
        gpu.write(activations.c[layer][row : row + rows], state.c[layer].astype(np.float32))


def read_state(gpu: Gpu, shape: Shape, activations: Activations, batch: int) -> State:
    """Download the state after the last forward pass, whose batch had `batch` rows."""
    last = slice(activations.last_rows, activations.last_rows + batch)
    pairs = zip(activations.xh, shape.inputs, strict=True)
    h = [gpu.download(xh[last])[:, inputs + 1 : inputs + 1 + shape.hidden] for xh, inputs in pairs]
    return State(np.stack(h), np.stack([gpu.download(c[last]) for c in activations.c]))
