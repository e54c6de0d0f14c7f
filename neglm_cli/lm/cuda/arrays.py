"""The arrays of a model and of its training, in the layouts that the kernels take. Letters as in `lstm`."""

import math
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.cuda.gpu import Array, Bits, Float, Floats, Gpu, Ids, Int, Matrix
from neglm_cli.lm.parameters import Shape, blocks_of_rows, padded
from neglm_cli.settings.parameters import ALL_OPTIMIZERS, ParameterSpec

# --- parameters -----------------------------------------------------------------------------------------


LAYER_ORDER = ("w_ih", "bias", "w_hh")  # rows of a layer's view


class Weights(NamedTuple):
    """Parameters, their gradients, or their optimizer state."""

    table: Array  # (2V, W): the embedding, then the output table; (V, W) in a tied model, for both
    layers: Array  # (·,): of all layers
    views: list[Array]  # of each layer: (D + 1 + H, 4H)

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes + self.layers.nbytes)


def table_width(shape: Shape) -> int:
    """Return W, the length of a row: the same for both tables, which are one array."""
    return max(padded(shape.width(table)) for table in shape.tables)


def table_rows(shape: Shape) -> int:
    """Return the number of rows of all tables."""
    return len(shape.tables) * shape.words


def first_output(shape: Shape) -> int:
    """Return the first row of the output table: V, or 0 in a tied model."""
    return shape.tables.index("output") * shape.words


def layer_rows(shape: Shape, parameter: ParameterSpec) -> slice:
    """Return the rows of a dense parameter in its layer's view."""
    start = 0
    for array in LAYER_ORDER:
        (spec,) = (each for each in shape.specs if each.array == array and each.layer == parameter.layer)
        end = start + math.prod(shape.size(spec)[:-1])
        if array == parameter.array:
            break
        start = end
    return slice(start, end)


def zero_weights(gpu: Gpu, shape: Shape, tables: bool = True) -> Weights:
    """Allocate zeros; without tables, these have a single row."""
    width = 4 * shape.hidden
    heights = [layer_rows(shape, spec).stop for spec in shape.specs if spec.array == LAYER_ORDER[-1]]
    flat = gpu.zeros(sum(heights) * width)
    views, start = [], 0
    for height in heights:
        views.append(flat[start : start + height * width].reshape(height, width))
        start += height * width
    return Weights(gpu.zeros((table_rows(shape) if tables else 1, table_width(shape))), flat, views)


def copy_weights(gpu: Gpu, source: Weights, target: Weights) -> None:
    """Copy all values, some rows of the table at a time."""
    for rows in blocks_of_rows(len(source.table)):
        gpu.write(target.table[rows], gpu.download(source.table[rows]))
    gpu.write(target.layers, gpu.download(source.layers))


class OptimizerState(NamedTuple):
    """Optimizer state of every parameter. Adagrad's sums of squares are in `exp_avg_sq`, anchors in `exp_avg`."""

    exp_avg: Weights
    exp_avg_sq: Weights
    last_update_step: Array  # int32: of the rows of the table; (1,) if not needed


def zero_state(gpu: Gpu, shape: Shape, optimizer: str) -> OptimizerState:
    """Allocate the state that `settings.parameters` declares for an optimizer."""
    spec = ALL_OPTIMIZERS[optimizer]
    kept = {each.array for each in spec.state}
    return OptimizerState(
        zero_weights(gpu, shape, tables="exp_avg" in kept),
        zero_weights(gpu, shape, tables="exp_avg_sq" in kept),
        gpu.zeros(table_rows(shape) if spec.row_steps else 1, np.int32),
    )


class Moments(NamedTuple):
    """A parameter array, and the optimizer state of its values; all flat."""

    parameter: Floats
    exp_avg: Floats
    exp_avg_sq: Floats


# --- a minibatch ----------------------------------------------------------------------------------------


class BatchArrays(NamedTuple):
    """The words of a minibatch, N = B·T rows, and the keys of its random numbers."""

    words: Bits  # (N,): each row's input in the lower half, its target in the upper
    header: Bits  # position of the first target, distance of rows in the corpus, keys: see `functions`


class StepConfig(NamedTuple):
    """The sizes and settings of a step."""

    batch: Int
    steps: Int
    dropout_threshold: Int = 0  # see `Settings.dropout_threshold`
    reset_word: Int = -1  # the input that starts from a zero state; -1 if none does
    loss_scale: Float = 0.0
    variational: Int = 0  # 1 if the time steps of a row share a dropout mask
    embedding_threshold: Int = 0  # see `Settings.embedding_dropout_threshold`
    recurrent_threshold: Int = 0  # see `Settings.recurrent_dropout_threshold`

    @property
    def rows(self) -> int:
        """N; not for kernels."""
        return self.batch * self.steps


def state_width(inputs: int, units: int) -> int:
    """Return the length of a row of `xh`. It is padded: tensor cores are faster with aligned rows."""
    return padded(inputs + 1 + units)


class Activations:
    """The results of a forward pass, by layer; see `lstm`."""

    def __init__(self, gpu: Gpu, shape: Shape, batch: int, steps: int) -> None:
        rows, units = batch * steps, shape.hidden
        self.xh = [gpu.zeros((rows + batch, state_width(inputs, units))) for inputs in shape.inputs]
        for xh, inputs in zip(self.xh, shape.inputs, strict=True):
            start = np.zeros(xh.shape, np.float32)
            start[:, inputs] = 1
            gpu.write(xh, start)
        self.c = [gpu.zeros((rows + batch, units)) for _ in self.xh]
        self.z = [gpu.zeros((rows, 4 * units)) for _ in self.xh]
        self.last_rows = 0  # rows of the last minibatch, whose final states come after them


class BackwardBuffers(NamedTuple):
    """Gradients of activations."""

    d_y: Array  # (N, W)
    d_x: Array  # (N, W), or more rows: of the input of each layer, one after the other
    d_c: Array  # (B, H): of the cell state
    d_h: Array  # (B, H): of the hidden state, from the next time step; see `lstm.cell_step_backward`


class SparseGradients(NamedTuple):
    """Rows of the table that a minibatch touches, and their gradients."""

    rows: Ids  # distinct rows
    counts: Ids  # (2,): how many rows, and how many chunks of their occurrences; see `occurrences`
    values: Matrix  # (·, W): gradients of the rows
