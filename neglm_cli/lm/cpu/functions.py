"""Elementary functions in float32 and plain arithmetic, which LLVM vectorizes."""

import numpy as np

from neglm_cli.kernels import inlined, outlined, summed
from neglm_cli.simd import EXP, LOG1P

LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # ln 2 in two parts
LOWEST, HIGHEST = np.float32(-87), np.float32(88)  # beyond them, exp underflows or overflows float32
HALF, ONE, ZERO = (np.float32(value) for value in (0.5, 1, 0))
E0, E1, E2, E3, E4, E5, E6, E7 = (np.float32(value) for value in EXP)
L0, L1, L2, L3, L4, L5, L6, L7 = (np.float32(value) for value in LOG1P)
BIAS, MANTISSA = np.int32(127), np.int32(23)  # of the exponent in a float32, and bits below it


@inlined
def exp(x):
    """Compute e^x: 2^n times a polynomial in the remainder. NaN stays NaN."""
    x = LOWEST if x < LOWEST else HIGHEST if x > HIGHEST else x
    n = np.floor(x * LOG2_E + HALF)
    r = x - n * LN2_HIGH - n * LN2_LOW
    power = np.int32((np.int32(n) + BIAS) << MANTISSA).view(np.float32)
    return power * (((((((E0 * r + E1) * r + E2) * r + E3) * r + E4) * r + E5) * r + E6) * r + E7)


@inlined
def sigmoid_and_softplus(x):
    """Compute σ(x) and log(1 + e^x)."""
    positive = x > ZERO
    e = exp(-x if positive else x)
    log1p = (((((((L0 * e + L1) * e + L2) * e + L3) * e + L4) * e + L5) * e + L6) * e + L7) * e
    return (ONE if positive else e) / (ONE + e), log1p + (x if positive else ZERO)


@summed
def dot(a, i, b, j, width):
    """Compute the dot product of row i of a and row j of b."""
    total = ZERO
    for column in range(width):
        total += a[i, column] * b[j, column]
    return total


@outlined
def add_row(factor, source, i, target, j, width):
    """Add factor times row i of source to row j of target."""
    for column in range(width):
        target[j, column] += factor * source[i, column]


@summed
def sum_of_squares(array, row):
    total = 0.0
    for column in range(array.shape[1]):
        total += array[row, column] * array[row, column]
    return total
