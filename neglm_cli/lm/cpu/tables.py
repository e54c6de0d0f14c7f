"""The two tables of word vectors: lookup with dropout, and sparse gradients of the rows that a minibatch touches.

Every occurrence of a word in a minibatch adds factor · source row to the gradient of the word's row. Words belong to
threads, so that a row has a single writer; the words of a thread are spread over all frequencies.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import inlined, kernel, outlined
from neglm_cli.lm.cpu.functions import ONE, add_row, sum_of_squares
from neglm_cli.lm.cpu.threads import rows_of
from neglm_cli.lm.scalar import SIXTEEN, SIXTEEN_BITS, dropout_scale
from neglm_cli.objective.random import draw

GOLDEN, S32 = np.uint64(2654435769), np.uint64(32)  # golden ratio times 2^32
LOWER = np.uint64(0xFFFFFFFF)


class SparseGradients(NamedTuple):
    """Rows of a table that a minibatch touches, by thread, and their gradients."""

    slot: np.ndarray  # int32 (V,): -1 everywhere between calls
    rows: np.ndarray  # int32 (threads, ·): the distinct words of each thread
    counts: np.ndarray  # int64 (threads, 8): their number, in the first column; one cache line per thread
    ends: np.ndarray  # int32 (threads, ·): see `group_occurrences`
    order: np.ndarray  # int32 (threads, occurrences)
    values: np.ndarray  # (threads, ·, width): gradients of the rows
    source: np.ndarray  # int32 (occurrences,): the source row of each occurrence
    factors: np.ndarray  # float32 (occurrences,): factor of the source row
    part: np.ndarray  # uint8 (occurrences,): part of the batch; see `batch_parts`


class Dropout(NamedTuple):
    """Dropout masks, the same in forward and backward passes."""

    positions: np.ndarray  # uint64 (N,): of each row in the corpus
    key: np.uint64  # of this layer's masks
    threshold: int  # see `Settings.dropout_threshold`


@inlined
def _owner(word, threads):
    """Return the thread that owns a word."""
    return np.int64(((np.uint64(word) * GOLDEN & LOWER) * np.uint64(threads)) >> S32)


@outlined
def lookup(table, batch, x, width, first, last):
    """Copy the first `width` columns of the inputs' rows of a table, for rows `first` to `last` of x. Words that are
    dropped have zeros."""
    for row in range(first, last):
        word, scale = batch.ids[row], batch.input_scale[row]
        for column in range(width):
            x[row, column] = scale * table[word, column]


@outlined
def copy_vectors(table, words, x, width, first, last):
    """Copy the first `width` columns of words' rows of a table, for rows `first` to `last` of x."""
    for row in range(first, last):
        for column in range(width):
            x[row, column] = table[words[row], column]


@outlined
def dropout(source, target, units, masks, first, last):
    """Zero some units of each row and scale the others up, to preserve the mean.

    Masks depend only on the key and the row's position in the corpus: applied to gradients, this is dropout's own
    gradient. A unit takes 16 random bits, so one draw serves four units.
    """
    positions, key, dropout_threshold = masks
    scale = dropout_scale(dropout_threshold)
    threshold = np.uint64(dropout_threshold)
    for row in range(first, last):
        if not dropout_threshold:
            for unit in range(units):
                target[row, unit] = source[row, unit]
            continue
        row_key = draw(key, positions[row])
        for group in range(units // 4):
            bits = draw(row_key, np.uint64(group))
            for unit in range(4 * group, 4 * group + 4):
                target[row, unit] = source[row, unit] * (scale if (bits & SIXTEEN_BITS) >= threshold else np.float32(0))
                bits >>= SIXTEEN
        bits = draw(row_key, np.uint64(units // 4))
        for unit in range(units // 4 * 4, units):
            target[row, unit] = source[row, unit] * (scale if (bits & SIXTEEN_BITS) >= threshold else np.float32(0))
            bits >>= SIXTEEN


@kernel
def list_inputs(batch, at, first_source, part_of_row, words, sparse, worker):
    """List the inputs of a minibatch as occurrences, from number `at` on, with the rows of d_x as sources.

    first_source: the source row of the first; part_of_row: uint8 (N,); words: int32 (occurrences,). Each thread lists
    its rows.
    """
    first, last = rows_of(batch.ids.size, worker)
    for row in range(first, last):
        words[at + row] = batch.ids[row]
        sparse.source[at + row] = first_source + row
        sparse.factors[at + row] = batch.input_scale[row]
        sparse.part[at + row] = part_of_row[row]


@kernel
def group_occurrences(words, sparse, parts, worker):
    """Find the distinct words of a thread, and list the occurrences of each.

    words: int32 (occurrences,). In part p of the batch, of `parts`, the i-th word occurs at
    order[ends[e - 1]:ends[e]] with e = i·parts + p, from 0 for the first. Time is linear in the occurrences, not in the
    vocabulary size: `slot` is reset to -1.
    """
    thread, threads = worker.thread, worker.threads
    slots, rows, ends, order, part = (
        sparse.slot,
        sparse.rows[thread],
        sparse.ends[thread],
        sparse.order[thread],
        sparse.part,
    )
    found = 0
    for at in range(words.size):
        word = words[at]
        if _owner(word, threads) == thread:
            slot = slots[word]
            if slot < 0:
                slot = found
                slots[word] = slot
                rows[slot] = word
                for p in range(parts):
                    ends[slot * parts + p] = 0
                found += 1
            ends[slot * parts + part[at]] += 1
    start = 0
    for end in range(found * parts):  # counts to starts, which advance to ends as occurrences are listed
        size = ends[end]
        ends[end] = start
        start += size
    for at in range(words.size):
        word = words[at]
        if _owner(word, threads) == thread:
            end = slots[word] * parts + part[at]
            order[ends[end]] = at
            ends[end] += 1
    for slot in range(found):
        slots[rows[slot]] = -1
    sparse.counts[thread, 0] = found


@kernel
def gather_gradients(sparse, source, reduction, thread):
    """Sum the gradients of a thread's rows, part by part. Return the sum of their squares.

    source (·, width): the rows that occurrences add, times their factors. reduction: with scratch (2, ·).
    """
    parts, scratch = reduction.parts.size - 1, reduction.scratch
    squares, values, width = 0.0, sparse.values[thread], sparse.values.shape[2]
    ends, order, rows, factors = sparse.ends[thread], sparse.order[thread], sparse.source, sparse.factors
    first = 0
    for slot in range(sparse.counts[thread, 0]):
        end = slot * parts
        _sum_part((first, ends[end], width), order, factors, rows, source, values, slot)
        if parts > 1 and ends[end + 1] > ends[end]:
            _sum_part((ends[end], ends[end + 1], width), order, factors, rows, source, scratch, 0)
            add_row(ONE, scratch, 0, values, slot, width)
        if parts > 2 and ends[end + 3] > ends[end + 1]:
            _sum_part((ends[end + 1], ends[end + 2], width), order, factors, rows, source, scratch, 1)
            if ends[end + 3] > ends[end + 2]:
                _sum_part((ends[end + 2], ends[end + 3], width), order, factors, rows, source, scratch, 0)
                add_row(ONE, scratch, 0, scratch, 1, width)
            add_row(ONE, scratch, 1, values, slot, width)
        first = ends[end + parts - 1]
        squares += sum_of_squares(values, slot)
    return squares


@kernel
def copy_rows(source, target, width, worker):
    """Copy the thread's rows, their first `width` columns, and wait for the other threads."""
    first, last = rows_of(source.shape[0], worker)
    for row in range(first, last):
        for column in range(width):
            target[row, column] = source[row, column]
    barrier_wait(worker)


@kernel
def add_to_dense(rows, gradients, dense, worker):
    """Add the gradients of the thread's rows to a dense gradient, (V, width), and wait for the other threads."""
    for i in range(rows.size):
        add_row(ONE, gradients, i, dense, rows[i], dense.shape[1])
    barrier_wait(worker)


@outlined
def _sum_part(span, order, factors, rows, source, total, row):
    """Set total[row] to the sum of factors · source rows over occurrences. span: first, end in `order`, and columns."""
    first, last, width = span
    for column in range(width):
        total[row, column] = 0
    for at in range(first, last):
        occurrence = order[at]
        add_row(factors[occurrence], source, rows[occurrence], total, row, width)
