"""The arrays of a model and of its training, named, in the forms that kernels take them. Letters as in `lstm`."""

from typing import NamedTuple

import numpy as np

from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.product import PANEL
from neglm_cli.lm.cpu.softmax import BLOCK
from neglm_cli.lm.parameters import Parameters, Shape, padded
from neglm_cli.simd import aligned

Arrays = tuple[np.ndarray, ...]


def zeros(*shape: int) -> np.ndarray:
    """float32, aligned."""
    return aligned(int(np.prod(shape, dtype=np.int64))).reshape(shape)


class Weights(NamedTuple):
    """Parameters, their gradients, or moments of these: of each layer, and the two tables."""

    w: Arrays  # (P, D, PANEL) each
    u: Arrays  # (P, H, PANEL)
    b: Arrays  # (P, PANEL)
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
    hidden = parameters.shape.hidden
    return Weights(
        tuple(pack(layer.input, hidden) for layer in parameters.layers),
        tuple(pack(layer.recurrent, hidden) for layer in parameters.layers),
        tuple(pack(layer.bias[None], hidden)[:, 0].copy() for layer in parameters.layers),
        parameters.embedding,
        parameters.output,
    )


def weights_like(weights: Weights, tables: bool = True) -> Weights:
    """Zeros in the same shapes; without tables, these are only a number."""

    def like(array: np.ndarray) -> np.ndarray:
        return zeros(*array.shape)

    nothing = zeros(1, 1)
    return Weights(
        tuple(map(like, weights.w)),
        tuple(map(like, weights.u)),
        tuple(map(like, weights.b)),
        like(weights.embedding) if tables else nothing,
        like(weights.output) if tables else nothing,
    )


class Shares(NamedTuple):
    """What belongs to each thread: from [thread] to [thread + 1]."""

    panels: np.ndarray  # of a layer
    back: np.ndarray  # of transposed recurrent weights
    words: np.ndarray  # of the vocabulary, where all words are looked at


def shares(shape: Shape, threads: int) -> Shares:
    panels = padded(shape.hidden) // UNITS
    firsts = np.array([panels * thread // threads for thread in range(threads + 1)])
    back = np.cumsum([0, *(-(-(firsts[1:] - firsts[:-1]) * UNITS // PANEL))])
    blocks = -(-shape.words // PANEL)
    words = np.minimum([blocks * thread // threads * PANEL for thread in range(threads + 1)], shape.words)
    return Shares(firsts, back, words)


class Transposed(NamedTuple):
    """Weights, transposed for the way back; which columns each panel has."""

    w: Arrays
    w_starts: Arrays
    w_ends: Arrays
    u: Arrays
    u_starts: np.ndarray
    u_ends: np.ndarray


def transposed(shape: Shape, own: Shares) -> Transposed:
    columns = padded(shape.hidden) // UNITS * PANEL
    u_starts, u_ends = [], []
    for first, last in zip(own.panels[:-1] * UNITS, own.panels[1:] * UNITS, strict=True):
        starts = np.arange(first, last, PANEL)
        u_starts.append(starts)
        u_ends.append(np.minimum(np.minimum(starts + PANEL, last), shape.hidden))
    widths = [shape.embedding] + [shape.hidden] * (shape.layers - 1)
    w_starts = tuple(np.arange(0, width, PANEL) for width in widths)
    return Transposed(
        tuple(zeros(len(starts), columns, PANEL) for starts in w_starts),
        w_starts,
        tuple(np.minimum(starts + PANEL, width) for starts, width in zip(w_starts, widths, strict=True)),
        tuple(zeros(int(own.back[-1]), columns, PANEL) for _ in range(shape.layers)),
        np.concatenate(u_starts),
        np.maximum(np.concatenate(u_ends), np.concatenate(u_starts)),
    )


class States(NamedTuple):
    """What a pass through the network leaves behind, for N = B·T rows."""

    x: Arrays  # (N, ·): the input of each layer
    z: Arrays  # (P, N, PANEL)
    h: Arrays  # (N + B, ·)
    c: Arrays  # (N + B, ·)
    out: Arrays  # (N, ·): the output of each layer
    y: np.ndarray  # (N, ·): the last one after dropout, and 1 for the bias


def states(shape: Shape, batch: int, steps: int, y: np.ndarray | None = None) -> States:
    rows, hidden = batch * steps, padded(shape.hidden)
    panels, layers = hidden // UNITS, range(shape.layers)
    return States(
        tuple(zeros(rows, hidden if layer else padded(shape.embedding)) for layer in layers),
        tuple(zeros(panels, rows, PANEL) for _ in layers),
        tuple(zeros(rows + batch, hidden) for _ in layers),
        tuple(zeros(rows + batch, hidden) for _ in layers),
        tuple(zeros(rows, hidden) for _ in layers),
        zeros(rows, padded(shape.hidden + 1)) if y is None else y,
    )


class Way(NamedTuple):
    """Room for the way back."""

    d_x: Arrays  # (N, ·): of the input of each layer
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
        tuple(zeros(rows, hidden if layer else padded(shape.embedding)) for layer in range(shape.layers)),
        zeros(rows, hidden),
        zeros(rows, padded(shape.hidden + 1)),
        zeros(threads, batch, units),
        zeros(threads, batch, units),
        np.zeros((threads, 8)),
    )


class Touched(NamedTuple):
    """Rows of a table that a minibatch touches, of each thread, and their gradients; see `rows`."""

    slot_of: np.ndarray  # int32 (V,)
    distinct: Arrays
    ends: Arrays
    order: Arrays
    gradients: Arrays
    found: np.ndarray  # (threads, 8), the first of 8: so that no two threads write to one cache line
    source_of: np.ndarray  # int32 (places,): the row of the source for each place
    factors: np.ndarray  # float32 (places,): what that row is multiplied with


def touched(words: int, places: int, width: int, source_of: np.ndarray, threads: int) -> Touched:
    most = min(words, places)
    return Touched(
        np.full(words, -1, np.int32),
        tuple(np.empty(most, np.int32) for _ in range(threads)),
        tuple(np.empty(most, np.int64) for _ in range(threads)),
        tuple(np.empty(places, np.int32) for _ in range(threads)),
        tuple(zeros(most, width) for _ in range(threads)),
        np.zeros((threads, 8), np.int64),
        source_of.astype(np.int32),
        np.ones(places, np.float32),
    )


class Scoring(NamedTuple):
    """Room for log Z."""

    packed: Arrays  # (BLOCK / PANEL, ·, PANEL) for each thread
    scores: Arrays  # (N, BLOCK) for each thread
    highest: np.ndarray  # float32 (threads, N)
    sums: np.ndarray  # float64 (threads, N)
    target_scores: np.ndarray  # float32 (N,)


def scoring(shape: Shape, rows: int, threads: int) -> Scoring:
    return Scoring(
        tuple(zeros(BLOCK // PANEL, padded(shape.hidden + 1), PANEL) for _ in range(threads)),
        tuple(zeros(rows, BLOCK) for _ in range(threads)),
        np.zeros((threads, rows), np.float32),
        np.zeros((threads, rows)),
        np.zeros(rows, np.float32),
    )
