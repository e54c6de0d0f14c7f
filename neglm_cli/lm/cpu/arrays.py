"""The arrays of a model and of its training, in the layouts that the CPU kernels take. Letters as in `lstm`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.cpu.batch_parts import part_of_rows
from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.gemm import PANEL
from neglm_cli.lm.cpu.softmax import BLOCK, ROW, NormalizerBuffers
from neglm_cli.lm.cpu.tables import SparseGradients
from neglm_cli.lm.cpu.threads import BlockShare, Share, Worker
from neglm_cli.lm.parameters import Layer, Parameters, Shape, padded
from neglm_cli.simd import ROW_UNIT, aligned

_only_counted = ContextVar("_only_counted", default=False)


@contextmanager
def only_counted() -> Iterator[None]:
    """Make arrays that have their shapes and take no memory, to add up their sizes."""
    token = _only_counted.set(True)
    try:
        yield
    finally:
        _only_counted.reset(token)


def zeros(*shape: int) -> np.ndarray:
    """float32, aligned to a cache line."""
    if _only_counted.get():
        return np.broadcast_to(np.float32(0), shape)
    return aligned(math.prod(shape)).reshape(shape)


def odd_lines(width: int) -> int:
    """The length of rows that are also read by columns: an odd number of cache lines, so that the values of a column
    do not compete for the same cache sets."""
    return padded(width) + (0 if padded(width) // ROW_UNIT % 2 else ROW_UNIT)


# --- parameters -----------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """Parameters, their gradients, or their moments. I is the larger of D and H, so that layers fit one array."""

    w_ih: np.ndarray  # (L, P, I, PANEL)
    w_hh: np.ndarray  # (L, P, H, PANEL)
    bias: np.ndarray  # (L, P, PANEL)
    embedding: np.ndarray  # (V, ·)
    output: np.ndarray  # (V, ·), the bias after the last unit


def pack(matrix: np.ndarray, hidden: int) -> np.ndarray:
    """From (D, 4H), one gate after the other, to (P, D, PANEL)."""
    rows = len(matrix)
    panels = padded(hidden) // UNITS
    gates = np.zeros((rows, 4, panels * UNITS), np.float32)
    gates[:, :, :hidden] = matrix.reshape(rows, 4, hidden)
    packed = zeros(panels, rows, PANEL)
    packed[:] = gates.reshape(rows, 4, panels, UNITS).transpose(2, 0, 1, 3).reshape(panels, rows, PANEL)
    return packed


def unpack(packed: np.ndarray, hidden: int) -> np.ndarray:
    """From (P, D, PANEL) to (D, 4H)."""
    panels, rows, _ = packed.shape
    gates = packed.reshape(panels, rows, 4, UNITS).transpose(1, 2, 0, 3).reshape(rows, 4, panels * UNITS)
    return np.ascontiguousarray(gates[:, :, :hidden]).reshape(rows, 4 * hidden)


def empty_weights(shape: Shape, embedding: np.ndarray, output: np.ndarray) -> Weights:
    """Zeros for the layers, and the given tables."""
    panels = padded(shape.hidden) // UNITS
    return Weights(
        zeros(shape.layers, panels, max(shape.inputs), PANEL),
        zeros(shape.layers, panels, shape.hidden, PANEL),
        zeros(shape.layers, panels, PANEL),
        embedding,
        output,
    )


def pack_parameters(parameters: Parameters) -> Weights:
    """The weights of the layers in panels; the tables as they are, without a copy."""
    shape = parameters.shape
    weights = empty_weights(shape, parameters.embedding, parameters.output)
    for number, layer in enumerate(parameters.layers):
        pack_layer(weights, number, layer, shape)
    return weights


def pack_layer(weights: Weights, number: int, layer: Layer, shape: Shape) -> None:
    weights.w_ih[number, :, : shape.inputs[number]] = pack(layer.input, shape.hidden)
    weights.w_hh[number] = pack(layer.recurrent, shape.hidden)
    weights.bias[number] = pack(layer.bias[None], shape.hidden)[:, 0]


def unpack_layer(weights: Weights, number: int, shape: Shape) -> Layer:
    return Layer(
        unpack(weights.w_ih[number, :, : shape.inputs[number]], shape.hidden),
        unpack(weights.w_hh[number], shape.hidden),
        unpack(weights.bias[number][:, None], shape.hidden)[0],
    )


def zeros_like(weights: Weights, tables: bool = True) -> Weights:
    """Zeros of the same shapes; without tables, these are a single value."""
    w_ih, w_hh, bias = (zeros(*array.shape) for array in (weights.w_ih, weights.w_hh, weights.bias))
    if not tables:
        return Weights(w_ih, w_hh, bias, zeros(1, 1), zeros(1, 1))
    return Weights(w_ih, w_hh, bias, zeros(*weights.embedding.shape), zeros(*weights.output.shape))


class OptimizerState(NamedTuple):
    """What the optimizer keeps of past gradients."""

    exp_avg: Weights
    exp_avg_sq: Weights
    last_update_step: np.ndarray  # int32 (2, V): of the rows of `embedding` and `output`; (2, 1) but for Adam


# --- threads --------------------------------------------------------------------------------------------


class ThreadPartition(NamedTuple):
    """What each thread owns: from [thread] to [thread + 1]."""

    panels: np.ndarray  # panels of a layer
    transposed: np.ndarray  # panels of transposed recurrent weights
    blocks: np.ndarray  # blocks of the vocabulary


def partition(shape: Shape, threads: int) -> ThreadPartition:
    panels = padded(shape.hidden) // UNITS
    firsts = np.array([panels * thread // threads for thread in range(threads + 1)])
    transposed = np.cumsum([0, *(-(-(firsts[1:] - firsts[:-1]) * UNITS // PANEL))])
    blocks = -(-shape.words // BLOCK)
    return ThreadPartition(firsts, transposed, np.array([blocks * thread // threads for thread in range(threads + 1)]))


def workers(owned: ThreadPartition) -> list[Worker]:
    """One for each thread, which share a barrier."""
    threads, arrivals = len(owned.panels) - 1, np.zeros(8, np.int64)
    panels, transposed, blocks = (array.tolist() for array in owned)
    return [
        Worker(
            thread, threads, arrivals, Share(panels[thread], panels[thread + 1], transposed[thread]),
            BlockShare(thread, blocks[thread], blocks[thread + 1]),
        )
        for thread in range(threads)
    ]  # fmt: skip


class TransposedWeights(NamedTuple):
    """Weights transposed for the backward pass, and which rows of the weights are the columns of each panel."""

    w_ih: np.ndarray  # (L, ·, P·PANEL, PANEL)
    w_ih_starts: np.ndarray
    w_ih_ends: np.ndarray  # (L, ·)
    w_hh: np.ndarray  # (L, ·, P·PANEL, PANEL)
    w_hh_starts: np.ndarray
    w_hh_ends: np.ndarray


def transposed_weights(shape: Shape, owned: ThreadPartition) -> TransposedWeights:
    columns = padded(shape.hidden) // UNITS * PANEL
    hh_starts, hh_ends = [], []
    for first, last in zip(owned.panels[:-1] * UNITS, owned.panels[1:] * UNITS, strict=True):
        starts = np.arange(first, last, PANEL)
        hh_starts.append(starts)
        hh_ends.append(np.minimum(np.minimum(starts + PANEL, last), shape.hidden))
    ih_starts = np.arange(0, max(shape.inputs), PANEL)
    ih_ends = np.array([np.clip(ih_starts + PANEL, None, width) for width in shape.inputs])
    return TransposedWeights(
        zeros(shape.layers, len(ih_starts), columns, PANEL),
        ih_starts,
        np.maximum(ih_ends, ih_starts),
        zeros(shape.layers, int(owned.transposed[-1]), columns, PANEL),
        np.concatenate(hh_starts),
        np.maximum(np.concatenate(hh_ends), np.concatenate(hh_starts)),
    )


# --- a minibatch ----------------------------------------------------------------------------------------


class BatchArrays(NamedTuple):
    """The words of a minibatch, N = B·T rows, and the keys of what is drawn for them."""

    ids: np.ndarray  # int32 (N,): inputs
    targets: np.ndarray  # int32 (N,)
    state_mask: np.ndarray  # float32 (N + B,): 0 where a time step starts from a zero state, else 1
    positions: np.ndarray  # uint64 (N,): of the targets in the corpus
    noise_positions: np.ndarray  # uint64: of rows, or of groups that share noise words
    noise_key: np.uint64
    dropout_keys: np.ndarray  # uint64 (L + 1,): before each layer and before the output


class StepConfig(NamedTuple):
    """What settings say about a step, and what changes from step to step."""

    batch: int
    steps: int
    embedding: int  # D
    dropout_threshold: int  # units of 65,536 that are dropped
    bias: np.float32  # 1 if words have a bias, else 0
    loss_scale: np.float32
    clip: float
    optimizer: int
    step: int  # from 1 on
    rate: float


class Activations(NamedTuple):
    """What a forward pass leaves, for N = B·T rows; layer by layer, see `lstm.LayerActivations`."""

    x: np.ndarray  # (L, N, ·)
    gates: np.ndarray  # (L, P, N, PANEL)
    h: np.ndarray  # (L, N + B, ·)
    c: np.ndarray  # (L, N + B, ·)
    out: np.ndarray  # (L, N, ·)
    y: np.ndarray  # (N, ·): the last output after dropout, and 1 for the bias


def activations(shape: Shape, batch: int, steps: int, y: np.ndarray | None = None) -> Activations:
    rows, hidden, layers = batch * steps, odd_lines(shape.hidden), shape.layers
    return Activations(
        zeros(layers, rows, odd_lines(max(shape.inputs))),
        zeros(layers, padded(shape.hidden) // UNITS, rows, PANEL),
        zeros(layers, rows + batch, hidden),
        zeros(layers, rows + batch, hidden),
        zeros(layers, rows, hidden),
        zeros(rows, padded(shape.hidden + 1)) if y is None else y,
    )


class BackwardBuffers(NamedTuple):
    """Gradients on their way back."""

    d_x: np.ndarray  # (L, N, ·): of the input of each layer
    d_out: np.ndarray  # (N, ·): of the last layer's output
    d_y: np.ndarray  # (N, ·)
    d_h: np.ndarray  # (threads, B, ·): of the hidden state, from the next time step
    d_c: np.ndarray  # (threads, B, ·): of the cell state
    squares: np.ndarray  # float64 (threads, 8): sums of squared gradients, of the output table and of the rest


def backward_buffers(shape: Shape, batch: int, steps: int, owned: ThreadPartition) -> BackwardBuffers:
    rows, hidden = batch * steps, padded(shape.hidden)
    units = int(-(-(owned.panels[1:] - owned.panels[:-1]).max() * UNITS // PANEL) * PANEL)
    threads = len(owned.panels) - 1
    return BackwardBuffers(
        zeros(shape.layers, rows, padded(max(shape.inputs))),
        zeros(rows, hidden),
        zeros(rows, padded(shape.hidden + 1)),
        zeros(threads, batch, units),
        zeros(threads, batch, units),
        np.zeros((threads, 8)),
    )


def sparse_gradients(
    words: int, width: int, source: np.ndarray, part: np.ndarray, parts: int, threads: int
) -> SparseGradients:
    """For a table of `words` rows. source, part: of each occurrence of a word in a minibatch."""
    occurrences = len(source)
    most = min(words, occurrences)
    return SparseGradients(
        np.full(words, -1, np.int32),
        np.empty((threads, most), np.int32),
        np.zeros((threads, 8), np.int64),
        np.empty((threads, most * parts), np.int32),
        np.empty((threads, occurrences), np.int32),
        zeros(threads, most, width),
        source.astype(np.int32),
        np.ones(occurrences, np.float32),
        part.astype(np.uint8),
    )


def embedding_gradients(shape: Shape, parts: np.ndarray, steps: int, threads: int) -> SparseGradients:
    """Every input of a minibatch is an occurrence, whose source row is that of d_x. parts: see `batch_parts`."""
    part = np.tile(part_of_rows(parts), steps)
    return sparse_gradients(shape.words, padded(shape.embedding), np.arange(len(part)), part, len(parts) - 1, threads)


def normalizer_buffers(shape: Shape, rows: int, threads: int) -> NormalizerBuffers:
    return NormalizerBuffers(
        zeros(threads, BLOCK // PANEL, padded(shape.hidden + 1), PANEL),
        zeros(threads, 1, rows, ROW),
        np.zeros((threads, rows), np.float32),
        np.zeros((threads, rows)),
        np.zeros(rows, np.float32),
    )
