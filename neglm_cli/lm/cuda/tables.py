"""The two tables of word vectors: lookup with dropout, and sparse gradients of the rows that a minibatch touches.

Both tables are one array (2V, W): word w has row w as an input, row V + w as an output. In a tied model it has row w as
both. The occurrences of words in a minibatch are one list, too: inputs from 0, targets from N, noise words from 2N,
where N is the number of rows of the largest minibatch. Every occurrence adds factor · source row to the gradient of its
table row. The rows of `source` (2N + shared noise words, W) are gradients of the network's input from 0, its output y
from N, and gradients of shared noise words from 2N, whose factors are 1.

The gradient of a frequent word is computed by several blocks, CHUNK occurrences each, and summed in a fixed order: the
same seed gives the same bytes.
"""

from typing import NamedTuple

import numpy as np
from numba import float32

from neglm_cli.lm.cuda.arrays import BatchArrays, SparseGradients, StepConfig, first_output, table_width
from neglm_cli.lm.cuda.functions import ZERO, dropout_mask, index, inlined, input_word, state_mask, word_mask
from neglm_cli.lm.cuda.gpu import Array, Floats, Gpu, Grid, Int, Matrix, blocks_for, cuda, kernel
from neglm_cli.lm.cuda.occurrences import CHUNK, CHUNKS, ROWS, Chunks, OccurrenceIndex, OccurrenceLayout, Occurrences
from neglm_cli.lm.parameters import Shape
from neglm_cli.settings.train_lm import Settings

COLUMNS = 8  # of a thread of `gather_gradients`: an occurrence is looked up once for all of them
MOST_THREADS = 512  # of its blocks
NEXT = index(1)


class Terms(NamedTuple):
    """Terms that occurrences add to gradients: factor · source row."""

    factors: Floats  # (occurrences,)
    source: Matrix  # (·, W)


@kernel(threads=128)
def lookup(table: Matrix, batch: BatchArrays, config: StepConfig, x: Matrix, width: Int) -> None:
    """Copy rows of the embedding to the first `width` columns of x, with dropout; one block per row."""
    row = cuda.blockIdx.x
    word, scale = input_word(batch.words, row), word_mask(batch, config, row)
    for unit in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        x[row, unit] = scale * table[word, unit] * dropout_mask(batch, config, 0, row, unit)


@kernel(threads=128)
def carry_states(xh: Matrix, c: Matrix, batch: BatchArrays, config: StepConfig, last_rows: Int, inputs: Int) -> None:
    """Copy the final states of the last minibatch to the first rows, or zeros where the state is reset."""
    b = cuda.blockIdx.x
    mask = state_mask(batch, config, b)
    for unit in range(cuda.threadIdx.x, c.shape[1], cuda.blockDim.x):
        xh[b, inputs + 1 + unit] = mask * xh[last_rows + b, inputs + 1 + unit]
        c[b, unit] = mask * c[last_rows + b, unit]


@inlined
def _input_mask(batch, config, layout, row, column):
    """The dropout mask of an input; 0 in columns that only outputs have."""
    if column >= layout.embedding:
        return ZERO
    return dropout_mask(batch, config, 0, row, column)


@kernel(threads=128)
def gather_gradients(
    gradients: SparseGradients, rest: Matrix, chunks: Chunks, occurrences: Occurrences, terms: Terms,
    layout: OccurrenceLayout, batch: BatchArrays, config: StepConfig,
) -> None:  # fmt: skip
    """Sum the terms of each chunk. Inputs, which come before the other occurrences of a row, have dropout instead of a
    factor.

    A thread has COLUMNS columns, a block's number of threads apart, and W is a multiple of them all: see
    `gather_threads`. The sums of all chunks but a row's first go to `rest`, (·, W), for `add_rest`.
    """
    factors, source = terms
    values, order, source_row = gradients.values, occurrences.order, occurrences.source
    capacity, width, threads = layout.capacity, values.shape[1], cuda.blockDim.x
    totals = cuda.local.array(COLUMNS, float32)
    for chunk in range(cuda.blockIdx.x, gradients.counts[CHUNKS], cuda.gridDim.x):
        slot, first = chunks.slot[chunk], chunks.start[chunk]
        is_first = first == chunks.row_start[slot]
        sums, row = (values, slot) if is_first else (rest, chunk - slot - 1)
        last = index(min(first + CHUNK, chunks.row_start[slot + 1]))
        for column in range(cuda.threadIdx.x, width, COLUMNS * threads):
            for i in range(COLUMNS):
                totals[i] = ZERO
            at = index(first)
            while at < last and order[at] < capacity:
                occurrence, term = order[at], index(source_row[at])
                of_word = word_mask(batch, config, occurrence)
                for i in range(COLUMNS):
                    mask = of_word * _input_mask(batch, config, layout, occurrence, column + i * threads)
                    totals[i] += mask * source[term, index(column + i * threads)]
                at += NEXT
            while at < last:
                factor, term = factors[index(order[at])], index(source_row[at])
                for i in range(COLUMNS):
                    totals[i] += factor * source[term, index(column + i * threads)]
                at += NEXT
            for i in range(COLUMNS):
                sums[row, column + i * threads] = totals[i]


def gather_threads(width: int) -> int:
    """Return the threads per block of `gather_gradients` for rows of this length."""
    threads = width // COLUMNS
    return threads if threads <= MOST_THREADS else threads // 2  # W is a multiple of 16


@kernel(threads=128)
def add_rest(gradients: SparseGradients, rest: Matrix, chunks: Chunks) -> None:
    """Add the sums of a row's other chunks to that of its first, in order; see `gather_gradients`."""
    values = gradients.values
    for chunk in range(cuda.blockIdx.x, gradients.counts[CHUNKS], cuda.gridDim.x):
        slot, first = chunks.slot[chunk], chunks.start[chunk]
        count = chunks.row_start[slot + 1] - first
        if first == chunks.row_start[slot] and count > CHUNK:
            for column in range(cuda.threadIdx.x, values.shape[1], cuda.blockDim.x):
                total = values[slot, column]
                for other in range(chunk - slot, chunk - slot + (count - 1) // CHUNK):
                    total += rest[other, column]
                values[slot, column] = total


@kernel(threads=128)
def add_to_dense(sparse: SparseGradients, dense: Matrix) -> None:
    """Add the gradients of rows to a dense gradient, (V, W); a block for each."""
    rows, counts, values = sparse
    for slot in range(cuda.blockIdx.x, counts[ROWS], cuda.gridDim.x):
        row = rows[slot]
        for column in range(cuda.threadIdx.x, values.shape[1], cuda.blockDim.x):
            dense[row, column] += values[slot, column]


def most_rows(shape: Shape, text: int, draws: int, noise: np.ndarray) -> int:
    """Return how many rows of the tables a minibatch can touch: a bound that random noise words stay below.

    text: rows of the minibatch; draws: of noise words; noise: probabilities of words. The number of distinct noise
    words has a variance below its mean m, and exceeds m + 12 (√m + 1) less often than once in 10^25 minibatches.
    """
    mean = float(np.sum(-np.expm1(draws * np.log1p(-np.minimum(noise, 1 - 1e-12))))) if draws else 0.0
    distinct = min(draws, int(mean + 12 * (np.sqrt(mean) + 1)))
    if shape.tied:
        return min(2 * text + distinct, shape.words)
    outputs = min(text + distinct, shape.words) if draws else 0
    return min(text, shape.words) + outputs


class TableGradients:
    """The sparse gradients of both tables, and the launches that compute them."""

    def __init__(self, gpu: Gpu, shape: Shape, settings: Settings, bias: float, noise: np.ndarray) -> None:
        """bias: the last value of the rows of y; noise: see `most_rows`."""
        self._gpu = gpu
        capacity, width = settings.batch * settings.bptt, table_width(shape)
        sampled, shared = settings.sampled, settings.shared_noise
        self.noise_words = noise_words = capacity // settings.group_rows * settings.k if sampled else 0
        total = 2 * capacity + noise_words if sampled else capacity
        self.layout = OccurrenceLayout(
            total, capacity, settings.k, settings.group_rows, int(shared), first_output(shape), shape.embedding
        )  # fmt: skip
        most = most_rows(shape, capacity, noise_words, noise)
        self._index = OccurrenceIndex(gpu, self.layout, most)
        self.occurrences = self._index.occurrences
        values = gpu.zeros((most + 1, width))  # the last row stays zero
        self.gradients = SparseGradients(gpu.zeros(most, np.int32), gpu.zeros(2, np.int32), values)
        self._rest = gpu.zeros((total // CHUNK + 1, width))
        self._no_counts = gpu.zeros(2, np.int32)
        source = np.zeros((2 * capacity + (noise_words if shared else 0), width), np.float32)
        source[capacity : 2 * capacity, shape.hidden] = bias
        factors = np.zeros(2 * capacity + noise_words, np.float32)
        factors[2 * capacity :] = int(shared)
        self.terms = Terms(gpu.upload(factors), gpu.upload(source))

    def find_rows(self, batch: BatchArrays, config: StepConfig, alias_table: Array) -> None:
        """Draw noise words, and find the touched rows with their occurrences."""
        self._index.find(batch, config, alias_table, self.gradients)

    def gather(self, batch: BatchArrays, config: StepConfig) -> None:
        """Sum the gradients of these rows."""
        gpu, chunks, blocks = self._gpu, self._index.chunks, blocks_for(self._gpu, self.layout.total)
        grid = Grid(blocks, gather_threads(self.gradients.values.shape[1]))
        gpu.launch(
            gather_gradients, grid, gradients=self.gradients, rest=self._rest, chunks=chunks,
            occurrences=self.occurrences, terms=self.terms, layout=self.layout, batch=batch, config=config,
        )  # fmt: skip
        gpu.launch(add_rest, blocks, gradients=self.gradients, rest=self._rest, chunks=chunks)

    def move_to(self, dense: Array) -> SparseGradients:
        """Add the gradients of these rows to a dense gradient, and return gradients without rows."""
        self._gpu.launch(add_to_dense, blocks_for(self._gpu, self.layout.total), sparse=self.gradients, dense=dense)
        return self.gradients._replace(counts=self._no_counts)
