"""Sorting words by their bytes, in the order of Python's `bytes`."""

import numpy as np

from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.bits import load64

EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)
EVEN_PAIRS = np.uint64(0x0000FFFF0000FFFF)


@inlined
def big_endian(word):
    """Swap the bytes of a word, the first one to most significant, so that integers compare like the bytes."""
    word = (word & EVEN_BYTES) << np.uint64(8) | (word >> np.uint64(8)) & EVEN_BYTES
    word = (word & EVEN_PAIRS) << np.uint64(16) | (word >> np.uint64(16)) & EVEN_PAIRS
    return word << np.uint64(32) | word >> np.uint64(32)


@inlined
def compare(word_bytes, i, i_length, j, j_length):
    """Compare the words at i and j. Return a negative, zero or positive value, like C's memcmp."""
    common = min(i_length, j_length)
    step = 0
    while step + 8 <= common:
        a, b = load64(word_bytes, i + step), load64(word_bytes, j + step)
        if a != b:
            return -1 if big_endian(a) < big_endian(b) else 1
        step += 8
    while step < common:
        a, b = word_bytes[i + step], word_bytes[j + step]
        if a != b:
            return -1 if a < b else 1
        step += 1
    return i_length - j_length


@kernel
def prefixes(entries, offsets, word_bytes, keys):
    """Set the first 8 bytes of each entry as an integer with the same order; short words are padded with zeros."""
    for i in range(entries.size):
        start = offsets[entries[i]]
        length = offsets[entries[i] + 1] - start
        key = big_endian(load64(word_bytes, start))
        if length < 8:
            unused = np.uint64(64 - 8 * length)
            key = (key >> unused) << unused if length else np.uint64(0)
        keys[i] = key


@kernel
def most_ties(keys):
    """Return the length of the longest run of equal keys, at least 1."""
    longest = ties = 1
    for i in range(1, keys.size):
        ties = ties + 1 if keys[i] == keys[i - 1] else 1
        longest = max(longest, ties)
    return longest


@kernel
def sort_ties(order, keys, offsets, word_bytes, scratch):
    """Sort entries with equal keys by whole words; keys[i] is the key of order[i], ascending.

    A merge sort, because many words may share a prefix. scratch: as many entries as have the same key.
    """
    first = 0
    while first < order.size:
        last = first + 1
        while last < order.size and keys[last] == keys[first]:
            last += 1
        width = 1
        while width < last - first:
            for left in range(first, last, 2 * width):
                middle, right = min(left + width, last), min(left + 2 * width, last)
                i, j = left, middle
                for k in range(left, right):
                    take_left = j == right
                    if i < middle and j < right:
                        a, b = order[i], order[j]
                        take_left = compare(word_bytes, offsets[a], offsets[a + 1] - offsets[a],
                                            offsets[b], offsets[b + 1] - offsets[b]) <= 0  # fmt: skip
                    if take_left:
                        scratch[k - first] = order[i]
                        i += 1
                    else:
                        scratch[k - first] = order[j]
                        j += 1
            for i in range(first, last):
                order[i] = scratch[i - first]
            width *= 2
        first = last


def sort_by_bytes(entries: np.ndarray, offsets: np.ndarray, word_bytes: np.ndarray) -> np.ndarray:
    """Return the entries sorted by their words' bytes."""
    keys = np.empty(entries.size, np.uint64)
    prefixes(entries, offsets, word_bytes, keys)
    order = np.argsort(keys)
    keys = keys[order]
    entries = entries[order]
    sort_ties(entries, keys, offsets, word_bytes, np.empty(most_ties(keys), entries.dtype))
    return entries


@kernel
def gather_words(order, offsets, word_bytes, new_offsets, new_word_bytes):
    """Copy words to new arrays, in this order."""
    end = 0
    new_offsets[0] = 0
    for i in range(order.size):
        start, stop = offsets[order[i]], offsets[order[i] + 1]
        for at in range(start, stop):  # slice assignment takes two seconds to compile
            new_word_bytes[end] = word_bytes[at]
            end += 1
        new_offsets[i + 1] = end
