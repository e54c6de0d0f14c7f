"""Small functions that kernels share. batch, config: see `arrays.BatchArrays` and `arrays.StepConfig`."""

import math

import numpy as np

from neglm_cli.kernels import register_jitable
from neglm_cli.lm import scalar
from neglm_cli.objective.random import draw

ZERO, ONE = np.float32(0), np.float32(1)
LOWER, S32 = np.uint64(0xFFFFFFFF), np.uint64(32)
# Of a minibatch's header. Rates are the bits of a float32; STEP_RATE: see `optimizers.step_rate`. It ends with the keys
# of dropout masks: of units, then of recurrent weights.
FIRST, STRIDE, NOISE_KEY, NOISE_POSITION, WORD_KEY, STEP, RATE, STEP_RATE, DECAY, DROPOUT_KEYS = range(10)
inlined = register_jitable  # compiled without a GPU, unlike a device function of Numba's
index = np.uint64  # of an element of an array: Numba tests other types for indices from the end, below 0


@inlined
def float_of(bits):
    """The float32 with these bits."""
    return np.uint32(bits).view(np.float32)


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
    at = row % config.batch if config.variational else row
    row_key = draw(batch.header[DROPOUT_KEYS + layer], position(batch, config, at))
    return scalar.dropout_mask(row_key, np.uint64(unit), threshold)


@inlined
def word_mask(batch, config, row):
    """The factor of a row's input vector, 0 if the word is dropped."""
    threshold = config.embedding_threshold
    if threshold == 0:
        return ONE
    return scalar.dropout_mask(batch.header[WORD_KEY], np.uint64(input_word(batch.words, row)), threshold)


@inlined
def softplus(x):
    return max(x, ZERO) + math.log1p(math.exp(-abs(x)))
