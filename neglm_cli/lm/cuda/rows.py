"""Rows of the two tables: which ones a minibatch touches, looked up with dropout, and their gradients.

The tables are one array (2V, W): the row of word w as an input is w, as an output V + w. So is what touches them one
list of places, with room for N rows: inputs from 0, targets from N, noise words from 2N on. A place's gradient is a
factor times a row of `source`, (2N + noise words shared, W): gradients of the network's input from row 0, its output y
from N, and from 2N on the gradients of noise words that rows share.

Words that stand at many places have their gradient made by many blocks, CHUNK places by each.
"""

import numpy as np
from numba import int32

from neglm_cli.lm.cuda.functions import (
    NOISE_KEY,
    NOISE_PLACE,
    ONE,
    ZERO,
    inlined,
    input_word,
    keep,
    mask,
    position,
    target_word,
)
from neglm_cli.lm.cuda.gpu import BITS, FLOATS, IDS, MATRIX, WHOLE, cuda, kernel
from neglm_cli.objective.noise import draw_word
from neglm_cli.objective.random import draw

CHUNK = 64
SCAN_THREADS = 256
FOUND, CHUNKS = range(2)  # numbers of the minibatch's different rows, and of their chunks


@inlined
def _noise_word(table, head, place, room, rows, batch, k, group_rows, shared):
    """The noise word of a place, or -1 if there is none."""
    owner, i = (place - 2 * room) // k, (place - 2 * room) % k
    if owner * group_rows >= rows:
        return np.int64(-1)
    if not shared:
        key = draw(head[NOISE_KEY], position(head, owner, batch))
    else:
        key = draw(head[NOISE_KEY], head[NOISE_PLACE] + np.uint64(owner))
    return np.int64(draw_word(table, draw(key, np.uint64(i))))


@kernel(*(BITS,) * 3, *(IDS,) * 6, *(WHOLE,) * 8, threads=256)
def list_places(
    noise, words, head, row_of, rank, counts, slot_of, distinct, tally, places, room, rows, batch, k, group_rows,
    shared, size,
):  # fmt: skip
    """Draw noise words, and find the different rows that are touched.

    row_of[p]: the row of the tables that belongs to place p, or -1. rank[p]: how many of the row's places were found
    before. counts (2V,): places of each row; all zeros before. distinct: the rows, in no order; slot_of (2V,): where
    a row stands there. tally[0]: how many there are; 0 before. size: V.
    """
    for place in range(cuda.grid(1), places, cuda.gridsize(1)):
        row = np.int64(-1)
        if place < room:
            if place < rows:
                row = input_word(words, place)
        elif place < 2 * room:
            if place - room < rows:
                row = size + target_word(words, place - room)
        else:
            row = _noise_word(noise, head, place, room, rows, batch, k, group_rows, shared)
            if row >= 0:
                row += size
        row_of[place] = row
        if row >= 0:
            before = cuda.atomic.add(counts, row, 1)
            rank[place] = before
            if before == 0:
                slot = cuda.atomic.add(tally, 0, 1)
                distinct[slot] = row
                slot_of[row] = slot


@kernel(*(IDS,) * 7, threads=SCAN_THREADS)
def start_rows(tally, counts, distinct, found, starts, chunk_slot, chunk_start):
    """One block: starts[i] is where the places of the i-th row begin in their order. found: how many rows, and how many
    chunks; of each chunk, its row's slot, and where its places begin."""
    place_sums = cuda.shared.array(SCAN_THREADS, int32)
    chunk_sums = cuda.shared.array(SCAN_THREADS, int32)
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    total = tally[0]
    each = -(-total // threads)
    first, last = min(thread * each, total), min((thread + 1) * each, total)
    places = chunks = 0
    for slot in range(first, last):
        count = counts[distinct[slot]]
        places += count
        chunks += -(-count // CHUNK)
    place_sums[thread] = places
    chunk_sums[thread] = chunks
    cuda.syncthreads()
    if thread == 0:
        places = chunks = 0
        for other in range(threads):
            places, place_sums[other] = places + place_sums[other], places
            chunks, chunk_sums[other] = chunks + chunk_sums[other], chunks
        found[FOUND], found[CHUNKS] = total, chunks
        tally[0] = 0
    cuda.syncthreads()
    places, chunks = place_sums[thread], chunk_sums[thread]
    for slot in range(first, last):
        count = counts[distinct[slot]]
        starts[slot] = places
        for done in range(0, count, CHUNK):
            chunk_slot[chunks] = slot
            chunk_start[chunks] = places + done
            chunks += 1
        places += count


@kernel(*(IDS,) * 6, MATRIX, WHOLE, threads=256)
def order_places(row_of, rank, counts, slot_of, starts, order, gradients, places):
    """order: the places of one row after the other. Gradients that several chunks add to begin with zero."""
    for place in range(cuda.grid(1), places, cuda.gridsize(1)):
        row = row_of[place]
        if row >= 0:
            slot = slot_of[row]
            order[starts[slot] + rank[place]] = place
            if rank[place] == 0 and counts[row] > CHUNK:
                for column in range(gradients.shape[1]):
                    gradients[slot, column] = ZERO


@kernel(MATRIX, BITS, BITS, MATRIX, *(WHOLE,) * 3, threads=128)
def look_up(table, words, head, xh, batch, width, dropped):
    """Rows of the input table to the first `width` columns of xh, with dropout; a block has one row."""
    row = cuda.blockIdx.x
    word = input_word(words, row)
    for unit in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        xh[row, unit] = table[word, unit] * mask(head, 0, row, batch, unit, dropped)


@kernel(MATRIX, MATRIX, BITS, *(WHOLE,) * 6, threads=128)
def carry(xh, c, words, before, rows, batch, inputs, units, end):
    """The state behind the last of `before` rows is that in front of the first, unless that begins with none."""
    b = cuda.blockIdx.x
    kept = keep(words, b, rows, end)
    for unit in range(cuda.threadIdx.x, units, cuda.blockDim.x):
        xh[b, inputs + 1 + unit] = kept * xh[before + b, inputs + 1 + unit]
        c[b, unit] = kept * c[before + b, unit]


@kernel(*(IDS,) * 7, FLOATS, MATRIX, MATRIX, BITS, *(WHOLE,) * 6, threads=128)
def gather(
    distinct, counts, found, starts, chunk_slot, chunk_start, order, factors, source, gradients, head,
    room, batch, width, k, shared, dropped,
):  # fmt: skip
    """gradients[i] = Σ factor · source row, over the places of the i-th row. width: of an input, which has dropout."""
    for chunk in range(cuda.blockIdx.x, found[CHUNKS], cuda.gridDim.x):
        slot, first = chunk_slot[chunk], chunk_start[chunk]
        count = counts[distinct[slot]]
        last = min(first + CHUNK, starts[slot] + count)
        for column in range(cuda.threadIdx.x, gradients.shape[1], cuda.blockDim.x):
            total = ZERO
            for at in range(first, last):
                place = order[at]
                if place < room:
                    if column < width:
                        total += source[place, column] * mask(head, 0, place, batch, column, dropped)
                elif place < 2 * room:
                    total += factors[place] * source[place, column]
                elif shared:
                    total += ONE * source[place, column]
                else:
                    total += factors[place] * source[room + (place - 2 * room) // k, column]
            if count > CHUNK:
                cuda.atomic.add(gradients, (slot, column), total)
            else:
                gradients[slot, column] = total
