"""Small functions that kernels share. batch, config: see `arrays.BatchArrays` and `arrays.StepConfig`."""

import math

import numpy as np
from numba.extending import register_jitable

from neglm_cli.lm import scalar
from neglm_cli.objective.random import draw

ZERO, ONE = np.float32(0), np.float32(1)
LOWER, S32 = np.uint64(0xFFFFFFFF), np.uint64(32)
FIRST, STRIDE, NOISE_KEY, NOISE_POSITION, DROPOUT_KEYS = range(5)  # of a minibatch's header; the keys come last
inlined = register_jitable  # compiled without a GPU, unlike a device function of Numba's


@inlined
def input_word(words, row):
    return np.int64(words[row] & LOWER)


@inlined
def target_word(words, row):
    return np.int64(words[row] >> S32)


@inlined
def position(batch, config, row):
    """The position of a row's target in the corpus."""
    header = batch.header
    return header[FIRST] + np.uint64(row % config.batch) * header[STRIDE] + np.uint64(row // config.batch)


@inlined
def state_mask(batch, config, row):
    """0 if the time step of this row starts from a zero state, else 1."""
    reset_word = config.reset_word
    if row < config.batch * config.steps and reset_word >= 0 and input_word(batch.words, row) == reset_word:
        return ZERO
    return ONE


@inlined
def dropout_mask(batch, config, layer, row, unit):
    """The factor of a unit before a layer, 0 if it is dropped."""
    threshold = config.dropout_threshold
    if threshold == 0:
        return ONE
    row_key = draw(batch.header[DROPOUT_KEYS + layer], position(batch, config, row))
    return scalar.dropout_mask(row_key, np.uint64(unit), threshold)


@inlined
def softplus(x):
    return max(x, ZERO) + math.log1p(math.exp(-abs(x)))
