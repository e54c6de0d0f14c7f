"""The arrays of a model and of its training, named, in the forms that kernels take them. Letters as in `lstm`."""

from typing import NamedTuple

import numpy as np

from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.product import PANEL
from neglm_cli.lm.cpu.softmax import BLOCK, ROW
from neglm_cli.lm.parameters import Layer, Parameters, Shape, padded
from neglm_cli.simd import ROW_UNIT, aligned


def zeros(*shape: int) -> np.ndarray:
    """float32, aligned."""
    return aligned(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def spread(width: int) -> int:
    """The length of rows that are also read by columns: an odd number of cache lines. Were it a power of two, the
    numbers of a column would fight for the same places of a cache."""
    return padded(width) + (0 if padded(width) // ROW_UNIT % 2 else ROW_UNIT)


class Weights(NamedTuple):
    """Parameters, their gradients, or moments of these. I is the larger of D and H: layers lie behind each other."""

    w: np.ndarray  # (L, P, I, PANEL)
    u: np.ndarray  # (L, P, H, PANEL)
    b: np.ndarray  # (L, P, PANEL)
    embedding: np.ndarray  # (V, ·)
    output: np.ndarray  # (V, ·), the bias behind the last unit


def pack(matrix: np.ndarray, hidden: int) -> np.ndarray:
    """From (D, 4H), gates one behind the other, to (P, D, PANEL)."""
    rows = len(matrix)
    panels = padded(hidden) // UNITS
    gates = np.zeros((rows, 4, panels * UNITS), np.float32)
    gates[:, :, :hidden] = matrix.reshape(rows, 4, hidden)
    packed = zeros(panels, rows, PANEL)
    packed[:] = gates.reshape(rows, 4, panels, UNITS).transpose(2, 0, 1, 3).reshape(panels, rows, PANEL)
    return packed


def unpack(packed: np.ndarray, hidden: int) -> np.ndarray:
    """The other way round."""
    panels, rows, _ = packed.shape
    gates = packed.reshape(panels, rows, 4, UNITS).transpose(1, 2, 0, 3).reshape(rows, 4, panels * UNITS)
    return np.ascontiguousarray(gates[:, :, :hidden]).reshape(rows, 4 * hidden)


def packed_weights(parameters: Parameters) -> Weights:
    """The tables are not copied."""
    shape = parameters.shape
    panels = padded(shape.hidden) // UNITS
    weights = Weights(
        zeros(shape.layers, panels, max(shape.inputs), PANEL),
        zeros(shape.layers, panels, shape.hidden, PANEL),
        zeros(shape.layers, panels, PANEL),
        parameters.embedding,
        parameters.output,
    )
    for number, layer in enumerate(parameters.layers):
        fill_layer(weights, number, layer, shape)
    return weights


def fill_layer(weights: Weights, number: int, layer: Layer, shape: Shape) -> None:
    weights.w[number, :, : shape.inputs[number]] = pack(layer.input, shape.hidden)
    weights.u[number] = pack(layer.recurrent, shape.hidden)
    weights.b[number] = pack(layer.bias[None], shape.hidden)[:, 0]


def layer_of(weights: Weights, number: int, shape: Shape) -> Layer:
    """The other way round."""
    return Layer(
        unpack(weights.w[number, :, : shape.inputs[number]], shape.hidden),
        unpack(weights.u[number], shape.hidden),
        unpack(weights.b[number][:, None], shape.hidden)[0],
    )


def weights_like(weights: Weights, tables: bool = True) -> Weights:
    """Zeros in the same shapes; without tables, these are only a number."""
    w, u, b = (zeros(*array.shape) for array in (weights.w, weights.u, weights.b))
    if not tables:
        return Weights(w, u, b, zeros(1, 1), zeros(1, 1))
    return Weights(w, u, b, zeros(*weights.embedding.shape), zeros(*weights.output.shape))


class Shares(NamedTuple):
    """What belongs to each thread: from [thread] to [thread + 1]."""

    panels: np.ndarray  # of a layer
    back: np.ndarray  # of transposed recurrent weights
    blocks: np.ndarray  # of the vocabulary, where all words are looked at


def shares(shape: Shape, threads: int) -> Shares:
    panels = padded(shape.hidden) // UNITS
    firsts = np.array([panels * thread // threads for thread in range(threads + 1)])
    back = np.cumsum([0, *(-(-(firsts[1:] - firsts[:-1]) * UNITS // PANEL))])
    count = -(-shape.words // BLOCK)
    return Shares(firsts, back, np.array([count * thread // threads for thread in range(threads + 1)]))


class Transposed(NamedTuple):
    """Weights, transposed for the way back; which rows of the weights are the columns of each panel."""

    w: np.ndarray  # (L, ·, P·PANEL, PANEL)
    w_starts: np.ndarray
    w_ends: np.ndarray  # (L, ·)
    u: np.ndarray  # (L, ·, P·PANEL, PANEL)
    u_starts: np.ndarray
    u_ends: np.ndarray


def transposed(shape: Shape, own: Shares) -> Transposed:
    columns = padded(shape.hidden) // UNITS * PANEL
    u_starts, u_ends = [], []
    for first, last in zip(own.panels[:-1] * UNITS, own.panels[1:] * UNITS, strict=True):
        starts = np.arange(first, last, PANEL)
        u_starts.append(starts)
        u_ends.append(np.minimum(np.minimum(starts + PANEL, last), shape.hidden))
    w_starts = np.arange(0, max(shape.inputs), PANEL)
    w_ends = np.array([np.clip(w_starts + PANEL, None, width) for width in shape.inputs])
    return Transposed(
        zeros(shape.layers, len(w_starts), columns, PANEL),
        w_starts,
        np.maximum(w_ends, w_starts),
        zeros(shape.layers, int(own.back[-1]), columns, PANEL),
        np.concatenate(u_starts),
        np.maximum(np.concatenate(u_ends), np.concatenate(u_starts)),
    )


class States(NamedTuple):
    """What a pass through the network leaves behind, for N = B·T rows."""

    x: np.ndarray  # (L, N, ·): the input of each layer
    z: np.ndarray  # (L, P, N, PANEL)
    h: np.ndarray  # (L, N + B, ·)
    c: np.ndarray  # (L, N + B, ·)
    out: np.ndarray  # (L, N, ·): the output of each layer
    y: np.ndarray  # (N, ·): the last one after dropout, and 1 for the bias


def states(shape: Shape, batch: int, steps: int, y: np.ndarray | None = None) -> States:
    rows, hidden, layers = batch * steps, spread(shape.hidden), shape.layers
    return States(
        zeros(layers, rows, spread(max(shape.inputs))),
        zeros(layers, padded(shape.hidden) // UNITS, rows, PANEL),
        zeros(layers, rows + batch, hidden),
        zeros(layers, rows + batch, hidden),
        zeros(layers, rows, hidden),
        zeros(rows, padded(shape.hidden + 1)) if y is None else y,
    )


class Way(NamedTuple):
    """Room for the way back."""

    d_x: np.ndarray  # (L, N, ·): of the input of each layer
    d_out: np.ndarray  # (N, ·): of the last layer's output
    d_y: np.ndarray  # (N, ·)
    d_later: np.ndarray  # (threads, B, ·)
    d_c: np.ndarray  # (threads, B, ·)
    squares: np.ndarray  # (threads, ·): sums of squares of gradients


def way(shape: Shape, batch: int, steps: int, own: Shares) -> Way:
    rows, hidden = batch * steps, padded(shape.hidden)
    units = int(-(-(own.panels[1:] - own.panels[:-1]).max() * UNITS // PANEL) * PANEL)
    threads = len(own.panels) - 1
    return Way(
        zeros(shape.layers, rows, padded(max(shape.inputs))),
        zeros(rows, hidden),
        zeros(rows, padded(shape.hidden + 1)),
        zeros(threads, batch, units),
        zeros(threads, batch, units),
        np.zeros((threads, 8)),
    )


class Touched(NamedTuple):
    """Rows of a table that a minibatch touches, of each thread, and their gradients; see `rows`."""

    slot_of: np.ndarray  # int32 (V,)
    distinct: np.ndarray  # int32 (threads, ·)
    ends: np.ndarray  # int32 (threads, ·)
    order: np.ndarray  # int32 (threads, places)
    gradients: np.ndarray  # (threads, ·, width)
    found: np.ndarray  # (threads, 8), the first of 8: so that no two threads write to one cache line
    source_of: np.ndarray  # int32 (places,): the row of the source for each place
    factors: np.ndarray  # float32 (places,): what that row is multiplied with
    part_of: np.ndarray  # uint8 (places,): the part of the batch that it belongs to


def touched(
    words: int, places: int, width: int, source_of: np.ndarray, part_of: np.ndarray, parts: int, threads: int
) -> Touched:
    most = min(words, places)
    return Touched(
        np.full(words, -1, np.int32),
        np.empty((threads, most), np.int32),
        np.empty((threads, most * parts), np.int32),
        np.empty((threads, places), np.int32),
        zeros(threads, most, width),
        np.zeros((threads, 8), np.int64),
        source_of.astype(np.int32),
        np.ones(places, np.float32),
        part_of.astype(np.uint8),
    )


class Scoring(NamedTuple):
    """Room for log Z."""

    packed: np.ndarray  # (threads, BLOCK / PANEL, ·, PANEL)
    scores: np.ndarray  # (threads, 1, N, ROW)
    highest: np.ndarray  # float32 (threads, N)
    sums: np.ndarray  # float64 (threads, N)
    target_scores: np.ndarray  # float32 (N,)


def scoring(shape: Shape, rows: int, threads: int) -> Scoring:
    return Scoring(
        zeros(threads, BLOCK // PANEL, padded(shape.hidden + 1), PANEL),
        zeros(threads, 1, rows, ROW),
        np.zeros((threads, rows), np.float32),
        np.zeros((threads, rows)),
        np.zeros(rows, np.float32),
    )
