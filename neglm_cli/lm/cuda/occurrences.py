"""The occurrences of words in a minibatch: as inputs, targets and noise words, sorted by row of the tables.

Sorted by row and number, so that the gradients of a row are summed in the same order in every run. First, blocks sort
tiles of the occurrences in shared memory; then runs are merged, FAN of them at a time.
"""

from typing import NamedTuple

import numpy as np
from numba import int64

from neglm_cli.lm.cuda.arrays import BatchArrays, SparseGradients, StepConfig
from neglm_cli.lm.cuda.functions import NOISE_KEY, NOISE_POSITION, index, inlined, input_word, position, target_word
from neglm_cli.lm.cuda.gpu import Array, Bits, Gpu, Ids, Int, Longs, blocks_for, cuda, kernel
from neglm_cli.objective.noise import draw_word
from neglm_cli.objective.random import draw

CHUNK = 64  # occurrences of a row that a block sums
TILE = 1024  # keys that a block sorts
FAN = 8  # runs that are merged into one
SCAN_THREADS = 256  # at most, and a power of 2
ROWS, CHUNKS = range(2)  # of `SparseGradients.counts`
HALF, LOWER = 32, (1 << 32) - 1  # of a key or a pair of counts
ABSENT = (1 << 31) - 1  # instead of a row, in keys of occurrences that a shorter minibatch lacks


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
    order: Ids  # occurrences sorted by row
    source: Ids  # rows of `Terms.source`, in the same order


class Chunks(NamedTuple):
    """Starts of the occurrences of each row, and of chunks of them, in `Occurrences.order`."""

    row_start: Ids  # of each slot; after the last one, the number of occurrences
    slot: Ids  # of each chunk
    start: Ids  # of each chunk


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
    batch: BatchArrays, config: StepConfig, alias_table: Bits, layout: OccurrenceLayout, occurrence_row: Ids,
    keys: Longs,
) -> None:  # fmt: skip
    """Draw noise words, and write the row of each occurrence and the key to sort it by: its row, then its number."""
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
        occurrence_row[occurrence] = row
        keys[occurrence] = (row if row >= 0 else np.int64(ABSENT)) << HALF | occurrence


@kernel(threads=256)
def sort_tiles(keys: Longs, tile: Int) -> None:
    """Sort each `tile` of the keys, a power of 2 up to TILE, by a bitonic network."""
    shared = cuda.shared.array(TILE, int64)
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    for first in range(cuda.blockIdx.x * tile, keys.size, cuda.gridDim.x * tile):
        for i in range(thread, tile, threads):
            shared[index(i)] = keys[index(first + i)] if first + i < keys.size else np.int64(ABSENT) << HALF | LOWER
        cuda.syncthreads()
        size = 2
        while size <= tile:
            distance = size >> 1
            while distance > 0:
                for pair in range(thread, tile >> 1, threads):
                    low = 2 * pair - (pair & (distance - 1))
                    lower, upper = shared[index(low)], shared[index(low + distance)]
                    if (lower > upper) == (low & size == 0):
                        shared[index(low)], shared[index(low + distance)] = upper, lower
                cuda.syncthreads()
                distance >>= 1
            size *= 2
        for i in range(thread, min(tile, keys.size - first), threads):
            keys[index(first + i)] = shared[index(i)]
        cuda.syncthreads()


@inlined
def _lower_bound(keys, key, first, last):
    """Return the index of the first key from `first` on that is at least `key`; `last` if there is none before it."""
    while first < last:
        middle = (first + last) >> 1
        if keys[index(middle)] < key:
            first = middle + 1
        else:
            last = middle
    return first


@kernel(threads=256)
def merge_runs(keys: Longs, merged: Longs, run: Int) -> None:
    """Merge each FAN runs of sorted keys, which are distinct. run: their length."""
    for at in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        key, own = keys[index(at)], at // run
        place = at - own * run
        group = own // FAN * FAN
        for other in range(group, group + FAN):
            if other != own:
                first = min(other * run, keys.size)
                place += _lower_bound(keys, key, first, min(first + run, keys.size)) - first
        merged[index(group * run + place)] = key


@inlined
def _row(keys, at):
    """Return the row of a key; that of none is ABSENT."""
    return keys[index(at)] >> HALF if 0 <= at < keys.size else np.int64(ABSENT)


@inlined
def _starts(keys, at):
    """Return 1 << HALF if a row starts at a key, plus 1 if a chunk does."""
    row = _row(keys, at)
    if row == ABSENT:
        return np.int64(0)
    if _row(keys, at - 1) != row:
        return np.int64(1) << HALF | np.int64(1)
    if _row(keys, at - CHUNK) != row:  # the row's first chunk
        return np.int64(0)
    distance = at - _lower_bound(keys, row << HALF, np.int64(0), at)
    return np.int64(1) if distance % CHUNK == 0 else np.int64(0)


@inlined
def _sum_of_block(sums):
    """Return the sum of the values of all threads, of which each has written one."""
    thread, width = cuda.threadIdx.x, cuda.blockDim.x // 2
    cuda.syncthreads()
    while width > 0:
        if thread < width:
            sums[thread] += sums[thread + width]
        cuda.syncthreads()
        width //= 2
    total = sums[0]
    cuda.syncthreads()
    return total


@kernel(threads=SCAN_THREADS)
def count_starts(keys: Longs, counts: Longs) -> None:
    """Count the starts of rows and chunks among each block's part of the keys: see `_starts`."""
    sums = cuda.shared.array(SCAN_THREADS, int64)
    thread, threads, block = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    part = (keys.size + cuda.gridDim.x - 1) // cuda.gridDim.x
    total = np.int64(0)
    for at in range(block * part + thread, min((block + 1) * part, keys.size), threads):
        total += _starts(keys, at)
    sums[thread] = total
    total = _sum_of_block(sums)
    if thread == 0:
        counts[block] = total


@kernel(threads=SCAN_THREADS)
def order_occurrences(
    keys: Longs, counts: Longs, layout: OccurrenceLayout, occurrences: Occurrences, chunks: Chunks,
    gradients: SparseGradients,
) -> None:  # fmt: skip
    """Write the order of occurrences, the distinct rows, and the starts of rows and chunks.

    counts: of `count_starts`, launched with the same number of blocks.
    """
    sums = cuda.shared.array(SCAN_THREADS, int64)
    thread, threads, block = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    part = (keys.size + cuda.gridDim.x - 1) // cuda.gridDim.x
    last = min((block + 1) * part, keys.size)
    before = np.int64(0)
    for other in range(thread, block, threads):
        before += counts[other]
    sums[thread] = before
    before = _sum_of_block(sums)
    for first in range(block * part, last, threads):
        at = first + thread
        starts = _starts(keys, at) if at < last else np.int64(0)
        sums[thread] = starts
        cuda.syncthreads()
        distance = 1
        while distance < threads:
            earlier = sums[thread - distance] if thread >= distance else np.int64(0)
            cuda.syncthreads()
            sums[thread] += earlier
            cuda.syncthreads()
            distance *= 2
        row = _row(keys, at) if at < last else np.int64(ABSENT)
        if row != ABSENT:
            occurrence, started = keys[index(at)] & LOWER, before + sums[thread]
            slot, chunk = (started >> HALF) - 1, (started & LOWER) - 1
            source = occurrence
            if occurrence >= 2 * layout.capacity and not layout.shared:
                source = layout.capacity + (occurrence - 2 * layout.capacity) // layout.k
            occurrences.order[at], occurrences.source[at] = occurrence, source
            if starts & 1:
                chunks.slot[chunk], chunks.start[chunk] = slot, at
            if starts >> HALF:
                gradients.rows[slot], chunks.row_start[slot] = row, at
            if _row(keys, at + 1) == ABSENT:
                gradients.counts[ROWS], gradients.counts[CHUNKS] = slot + 1, chunk + 1
                chunks.row_start[slot + 1] = at + 1
        before += sums[threads - 1]
        cuda.syncthreads()


def sort_keys(gpu: Gpu, keys: Array, scratch: Array, tile: int) -> Array:
    """Sort distinct keys, int64. Return the array that holds them then: `keys` or `scratch`, of the same size."""
    blocks = blocks_for(gpu, -(-keys.size // merge_runs.threads))
    gpu.launch(sort_tiles, blocks_for(gpu, -(-keys.size // tile)), keys=keys, tile=tile)
    run = tile
    while run < keys.size:
        gpu.launch(merge_runs, blocks, keys=keys, merged=scratch, run=run)
        keys, scratch, run = scratch, keys, run * FAN
    return keys


class OccurrenceIndex:
    """The sorted occurrences of a minibatch, and the launches that find them."""

    def __init__(self, gpu: Gpu, layout: OccurrenceLayout, most_rows: int, tile: int = TILE) -> None:
        """most_rows: distinct rows of a minibatch; tile: see `sort_tiles`."""
        self._gpu, self.layout, total = gpu, layout, layout.total
        self.occurrences = Occurrences(*(gpu.zeros(total, np.int32) for _ in Occurrences._fields))
        most_chunks = most_rows + total // CHUNK
        self.chunks = Chunks(*(gpu.zeros(size, np.int32) for size in (most_rows + 1, most_chunks, most_chunks)))
        self._keys = [gpu.zeros(total, np.int64) for _ in range(2)]
        self._tile = min(tile, 1 << (total - 1).bit_length()) if total > 1 else 2
        self._blocks = blocks_for(gpu, -(-total // SCAN_THREADS))
        self._counts = gpu.zeros(self._blocks, np.int64)

    def find(self, batch: BatchArrays, config: StepConfig, alias_table: Array, gradients: SparseGradients) -> None:
        """Draw noise words, sort all occurrences, and list the distinct rows in `gradients`."""
        gpu, layout, blocks = self._gpu, self.layout, self._blocks
        gpu.launch(
            list_occurrences, blocks, batch=batch, config=config, alias_table=alias_table, layout=layout,
            occurrence_row=self.occurrences.row, keys=self._keys[0],
        )  # fmt: skip
        keys = sort_keys(gpu, *self._keys, self._tile)
        gpu.launch(count_starts, blocks, keys=keys, counts=self._counts)
        gpu.launch(
            order_occurrences, blocks, keys=keys, counts=self._counts, layout=layout, occurrences=self.occurrences,
            chunks=self.chunks, gradients=gradients,
        )  # fmt: skip
