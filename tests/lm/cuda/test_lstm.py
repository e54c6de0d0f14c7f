"""One layer, all time steps, against the reference: with one launch per step, or one for all."""

from typing import Any

import numpy as np
import pytest

from neglm_cli.lm import reference
from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.arrays import StepConfig
from neglm_cli.lm.cuda.gemm import MatrixView
from neglm_cli.lm.cuda.gpu import Gpu, Grid, Kernel
from neglm_cli.lm.cuda.lstm import LayerArrays, OutputGradients, Tiling
from neglm_cli.settings.train_lm import dropout_threshold
from tests.lm.cuda.executors import SMALL_STEPS
from tests.lm.cuda.making import batch_arrays, by_rows, unit_masks

END = 3
INPUTS = 3
FLOAT_BYTES = 4
MARK = -7777.0
OUT_ROW = 2  # first row of a layer's output
# rows, steps, units; of the persistent kernels: rows at once, slices of a sum, depth
SHAPES = [(1, 1, 1, 4, 1, 1), (3, 4, 5, 4, 3, 2), (9, 3, 7, 8, 2, 3), (5, 2, 4, 4, 4, 16), (13, 2, 5, 12, 1, 4)]


class Layer:
    """Arrays of a layer on the GPU, and of the reference."""

    def __init__(self, gpu: Gpu, shape: tuple[int, ...], dropout: float, end: int) -> None:
        self.gpu, self.end = gpu, end
        self.batch, self.steps, self.units, self.at_once, self.slices, self.depth = shape
        batch, steps, units = self.batch, self.steps, self.units
        self.rows = rows = batch * steps
        random = np.random.default_rng(rows)
        weights = random.uniform(-1, 1, (INPUTS + 1 + units, 4 * units)).astype(np.float32)
        x, self.d_out = (random.standard_normal((batch, steps, width)) for width in (INPUTS, units))
        words = random.integers(2, 5, (batch, steps))
        state_mask = (words != END).astype(float) if end >= 0 else np.ones((batch, steps))
        self.masks = reference.Masks(
            [np.ones(1), unit_masks([INPUTS, units], batch, steps, dropout)[1]], [np.ones((1, 1))]
        )
        start_h, start_c = random.uniform(-1, 1, (2, batch, units)) * state_mask[:, :1]
        self.model = reference.Model(
            x.reshape(rows, INPUTS), [weights[:INPUTS].astype(float)], [weights[INPUTS + 1 :].astype(float)],
            [weights[INPUTS].astype(float)], np.zeros((1, units)), np.zeros(1),
        )  # fmt: skip
        self.inputs = np.arange(rows).reshape(batch, steps)
        self.state_mask = state_mask
        self.activations = reference.forward(self.model, self.inputs, [start_h], [start_c], self.masks, state_mask)

        xh = np.full((rows + batch, INPUTS + 1 + units), np.nan, np.float32)
        xh[:rows, :INPUTS], xh[:, INPUTS] = by_rows(x), 1
        xh[:batch, INPUTS + 1 :] = start_h
        c = np.full((rows + batch, units), np.nan, np.float32)
        c[:batch] = start_c
        z = xh[:rows, : INPUTS + 1] @ weights[: INPUTS + 1]
        self.xh, self.weights, self.z, self.c = (gpu.upload(array) for array in (xh, weights, z, c))
        self.out = gpu.upload(np.full((OUT_ROW + rows + 1, units + 2), MARK, np.float32))
        self.d_c = gpu.upload(np.full((batch, units), np.nan, np.float32))
        wide = np.full((rows, units + 3), np.nan, np.float32)
        wide[:, :units] = by_rows(self.d_out)
        self.d_y = gpu.upload(wide)
        common = {
            "layer": LayerArrays(1, INPUTS, units, self.xh, self.weights, self.z, self.c),
            "batch": batch_arrays(gpu, words, words),
            "config": StepConfig(batch, steps, dropout_threshold(dropout), end),
        }  # fmt: skip
        self.forward: dict[str, Any] = {"out": MatrixView(self.out, OUT_ROW), **common}
        self.backward: dict[str, Any] = {"gradients": OutputGradients(self.d_y, self.d_c), **common}

    def one_step(self, kernel: Kernel, step: int, arguments: dict[str, Any]) -> None:
        blocks = -(-self.units // kernel.tile[1]), -(-self.batch // kernel.tile[0])
        self.gpu.launch(kernel, blocks, step=step, **arguments)

    def all_steps(self, kernel: Kernel, step: int, arguments: dict[str, Any], own: int, columns: int) -> None:
        """columns: sums per unit."""
        inner = 4 * self.units // columns
        sums = self.slices * self.at_once * columns * own
        shared = FLOAT_BYTES * (columns * own * inner + max(self.depth * self.at_once, sums))
        tiling = Tiling(own, self.at_once, self.slices, self.depth)
        work = own * (self.at_once // lstm.ROWS) * self.slices
        threads = (work // lstm.LANES + 1) * lstm.LANES  # more than have work
        blocks = -(-self.units // own)
        self.gpu.launch(kernel, Grid(blocks, threads, shared), step=step, tiling=tiling, **arguments)

    def check_forward(self) -> None:
        """Check gates, states and output; nothing next to the output is written."""
        steps = self.activations.steps[0]
        gates = by_rows(np.stack([np.concatenate(step.gates, axis=1) for step in steps], axis=1))
        close(self.gpu.download(self.z), gates)
        xh, c = self.gpu.download(self.xh), self.gpu.download(self.c)
        close(xh[: self.rows, INPUTS + 1 :], by_rows(np.stack([step.h for step in steps], axis=1)))
        close(c[: self.rows], by_rows(np.stack([step.c for step in steps], axis=1)))
        close(xh[self.rows :, INPUTS + 1 :], self.activations.h[0])
        close(c[self.rows :], self.activations.c[0])
        out = self.gpu.download(self.out)
        last = OUT_ROW + self.rows
        close(out[OUT_ROW:last, : self.units], by_rows(self.activations.y))
        out[OUT_ROW:last, : self.units] = MARK
        assert (out == MARK).all()

    def check_backward(self) -> None:
        """Check gradients of gates through the products that follow."""
        gradient = self.model.like()
        reference.backward(self.model, self.inputs, self.activations, self.d_out, gradient, self.masks, self.state_mask)
        d_z, xh = self.gpu.download(self.z), self.gpu.download(self.xh)[: self.rows]
        close(xh.T @ d_z, np.concatenate([gradient.w_ih[0], gradient.bias, gradient.w_hh[0]]))
        close(d_z @ self.gpu.download(self.weights)[:INPUTS].T, by_rows(gradient.embedding[self.inputs]))


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)


@pytest.fixture(params=[(0.0, -1), (0.4, END)], ids=["plain", "dropout and reset"])
def how(request: pytest.FixtureRequest) -> tuple[float, int]:
    return request.param


@pytest.mark.parametrize("shape", SHAPES)
def test_one_launch_per_step(gpu: Gpu, shape: tuple[int, ...], how: tuple[float, int]) -> None:
    layer = Layer(gpu, shape, *how)
    for step in range(layer.steps):
        layer.one_step(SMALL_STEPS.forward, step, layer.forward)
    layer.check_forward()
    for step in reversed(range(layer.steps)):
        layer.one_step(SMALL_STEPS.backward, step, layer.backward)
    layer.check_backward()


@pytest.mark.parametrize("shape", SHAPES)
def test_one_launch_for_all_steps(gpu: Gpu, shape: tuple[int, ...], how: tuple[float, int]) -> None:
    layer = Layer(gpu, shape, *how)
    layer.all_steps(lstm.forward, 0, layer.forward, layer.units, lstm.GATES)
    layer.check_forward()
    layer.all_steps(lstm.backward, layer.steps - 1, layer.backward, layer.units, 1)
    layer.check_backward()


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("own", [1, 2, 3])
def test_units_of_several_blocks(gpu: Gpu, shape: tuple[int, ...], own: int) -> None:
    """Only the last step of each pass, because the simulator's blocks do not synchronize."""
    layer = Layer(gpu, shape, 0.4, END)
    for step in range(layer.steps - 1):
        layer.one_step(SMALL_STEPS.forward, step, layer.forward)
    layer.all_steps(lstm.forward, layer.steps - 1, layer.forward, own, lstm.GATES)
    layer.check_forward()
    for step in range(layer.steps - 1, 0, -1):
        layer.one_step(SMALL_STEPS.backward, step, layer.backward)
    layer.all_steps(lstm.backward, 0, layer.backward, own, 1)
    layer.check_backward()


@pytest.mark.parametrize("shape", SHAPES)
def test_cells_after_products(gpu: Gpu, shape: tuple[int, ...], how: tuple[float, int]) -> None:
    layer = Layer(gpu, shape, *how)
    weights, batch = layer.model.w_hh[0].astype(np.float32), layer.batch
    for step in range(layer.steps):
        now = slice(step * batch, (step + 1) * batch)
        z = gpu.download(layer.z)
        z[now] += gpu.download(layer.xh)[now, INPUTS + 1 :] @ weights
        gpu.write(layer.z, z)
        gpu.launch(lstm.cell_step_forward, batch, step=step, **layer.forward)
    layer.check_forward()
    d_h = gpu.upload(np.full((batch, layer.units), np.nan, np.float32))
    for step in reversed(range(layer.steps)):
        if step < layer.steps - 1:
            gpu.write(d_h, gpu.download(layer.z)[(step + 1) * batch : (step + 2) * batch] @ weights.T)
        gpu.launch(lstm.cell_step_backward, batch, step=step, d_h=d_h, **layer.backward)
    layer.check_backward()


def test_real_tile_sizes(gpu: Gpu) -> None:
    """Tiles of real sizes, slightly more than one of each."""
    side = lstm.STEP_KERNELS.forward.tile[1]
    layer = Layer(gpu, (lstm.STEP_KERNELS.forward.tile[0] + 2, 2, side + 3, 4, 1, 1), 0.4, END)
    for step in range(layer.steps):
        layer.one_step(lstm.STEP_KERNELS.forward, step, layer.forward)
    layer.check_forward()
    for step in reversed(range(layer.steps)):
        layer.one_step(lstm.STEP_KERNELS.backward, step, layer.backward)
    layer.check_backward()
