"""Small functions that kernels share."""

import math

import numpy as np
from numba.extending import register_jitable

from neglm_cli.objective.random import draw

ZERO, ONE = np.float32(0), np.float32(1)
SIXTEEN_BITS = np.uint64(0xFFFF)
LOWER, S32 = np.uint64(0xFFFFFFFF), np.uint64(32)
FIRST, STRIDE, NOISE_KEY, NOISE_PLACE, KEYS = range(5)  # what a minibatch's `head` has; dropout keys from KEYS on
inlined = register_jitable  # needs no GPU to be compiled, as a device function of Numba's does


@inlined
def input_word(words, row):
    """words (N,): a row's input in the lower half, its target in the upper."""
    return np.int64(words[row] & LOWER)


@inlined
def target_word(words, row):
    return np.int64(words[row] >> S32)


@inlined
def position(head, row, batch):
    """The place of a row's target in the corpus."""
    return head[FIRST] + np.uint64(row % batch) * head[STRIDE] + np.uint64(row // batch)


@inlined
def keep(words, row, rows, end):
    """1, or 0 if the step of this row begins with no state; `end`: the word after which that is so, or -1."""
    if row < rows and end >= 0 and input_word(words, row) == end:
        return ZERO
    return ONE


@inlined
def mask(head, place, row, batch, unit, dropped):
    """Dropout: 0, or what a unit is multiplied with; `dropped` of 65,536. The same bits as `lm.cpu.tables.dropout`."""
    if dropped == 0:
        return ONE
    bits = draw(draw(head[KEYS + place], position(head, row, batch)), np.uint64(unit // 4))
    if ((bits >> np.uint64(16 * (unit % 4))) & SIXTEEN_BITS) < np.uint64(dropped):
        return ZERO
    return np.float32(65536.0 / (65536.0 - dropped))


@inlined
def sigmoid(x):
    e = math.exp(-abs(x))
    return ONE / (ONE + e) if x >= ZERO else e / (ONE + e)


@inlined
def softplus(x):
    return max(x, ZERO) + math.log1p(math.exp(-abs(x)))
