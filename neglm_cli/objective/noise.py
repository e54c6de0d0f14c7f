"""Noise words, drawn in proportion to count^α, in constant time.

Uses an alias table (Walker 1974, Vose 1991): each slot, chosen uniformly, has two words and the probability of the
first. Probability and second word share one 64-bit entry, so that a draw reads memory once.
"""

import numpy as np

from neglm_cli.kernels import kernel, register_jitable
from neglm_cli.objective.random import below

LOWER = np.uint64(0xFFFFFFFF)
S32 = np.uint64(32)


def probabilities(counts: np.ndarray, alpha: float) -> np.ndarray:
    """Return p_α ∝ count^α: float64 (V,)."""
    weights = (np.asarray(counts, np.float64) / counts.max()) ** alpha  # no power overflows
    return weights / weights.sum()


def alias_table(distribution: np.ndarray) -> np.ndarray:
    """Build the table for `draw_word`: uint64 (V,)."""
    assert len(distribution) <= 2**31
    shares = np.asarray(distribution, np.float64) * len(distribution)
    table, scratch = np.empty(len(shares), np.uint64), np.empty((2, len(shares)), np.int64)
    _fill_alias_table(shares, table, scratch)
    return table


def noise_positions(noise: str, positions: np.ndarray, number: int, bptt: int) -> np.ndarray:
    """Return the positions that a minibatch draws noise words for, one for each group of rows that share them.

    noise: of the settings; positions: uint64 (B, T), of the targets in the corpus; number: of the minibatch in its
    epoch. Returns uint64 (B, T) if each word has noise words of its own, (1, T) for "step", and (1, 1) for "batch".
    """
    if noise == "token":
        return positions
    if noise == "step":
        first = number * bptt
        return np.arange(first, first + positions.shape[1], dtype=np.uint64)[None]
    return np.array([[number]], np.uint64)


@register_jitable
def draw_word(table, bits):
    """Draw a word, with 64 random bits."""
    slot = below(bits, np.uint64(table.size))
    entry = table[slot]
    return slot if (bits & LOWER) < (entry >> S32) else entry & LOWER


@kernel
def _fill_alias_table(shares, table, scratch):
    """Fill a table. shares: float64 (V,), of mean 1, overwritten; scratch: int64 (2, V)."""
    small, large = scratch[0], scratch[1]  # words with less than one slot's probability, and with more
    smalls = larges = 0
    for word in range(shares.size):
        if shares[word] < 1:
            small[smalls] = word
            smalls += 1
        else:
            large[larges] = word
            larges += 1
    while smalls and larges:
        smalls -= 1
        word, other = small[smalls], large[larges - 1]
        table[word] = (np.uint64(shares[word] * 2.0**32) << S32) | np.uint64(other)
        shares[other] -= 1 - shares[word]
        if shares[other] < 1:
            larges -= 1
            small[smalls] = other
            smalls += 1
    for rest, count in ((small, smalls), (large, larges)):  # left over by rounding: one word in a slot
        for i in range(count):
            table[rest[i]] = (LOWER << S32) | np.uint64(rest[i])
