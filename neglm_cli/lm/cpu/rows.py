"""Rows of tables: looked up with dropout, and their gradients, gathered for each word that occurs.

Words belong to threads, so that a row has one writer; a thread's words are spread over all frequencies.
"""

import numpy as np

from neglm_cli.kernels import inlined, kernel, outlined
from neglm_cli.lm.cpu.functions import ONE, add_row, sum_of_squares
from neglm_cli.objective.random import draw

SIXTEEN = np.uint64(16)
SIXTEEN_BITS = np.uint64(0xFFFF)
SPREAD, S32 = np.uint64(2654435769), np.uint64(32)  # the golden ratio, times 2^32
LOWER = np.uint64(0xFFFFFFFF)


@inlined
def _owner(word, threads):
    """The thread that a word belongs to."""
    return np.int64(((np.uint64(word) * SPREAD & LOWER) * np.uint64(threads)) >> S32)


@kernel
def look_up(table, ids, x, first, last):
    """Rows `first` to `last` of x are the rows of the table that the ids name."""
    for row in range(first, last):
        for column in range(table.shape[1]):
            x[row, column] = table[ids[row], column]


@kernel
def drop(source, target, units, positions, key, dropped, first, last):
    """Dropout: some units of each row become zero, others larger, so that means stay as they are.

    What is dropped depends on the key and the row's position in the corpus alone: applied to gradients, this is
    dropout's own gradient. dropped: how many of 65,536 units; 16 random bits decide, so a draw serves four of them.
    """
    scale = np.float32(65536 / (65536 - dropped))
    limit = np.uint64(dropped)
    for row in range(first, last):
        if not dropped:
            for unit in range(units):
                target[row, unit] = source[row, unit]
            continue
        place = draw(key, positions[row])
        for group in range(units // 4):
            bits = draw(place, np.uint64(group))
            for unit in range(4 * group, 4 * group + 4):
                target[row, unit] = source[row, unit] * (scale if (bits & SIXTEEN_BITS) >= limit else np.float32(0))
                bits >>= SIXTEEN
        bits = draw(place, np.uint64(units // 4))
        for unit in range(units // 4 * 4, units):
            target[row, unit] = source[row, unit] * (scale if (bits & SIXTEEN_BITS) >= limit else np.float32(0))
            bits >>= SIXTEEN


@kernel
def group(words, part_of, parts, slot_of, distinct, ends, order, count, thread, threads):
    """Find the thread's different words; count[0] says how many there are.

    distinct: these words. part_of: the part of the batch that a place belongs to, of `parts`; see `batch_parts`. In
    part p, the i-th word stands at the places order[ends[e - 1]:ends[e]] with e = i·parts + p, from 0 for the first.
    slot_of (V,) is -1 everywhere, before and after: time goes with the words that are there, not with the vocabulary.
    """
    found = 0
    for place in range(words.size):
        word = words[place]
        if _owner(word, threads) == thread:
            slot = slot_of[word]
            if slot < 0:
                slot = found
                slot_of[word] = slot
                distinct[slot] = word
                for part in range(parts):
                    ends[slot * parts + part] = 0
                found += 1
            ends[slot * parts + part_of[place]] += 1
    start = 0
    for end in range(found * parts):  # from sizes to starts, which move on to the ends as places are filled in
        size = ends[end]
        ends[end] = start
        start += size
    for place in range(words.size):
        word = words[place]
        if _owner(word, threads) == thread:
            end = slot_of[word] * parts + part_of[place]
            order[ends[end]] = place
            ends[end] += 1
    for slot in range(found):
        slot_of[distinct[slot]] = -1
    count[0] = found


@kernel
def gather(found, parts, ends, order, factors, source, source_of, gradients, room):
    """gradients[i] = Σ factors[p] · source[source_of[p]] over the places p of the i-th word, part by part; returns the
    sum of their squares. room (2, ·): for two such sums."""
    squares, width = 0.0, gradients.shape[1]
    for slot in range(found):
        begin = slot * parts
        _add_pair(begin, min(parts, 2), ends, order, factors, source, source_of, gradients, slot, room, width)
        if parts > 2 and ends[begin + 3] > ends[begin + 1]:
            _add_pair(begin + 2, 2, ends, order, factors, source, source_of, room, 1, room, width)
            add_row(ONE, room, 1, gradients, slot, width)
        squares += sum_of_squares(gradients, slot)
    return squares


@outlined
def _add_pair(end, count, ends, order, factors, source, source_of, total, row, room, width):
    """total[row] = the sum over one part, plus that over the next if `count` is 2."""
    _add_places(end, ends, order, factors, source, source_of, total, row, width)
    if count == 2 and ends[end + 1] > ends[end]:
        _add_places(end + 1, ends, order, factors, source, source_of, room, 0, width)
        add_row(ONE, room, 0, total, row, width)


@outlined
def _add_places(end, ends, order, factors, source, source_of, total, row, width):
    for column in range(width):
        total[row, column] = 0
    for at in range(ends[end - 1] if end else 0, ends[end]):
        place = order[at]
        add_row(factors[place], source, source_of[place], total, row, width)
