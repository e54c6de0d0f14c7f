"""The arrays of a model and of its training, in the layouts that the kernels take. Letters as in `lstm`."""

from typing import NamedTuple

import numpy as np

from neglm_cli.lm.cuda.gpu import Array, Bits, Float, Floats, Gpu, Ids, Int, Matrix
from neglm_cli.lm.parameters import Shape, padded

# --- parameters -----------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """Parameters, their gradients, or their moments."""

    table: Array  # (2V, W): the embedding, then the output table
    layers: Array  # (·,): of all layers
    views: list[Array]  # of each layer: (D + 1 + H, 4H)


def table_width(shape: Shape) -> int:
    """W: the same for both tables, which are one array."""
    return max(padded(shape.embedding), padded(shape.hidden + 1))


def zero_weights(gpu: Gpu, shape: Shape, tables: bool = True) -> Weights:
    """Zeros; without tables, these have a single row."""
    sizes = [(inputs + 1 + shape.hidden, 4 * shape.hidden) for inputs in shape.inputs]
    flat = gpu.zeros(sum(height * width for height, width in sizes))
    views, start = [], 0
    for height, width in sizes:
        views.append(flat[start : start + height * width].reshape(height, width))
        start += height * width
    return Weights(gpu.zeros((2 * shape.words if tables else 1, table_width(shape))), flat, views)


class OptimizerState(NamedTuple):
    """What the optimizer keeps of past gradients."""

    exp_avg: Weights
    exp_avg_sq: Weights
    last_update_step: Array  # int32 (2V,): of the rows of the table; (1,) but for Adam


def zero_state(gpu: Gpu, shape: Shape, moments: int) -> OptimizerState:
    """moments: how many arrays of them the optimizer needs."""
    exp_avg_sq = zero_weights(gpu, shape, moments > 0)
    exp_avg = zero_weights(gpu, shape, moments > 1)
    return OptimizerState(exp_avg, exp_avg_sq, gpu.zeros(2 * shape.words if moments > 1 else 1, np.int32))


class Moments(NamedTuple):
    """A parameter array, and what the optimizer keeps of its gradients; all flat."""

    parameter: Floats
    exp_avg: Floats
    exp_avg_sq: Floats


# --- a minibatch ----------------------------------------------------------------------------------------


class BatchArrays(NamedTuple):
    """The words of a minibatch, N = B·T rows, and the keys of what is drawn for them."""

    words: Bits  # (N,): each row's input in the lower half, its target in the upper
    header: Bits  # position of the first target, distance of rows in the corpus, keys: see `functions`


class StepConfig(NamedTuple):
    """The sizes of a minibatch, and what settings say about its step."""

    batch: Int
    steps: Int
    dropout_threshold: Int = 0  # units of 65,536 that are dropped
    reset_word: Int = -1  # the input that starts from a zero state; -1 if none does
    loss_scale: Float = 0.0

    @property
    def rows(self) -> int:
        """N; not for kernels."""
        return self.batch * self.steps


class Activations:
    """What a forward pass leaves, layer by layer: see `lstm`."""

    def __init__(self, gpu: Gpu, shape: Shape, batch: int, steps: int) -> None:
        rows, units = batch * steps, shape.hidden
        self.xh = [gpu.zeros((rows + batch, inputs + 1 + units)) for inputs in shape.inputs]
        for xh, inputs in zip(self.xh, shape.inputs, strict=True):
            start = np.zeros((rows + batch, inputs + 1 + units), np.float32)
            start[:, inputs] = 1
            gpu.write(xh, start)
        self.c = [gpu.zeros((rows + batch, units)) for _ in self.xh]
        self.z = [gpu.zeros((rows, 4 * units)) for _ in self.xh]
        self.last_rows = 0  # rows of the last minibatch, whose final states come after them


class BackwardBuffers(NamedTuple):
    """Gradients on their way back."""

    d_y: Array  # (N, W)
    d_x: Array  # (N, W), or more rows: of the input of each layer, one after the other
    d_c: Array  # (B, H): of the cell state


class SparseGradients(NamedTuple):
    """Rows of the table that a minibatch touches, and their gradients."""

    rows: Ids  # distinct rows, in no order
    counts: Ids  # (2,): how many rows, and how many chunks of their occurrences; see `tables`
    values: Matrix  # (·, W): gradients of the rows
