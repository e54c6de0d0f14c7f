"""The two tables of word vectors: lookup with dropout, and sparse gradients of the rows that a minibatch touches.

Both tables are one array (2V, W): word w has row w as an input, row V + w as an output. In a tied model it has row w as
both. The occurrences of words in a minibatch are one list, too: inputs from 0, targets from N, noise words from 2N,
where N is the number of rows of the largest minibatch. Every occurrence adds factor · source row to the gradient of its
table row. The rows of `source` (2N + shared noise words, W) are gradients of the network's input from 0, its output y
from N, and gradients of shared noise words from 2N.

The gradient of a frequent word is computed by several blocks, CHUNK occurrences each.
"""

from typing import NamedTuple

import numpy as np
from numba import int32

from neglm_cli.lm.cuda.arrays import BatchArrays, SparseGradients, StepConfig, first_output, table_rows, table_width
from neglm_cli.lm.cuda.functions import (
    NOISE_KEY,
    NOISE_POSITION,
    ZERO,
    dropout_mask,
    index,
    inlined,
    input_word,
    position,
    state_mask,
    target_word,
    word_mask,
)
from neglm_cli.lm.cuda.gpu import Array, Bits, Floats, Gpu, Ids, Int, Matrix, blocks_for, cuda, kernel
from neglm_cli.lm.parameters import Shape
from neglm_cli.objective.noise import draw_word
from neglm_cli.objective.random import draw
from neglm_cli.settings.train_lm import Settings

CHUNK = 64
SCAN_THREADS = 256
ROWS, CHUNKS, STARTS = range(3)  # of `SparseGradients.counts`; the last one only of the tally


class OccurrenceLayout(NamedTuple):
    """Layout of the list of occurrences."""

    total: Int  # occurrences of the largest minibatch
    capacity: Int  # N
    k: Int  # noise words per group
    group_rows: Int  # rows that share noise words
    shared: Int  # 1 if rows share noise words, else 0
    first_output: Int  # row of the output table; see `arrays.first_output`
    embedding: Int  # D


class Occurrences(NamedTuple):
    """The occurrences of words, int32 (occurrences,) each."""

    row: Ids  # of the table; -1 if a shorter minibatch lacks the occurrence
    rank: Ids  # number of earlier occurrences of the same row
    order: Ids  # occurrences sorted by row
    source: Ids  # rows of `Terms.source`, in the same order


class RowIndex(NamedTuple):
    """Counts and slots of all table rows, int32."""

    counts: Ids  # of occurrences; zeros between minibatches
    slot: Ids  # index in `SparseGradients.rows`


class Chunks(NamedTuple):
    """Starts of the occurrences of each row, and of chunks of them, in `Occurrences.order`."""

    row_start: Ids  # of each slot
    slot: Ids  # of each chunk
    start: Ids  # of each chunk


class Terms(NamedTuple):
    """Terms that occurrences add to gradients: factor · source row."""

    factors: Floats  # (occurrences,); (N, k) for noise words, even if they are shared
    source: Matrix  # (·, W)


@inlined
def _noise_word(alias_table, occurrence, layout, batch, config):
    """Draw the noise word of an occurrence; -1 if the minibatch lacks it."""
    number = occurrence - 2 * layout.capacity
    group, i = number // layout.k, number % layout.k
    if group * layout.group_rows >= config.batch * config.steps:
        return np.int64(-1)
    if not layout.shared:
        key = draw(batch.header[NOISE_KEY], position(batch, config, group))
    else:
        key = draw(batch.header[NOISE_KEY], batch.header[NOISE_POSITION] + np.uint64(group))
    return np.int64(draw_word(alias_table, draw(key, np.uint64(i))))


@kernel(threads=256)
def list_occurrences(
    batch: BatchArrays, config: StepConfig, alias_table: Bits, layout: OccurrenceLayout, occurrences: Occurrences,
    index: RowIndex, rows: Ids, tally: Ids,
) -> None:  # fmt: skip
    """Draw noise words, and find the distinct rows of all occurrences. tally: (3,) zeros; ROWS counts them."""
    capacity, number = layout.capacity, config.batch * config.steps
    for occurrence in range(cuda.grid(1), layout.total, cuda.gridsize(1)):
        row = np.int64(-1)
        if occurrence < capacity:
            if occurrence < number:
                row = input_word(batch.words, occurrence)
        elif occurrence < 2 * capacity:
            if occurrence - capacity < number:
                row = layout.first_output + target_word(batch.words, occurrence - capacity)
        else:
            row = _noise_word(alias_table, occurrence, layout, batch, config)
            if row >= 0:
                row += layout.first_output
        occurrences.row[occurrence] = row
        if row >= 0:
            before = cuda.atomic.add(index.counts, row, 1)
            occurrences.rank[occurrence] = before
            if before == 0:
                slot = cuda.atomic.add(tally, ROWS, 1)
                rows[slot] = row
                index.slot[row] = slot


@kernel(threads=SCAN_THREADS)
def scan_rows(tally: Ids, row_counts: Ids, rows: Ids, chunks: Chunks) -> None:
    """Compute the starts of each row's occurrences and chunks. row_counts: `RowIndex.counts`.

    A block scans as many rows as it has threads, a power of 2, and reserves a range for them: rows are in no order.
    """
    occurrence_sums = cuda.shared.array(SCAN_THREADS, int32)
    chunk_sums = cuda.shared.array(SCAN_THREADS, int32)
    bases = cuda.shared.array(2, int32)
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    total = tally[ROWS]
    for first in range(cuda.blockIdx.x * threads, total, cuda.gridDim.x * threads):
        slot = first + thread
        count = row_counts[rows[slot]] if slot < total else int32(0)
        number = (count + CHUNK - 1) // CHUNK
        occurrence_sums[thread], chunk_sums[thread] = count, number
        cuda.syncthreads()
        distance = 1
        while distance < threads:
            count_before = occurrence_sums[thread - distance] if thread >= distance else int32(0)
            chunks_before = chunk_sums[thread - distance] if thread >= distance else int32(0)
            cuda.syncthreads()
            occurrence_sums[thread] += count_before
            chunk_sums[thread] += chunks_before
            cuda.syncthreads()
            distance *= 2
        if thread == threads - 1:
            bases[0] = cuda.atomic.add(tally, STARTS, occurrence_sums[thread])
            bases[1] = cuda.atomic.add(tally, CHUNKS, chunk_sums[thread])
        cuda.syncthreads()
        if slot < total:
            start = bases[0] + occurrence_sums[thread] - count
            chunk = bases[1] + chunk_sums[thread] - number
            chunks.row_start[slot] = start
            for i in range(number):
                chunks.slot[chunk + i] = slot
                chunks.start[chunk + i] = start + i * CHUNK
        cuda.syncthreads()


@kernel(threads=256)
def order_occurrences(
    occurrences: Occurrences, index: RowIndex, row_start: Ids, gradients: SparseGradients, tally: Ids,
    layout: OccurrenceLayout,
) -> None:  # fmt: skip
    """Sort occurrences by row, and zero the gradients that several chunks add to. Move the tally to the counts."""
    values, capacity = gradients.values, layout.capacity
    if cuda.grid(1) == 0:
        gradients.counts[ROWS], gradients.counts[CHUNKS] = tally[ROWS], tally[CHUNKS]
        tally[ROWS] = tally[CHUNKS] = tally[STARTS] = 0
    for occurrence in range(cuda.grid(1), layout.total, cuda.gridsize(1)):
        row, rank = occurrences.row[occurrence], occurrences.rank[occurrence]
        if row >= 0:
            slot = index.slot[row]
            at = row_start[slot] + rank
            occurrences.order[at] = occurrence
            source = occurrence
            if occurrence >= 2 * capacity and not layout.shared:
                source = capacity + (occurrence - 2 * capacity) // layout.k
            occurrences.source[at] = source
            if rank == 0 and index.counts[row] > CHUNK:
                for column in range(values.shape[1]):
                    values[slot, column] = ZERO


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


@kernel(threads=128)
def gather_gradients(
    gradients: SparseGradients, row_counts: Ids, chunks: Chunks, occurrences: Occurrences, terms: Terms,
    layout: OccurrenceLayout, batch: BatchArrays, config: StepConfig,
) -> None:  # fmt: skip
    """Sum the terms of each row's occurrences. Inputs have dropout instead of a factor; shared noise words, neither."""
    factors, source = terms
    values, order, source_row = gradients.values, occurrences.order, occurrences.source
    capacity = layout.capacity
    first_shared = 2 * capacity if layout.shared else layout.total
    drops = config.dropout_threshold != 0 or config.embedding_threshold != 0
    for chunk in range(cuda.blockIdx.x, gradients.counts[CHUNKS], cuda.gridDim.x):
        slot, first = chunks.slot[chunk], chunks.start[chunk]
        count = row_counts[gradients.rows[slot]]
        last = min(first + CHUNK, chunks.row_start[slot] + count)
        for column in range(cuda.threadIdx.x, values.shape[1], cuda.blockDim.x):
            total = ZERO
            for at in range(first, last):
                occurrence = order[index(at)]
                term = source[index(source_row[index(at)]), index(column)]
                if occurrence >= first_shared:
                    total += term
                elif occurrence >= capacity:
                    total += factors[index(occurrence)] * term
                elif column < layout.embedding:
                    if drops:
                        term *= dropout_mask(batch, config, 0, occurrence, column)
                        term *= word_mask(batch, config, occurrence)
                    total += term
            if count > CHUNK:
                cuda.atomic.add(values, (slot, column), total)
            else:
                values[slot, column] = total


@kernel(threads=128)
def add_to_dense(sparse: SparseGradients, row_counts: Ids, dense: Matrix) -> None:
    """Add the gradients of rows to a dense gradient, (V, W); a block for each.

    row_counts: `RowIndex.counts`, which is reset to 0.
    """
    rows, counts, values = sparse
    for slot in range(cuda.blockIdx.x, counts[ROWS], cuda.gridDim.x):
        row = rows[slot]
        for column in range(cuda.threadIdx.x, values.shape[1], cuda.blockDim.x):
            dense[row, column] += values[slot, column]
        if cuda.threadIdx.x == 0:
            row_counts[row] = 0


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
        self.occurrences = Occurrences(*(gpu.zeros(total, np.int32) for _ in Occurrences._fields))
        self.index = RowIndex(*(gpu.zeros(table_rows(shape), np.int32) for _ in RowIndex._fields))
        chunks = most + total // CHUNK
        self._chunks = Chunks(*(gpu.zeros(size, np.int32) for size in (most, chunks, chunks)))
        self._tally = gpu.zeros(3, np.int32)
        self._no_counts = gpu.zeros(2, np.int32)
        values = gpu.zeros((most + 1, width))  # the last row stays zero
        self.gradients = SparseGradients(gpu.zeros(most, np.int32), gpu.zeros(2, np.int32), values)
        source = np.zeros((2 * capacity + (noise_words if shared else 0), width), np.float32)
        source[capacity : 2 * capacity, shape.hidden] = bias
        factors = gpu.zeros(2 * capacity + (capacity * settings.k if sampled else 0))
        self.terms = Terms(factors, gpu.upload(source))

    def find_rows(self, batch: BatchArrays, config: StepConfig, alias_table: Array) -> None:
        """Draw noise words, and find the touched rows with their occurrences."""
        gpu, rows, layout = self._gpu, self.gradients.rows, self.layout
        blocks = blocks_for(gpu, -(-layout.total // list_occurrences.threads))
        gpu.launch(
            list_occurrences, blocks, batch=batch, config=config, alias_table=alias_table, layout=layout,
            occurrences=self.occurrences, index=self.index, rows=rows, tally=self._tally,
        )  # fmt: skip
        gpu.launch(
            scan_rows, blocks_for(gpu, -(-rows.size // SCAN_THREADS)), tally=self._tally, row_counts=self.index.counts,
            rows=rows, chunks=self._chunks,
        )  # fmt: skip
        gpu.launch(
            order_occurrences, blocks, occurrences=self.occurrences, index=self.index,
            row_start=self._chunks.row_start, gradients=self.gradients, tally=self._tally, layout=layout,
        )  # fmt: skip

    def gather(self, batch: BatchArrays, config: StepConfig) -> None:
        """Sum the gradients of these rows."""
        self._gpu.launch(
            gather_gradients, blocks_for(self._gpu, self.layout.total), gradients=self.gradients,
            row_counts=self.index.counts, chunks=self._chunks, occurrences=self.occurrences, terms=self.terms,
            layout=self.layout, batch=batch, config=config,
        )  # fmt: skip

    def move_to(self, dense: Array) -> SparseGradients:
        """Add the gradients of these rows to a dense gradient, and return gradients without rows."""
        self._gpu.launch(
            add_to_dense, blocks_for(self._gpu, self.layout.total), sparse=self.gradients,
            row_counts=self.index.counts, dense=dense,
        )  # fmt: skip
        return self.gradients._replace(counts=self._no_counts)
