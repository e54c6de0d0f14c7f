"""Randomness is a function of what it is for, not of a state.

    purpose = stream(seed, NOISE, epoch)        one key per purpose and epoch
    place   = draw(purpose, position)           64 random bits for a place in the corpus
    number  = draw(place, i)                    and for the i-th thing that is drawn there

Threads, devices and processes draw the same numbers without talking, a resumed run is the uninterrupted run,
and a test can replay any step. The functions are compiled into kernels and run as they are on NumPy arrays of
uint64; a plain integer must be wrapped first, as in np.uint64(3), for Numba takes it for a signed one.

`draw` is the generator splitmix64 (Steele, Lea and Flood 2014) at any place of its sequence: a step of the golden
ratio, then a finalizer of two multiplications in which every bit of the input reaches every bit of the output.
"""

import numpy as np
from numba.extending import register_jitable

KEEP, WINDOW, NOISE, PAIR, START, DROPOUT, WORDS_TO_COME = range(7)  # what a random number is for

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
S27, S30, S31, S32, S40 = (np.uint64(shift) for shift in (27, 30, 31, 32, 40))
UNIT24 = np.float32(2.0**-24)


@register_jitable
def draw(key, counter):
    """64 random bits: number `counter` of the sequence that `key` names."""
    bits = key + (counter + np.uint64(1)) * GOLDEN
    bits = (bits ^ (bits >> S30)) * FIRST
    bits = (bits ^ (bits >> S27)) * SECOND
    return bits ^ (bits >> S31)


@register_jitable
def below(bits, limit):
    """A number from 0 to limit-1, limit at most 2^32, from the upper half of the bits."""
    return ((bits >> S32) * limit) >> S32


@register_jitable
def unit(bits):
    """A float32 from 0 to 1, without 1, from the upper 24 bits."""
    return np.float32(bits >> S40) * UNIT24


def stream(seed: int, purpose: int, epoch: int = 0) -> np.uint64:
    """The key of everything that is drawn for a purpose in an epoch."""
    key = np.array([seed % 2**64], np.uint64)
    for value in (purpose, epoch):
        key = draw(key, np.array([value], np.uint64))
    return np.uint64(key[0])
