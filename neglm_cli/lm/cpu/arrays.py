"""The arrays of a model and of its training, in the layouts that the CPU kernels take. Letters as in `lstm`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import allocate_barrier
from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.gemm import PANEL
from neglm_cli.lm.cpu.softmax import BLOCK, ROW, ROWS, NormalizerBuffers
from neglm_cli.lm.cpu.tables import SparseGradients
from neglm_cli.lm.cpu.threads import BlockRange, PanelRange, Worker
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.settings.parameters import ALL_OPTIMIZERS, DENSE
from neglm_cli.simd import ROW_UNIT, aligned

_only_counted = ContextVar("_only_counted", default=False)


@contextmanager
def only_counted() -> Iterator[None]:
    """Allocate arrays with shapes but without memory, to sum their sizes."""
    token = _only_counted.set(True)
    try:
        yield
    finally:
        _only_counted.reset(token)


def zeros(*shape: int) -> np.ndarray:
    """Allocate float32 zeros, aligned to a cache line."""
    if _only_counted.get():
        return np.broadcast_to(np.float32(0), shape)
    return aligned(math.prod(shape)).reshape(shape)


def odd_lines(width: int) -> int:
    """Return the length of rows that are also read by columns: an odd number of cache lines, so that the values of a
    column do not compete for the same cache sets."""
    return padded(width) + (0 if padded(width) // ROW_UNIT % 2 else ROW_UNIT)


# --- parameters -----------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """Parameters, their gradients, or their optimizer state. Layers share arrays: I is the larger of D and H."""

    w_ih: np.ndarray  # (L, P, I, PANEL)
    w_hh: np.ndarray  # (L, P, H, PANEL)
    bias: np.ndarray  # (L, P, PANEL)
    embedding: np.ndarray  # (V, ·); the output table itself in a tied model
    output: np.ndarray  # (V, ·), the bias after the last unit

    def distinct(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, without the embedding of a tied model."""
        return {name: array for name, array in self._asdict().items() if name != "embedding" or not self.tied}

    @property
    def tied(self) -> bool:
        return self.embedding is self.output


def panel_shape(shape: Shape, array: str) -> tuple[int, ...]:
    """Return the shape of an array with a dense parameter of all layers: (L, P, ·, PANEL).

    Layers may have different numbers of rows; the largest fits.
    """
    rows = (shape.size(spec)[:-1] for spec in shape.specs if spec.array == array)
    return shape.layers, padded(shape.hidden) // UNITS, *map(max, zip(*rows, strict=True)), PANEL


def empty_weights(shape: Shape, tables: dict[str, np.ndarray]) -> Weights:
    """Allocate zeros for the layers, and take the given tables."""
    return _weights({array: zeros(*panel_shape(shape, array)) for array in DENSE} | tables)


def _weights(arrays_: dict[str, np.ndarray]) -> Weights:
    """Make weights of distinct arrays: without an embedding, the output table stands in for it."""
    return Weights(**{"embedding": arrays_["output"]} | arrays_)


def zeros_like(weights: Weights, tables: bool = True) -> Weights:
    """Allocate zeros of the same shapes; without tables, these are a single value."""
    return _weights(
        {
            name: zeros(*array.shape) if tables or name in DENSE else zeros(1, 1)
            for name, array in weights.distinct().items()
        }
    )


def dense_gradients(weights: Weights, extra: int) -> tuple[Weights, np.ndarray]:
    """Allocate gradients of the dense parameters in one flat array, for a single allreduce.

    Return them, and the flat array, which ends with `extra` more values.
    """
    sizes = {name: getattr(weights, name).shape for name in DENSE}
    flat = zeros(sum(map(math.prod, sizes.values())) + extra)
    dense, start = {}, 0
    for name, size in sizes.items():
        end = start + math.prod(size)
        dense[name], start = flat[start:end].reshape(size), end
    return Weights(**dense, **{name: zeros(1, 1) for name in Weights._fields if name not in DENSE}), flat


class OptimizerState(NamedTuple):
    """Optimizer state of every parameter. Adagrad's sums of squares are in `exp_avg_sq`, anchors in `exp_avg`."""

    exp_avg: Weights
    exp_avg_sq: Weights
    last_update_step: np.ndarray  # int32 (tables, V): of the rows of each table; (tables, 1) if not needed


def optimizer_state(weights: Weights, shape: Shape, optimizer: str) -> OptimizerState:
    """Allocate the state that `settings.parameters` declares for an optimizer."""
    spec = ALL_OPTIMIZERS[optimizer]
    kept = {each.array for each in spec.state}
    return OptimizerState(
        zeros_like(weights, tables="exp_avg" in kept),
        zeros_like(weights, tables="exp_avg_sq" in kept),
        np.zeros((len(shape.tables), shape.words if spec.row_steps else 1), np.int32),
    )


# --- threads --------------------------------------------------------------------------------------------


class ThreadPartition(NamedTuple):
    """The ranges that threads own: thread t has those from [t] to [t + 1]."""

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
    """Make a worker for each thread, with a common barrier."""
    threads = len(owned.panels) - 1
    barrier = allocate_barrier(threads)
    panels, transposed, blocks = (array.tolist() for array in owned)
    return [
        Worker(
            thread, threads, barrier, PanelRange(panels[thread], panels[thread + 1], transposed[thread]),
            BlockRange(thread, blocks[thread], blocks[thread + 1]),
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
    """The words of a minibatch, N = B·T rows, and the keys of its random numbers."""

    ids: np.ndarray  # int32 (N,): inputs
    targets: np.ndarray  # int32 (N,)
    state_mask: np.ndarray  # float32 (N + B,): 0 where a time step starts from a zero state, else 1
    input_scale: np.ndarray  # float32 (N,): factors of the inputs' vectors, 0 for words that are dropped
    dropout_positions: np.ndarray  # uint64 (N,): in the corpus
    noise_positions: np.ndarray  # uint64: of rows, or of groups that share noise words
    noise_key: np.uint64
    dropout_keys: np.ndarray  # uint64 (L + 1,): before each layer and before the output
    recurrent_keys: np.ndarray  # uint64 (L,): of recurrent dropout


def rows_by_step(array: np.ndarray) -> np.ndarray:
    """Return (B, T) as rows t·B + b."""
    return np.ascontiguousarray(array.T).reshape(-1)


class StepConfig(NamedTuple):
    """The sizes, settings and schedule of a step."""

    batch: int
    steps: int
    embedding: int  # D
    dropout_threshold: int  # see `Settings.dropout_threshold`
    recurrent_threshold: int  # likewise, of the recurrent weights
    bias: np.float32  # 1 if words have a bias, else 0
    loss_scale: np.float32
    clip: float
    optimizer: int
    step: int  # from 1 on
    rate: float
    decay: float = 0.0  # of anchored SGD


class Activations(NamedTuple):
    """The results of a forward pass over N = B·T rows, by layer; see `lstm.LayerActivations`."""

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
    """Gradients of activations, and sums of squared gradients."""

    d_x: np.ndarray  # (L, N, ·): of the input of each layer
    d_out: np.ndarray  # (N, ·): of the last layer's output
    d_y: np.ndarray  # (N, ·)
    d_h: np.ndarray  # (threads, B, ·): of the hidden state, from the next time step
    d_c: np.ndarray  # (threads, B, ·): of the cell state
    squares: np.ndarray  # float64 (threads, 8): sums of squared gradients, of the output table and of the rest
    ones: np.ndarray  # (1,): the input of biases


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
        np.ones(1, np.float32),
    )


def sparse_gradients(words: int, width: int, occurrences: int, parts: int, threads: int) -> SparseGradients:
    """Allocate gradients of a table with `words` rows. occurrences: of words in the largest minibatch."""
    most = min(words, occurrences)
    return SparseGradients(
        np.full(words, -1, np.int32),
        np.empty((threads, most), np.int32),
        np.zeros((threads, 8), np.int64),
        np.empty((threads, most * parts), np.int32),
        np.empty((threads, occurrences), np.int32),
        zeros(threads, most, width),
        np.zeros(occurrences, np.int32),
        np.ones(occurrences, np.float32),
        np.zeros(occurrences, np.uint8),
    )


def embedding_gradients(shape: Shape, part_of_input: np.ndarray, parts: int, threads: int) -> SparseGradients:
    """Allocate gradients of the embedding: each input is an occurrence, whose source is its row of d_x.

    part_of_input: uint8 (N,); see `batch_parts`.
    """
    inputs = len(part_of_input)
    gradients = sparse_gradients(shape.words, padded(shape.embedding), inputs, parts, threads)
    gradients.source[:] = np.arange(inputs)
    gradients.part[:] = part_of_input
    return gradients


def normalizer_buffers(shape: Shape, rows: int, threads: int) -> NormalizerBuffers:
    return NormalizerBuffers(
        zeros(threads, BLOCK // PANEL, padded(shape.hidden + 1), PANEL),
        zeros(threads, 1, min(rows, ROWS), ROW),
        np.zeros((threads, rows), np.float32),
        np.zeros((threads, rows)),
        np.zeros(rows, np.float32),
    )
