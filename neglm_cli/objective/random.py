"""Counter-based random numbers: a hash of purpose and position, without state.

    purpose_key  = stream(seed, NOISE, epoch)        one key per purpose and epoch
    position_key = draw(purpose_key, position)       64 random bits for a position in the corpus
    number       = draw(position_key, i)             the i-th random number at that position

Threads, devices and ranks draw the same numbers without communication, a resumed run equals the uninterrupted run, and
a test can replay any step. The functions are compiled into kernels, and also run on NumPy arrays of uint64. Wrap
plain integers, as in np.uint64(3), because Numba treats them as signed.

`draw` is splitmix64 (Steele, Lea and Flood 2014) with random access: a step of the golden ratio, then a finalizer of
two multiplications in which every bit of the input affects every bit of the output.
"""

import numpy as np

from neglm_cli.kernels import register_jitable

SUBSAMPLE, WINDOW, NOISE, PAIR, INIT, DROPOUT, GENERATE, EMBEDDING_DROPOUT, RECURRENT_DROPOUT = range(9)  # purposes

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
S27, S30, S31, S32, S40 = (np.uint64(shift) for shift in (27, 30, 31, 32, 40))
UNIT24 = np.float32(2.0**-24)


@register_jitable
def draw(key, counter):
    """Return 64 random bits: element `counter` of the sequence of `key`."""
    bits = key + (counter + np.uint64(1)) * GOLDEN
    bits = (bits ^ (bits >> S30)) * FIRST
    bits = (bits ^ (bits >> S27)) * SECOND
    return bits ^ (bits >> S31)


@register_jitable
def below(bits, limit):
    """Return an integer from 0 to limit-1, with limit ≤ 2^32, from the upper half of the bits."""
    return ((bits >> S32) * limit) >> S32


@register_jitable
def unit(bits):
    """Return a float32 in [0, 1), from the upper 24 bits."""
    return np.float32(bits >> S40) * UNIT24


def stream(seed: int, purpose: int, epoch: int = 0) -> np.uint64:
    """Return the key for a purpose and an epoch."""
    key = np.array([seed % 2**64], np.uint64)
    for value in (purpose, epoch):
        key = draw(key, np.array([value], np.uint64))
    return np.uint64(key[0])
