"""The launches of a pass through the network, there and back."""

from typing import Any, NamedTuple

import numpy as np

from neglm_cli.lm.cuda import lstm, rows
from neglm_cli.lm.cuda.gpu import SHARED_BYTES, Array, Gpu, Kernel
from neglm_cli.lm.cuda.product import Multiplier, Part
from neglm_cli.lm.parameters import Shape

NUMBER = 4  # bytes
LARGE_BATCH = 64  # rows from which on a step has work enough for a launch of its own
SPARE = (
    1 << 10
)  # bytes of shared memory that the linker gives to kernels whose blocks wait for each other, from sm_90 on
ROWS_AT_ONCE, SLICES, LEAST_DEPTH, THREADS = 32, 16, 16, 256


class Text(NamedTuple):
    """A minibatch on the GPU: see `functions`."""

    words: Array  # uint64 (N,)
    head: Array  # uint64
    batch: int
    steps: int
    dropped: int
    end: int  # the word after which a line begins with no state, or -1

    @property
    def rows(self) -> int:
        return self.batch * self.steps


class Persistent(NamedTuple):
    """How the kernels that make all steps in one launch divide their work; see `lstm.forward`."""

    blocks: int
    threads: int
    shared: int
    own: int
    at_once: int
    slices: int
    depth: int


def persistent(gpu: Gpu, kernel: Kernel, units: int, inner: int, batch: int, columns: int) -> Persistent | None:
    """With as many blocks as find room on the GPU at once; None if they never do.

    inner: terms of a sum; columns: sums of each unit."""
    at_once = min(ROWS_AT_ONCE, -(-batch // lstm.ROWS) * lstm.ROWS)
    for own in range(1, units + 1):
        slices = min(SLICES, max(1, THREADS // (own * at_once // lstm.ROWS)), inner)
        weights = columns * own * inner
        room = (SHARED_BYTES - SPARE) // NUMBER - weights
        depth = min(inner, room // at_once)
        if depth < min(LEAST_DEPTH, inner) or slices * at_once * columns * own > room:
            return None
        threads = min(THREADS, -(-own * (at_once // lstm.ROWS) * slices // 32) * 32)
        if own * (at_once // lstm.ROWS) > threads:
            return None
        shared = NUMBER * (weights + max(depth * at_once, slices * at_once * columns * own))
        blocks = -(-units // own)
        if blocks <= gpu.most_blocks(kernel, threads, shared):
            return Persistent(blocks, threads, shared, own, at_once, slices, depth)
    return None


class States:
    """What a pass through the layers leaves: see `lstm`."""

    def __init__(self, gpu: Gpu, shape: Shape, batch: int, steps: int) -> None:
        rows, units = batch * steps, shape.hidden
        self.xh = [gpu.zeros((rows + batch, inputs + 1 + units)) for inputs in shape.inputs]
        for xh, inputs in zip(self.xh, shape.inputs, strict=True):
            start = np.zeros((rows + batch, inputs + 1 + units), np.float32)
            start[:, inputs] = 1
            gpu.write(xh, start)
        self.c = [gpu.zeros((rows + batch, units)) for _ in self.xh]
        self.z = [gpu.zeros((rows, 4 * units)) for _ in self.xh]
        self.before = 0  # rows of the last minibatch: behind them is the state


class Network:
    """The layers of a model, and their kernels."""

    def __init__(
        self, gpu: Gpu, multiplier: Multiplier, shape: Shape, weights: list[Array], batch: int,
        steps: lstm.Steps = lstm.STEPS,
    ) -> None:  # fmt: skip
        self._gpu = gpu
        self._multiplier = multiplier
        self._shape = shape
        self._weights = weights
        self._steps = steps
        units = shape.hidden
        small = batch < LARGE_BATCH
        self.forward_plan = persistent(gpu, lstm.forward, units, units, batch, lstm.GATES) if small else None
        self.backward_plan = persistent(gpu, lstm.backward, units, lstm.GATES * units, batch, 1) if small else None

    def forward(self, table: Array, text: Text, states: States, y: Part) -> None:
        """From words to y."""
        gpu, shape, units = self._gpu, self._shape, self._shape.hidden
        batch, steps, number = text.batch, text.steps, text.rows
        gpu.launch(
            rows.look_up, number, table, text.words, text.head, states.xh[0], batch, shape.embedding, text.dropped
        )
        for layer, inputs in enumerate(shape.inputs):
            xh, z, c, weights = states.xh[layer], states.z[layer], states.c[layer], self._weights[layer]
            if states.before:
                gpu.launch(rows.carry, batch, xh, c, text.words, states.before, number, batch, inputs, units, text.end)
            self._multiplier.multiply("inner", Part(xh), Part(weights), Part(z), number, 4 * units, inputs + 1)
            out = Part(states.xh[layer + 1]) if layer + 1 < shape.layers else y
            arguments = (
                batch, steps, inputs, units, xh, weights, z, c, out.array, out.row, text.words, text.head, layer + 1,
                text.dropped, text.end,
            )  # fmt: skip
            self._all_steps(self.forward_plan, lstm.forward, self._steps.forward, range(steps), arguments)
        states.before = number

    def backward(self, text: Text, states: States, d_y: Array, d_x: Array, d_c: Array, gradients: list[Array]) -> None:
        """From the gradient of y to those of the layers' weights, and to d_x, that of the first layer's input, in which
        the dropout is still to come. d_x has gradients of all layers' inputs in turn."""
        shape, units, multiplier = self._shape, self._shape.hidden, self._multiplier
        batch, steps, number = text.batch, text.steps, text.rows
        d_out = d_y
        for layer in reversed(range(shape.layers)):
            inputs = shape.inputs[layer]
            xh, z, c, weights = states.xh[layer], states.z[layer], states.c[layer], self._weights[layer]
            arguments = (
                batch, steps, inputs, units, weights, z, c, d_out, d_c, text.words, text.head, layer + 1, text.dropped,
                text.end,
            )  # fmt: skip
            plan = self.backward_plan
            self._all_steps(plan, lstm.backward, self._steps.backward, range(steps - 1, -1, -1), arguments)
            multiplier.multiply(
                "outer", Part(xh), Part(z), Part(gradients[layer]), inputs + 1 + units, 4 * units, number
            )
            multiplier.multiply("transposed", Part(z), Part(weights), Part(d_x), number, inputs, 4 * units)
            d_out = d_x

    def _all_steps(
        self, plan: Persistent | None, all_at_once: Kernel, one: Kernel, steps: range, arguments: tuple[Any, ...]
    ) -> None:
        gpu, units, batch = self._gpu, self._shape.hidden, arguments[0]
        if plan is not None:
            blocks, threads, shared, *division = plan
            gpu.launch(all_at_once, blocks, steps[0], *arguments, *division, shared=shared, threads=threads)
            return
        for step in steps:
            gpu.launch(one, (-(-units // one.tile[1]), -(-batch // one.tile[0])), step, *arguments)
