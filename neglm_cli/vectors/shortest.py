"""The shortest decimal text that reads back as the same float32, as Python's repr has it for doubles.

The algorithm is Schubfach (Raffaello Giulietti, "The Schubfach way to render doubles", 2020): the numbers that round
to x form an interval; it holds at most a few decimals of the right length, and one multiplication by a power of ten,
of which 64 bits are enough, tells which of them are inside.
"""

import numpy as np

from neglm_cli.kernels import inlined

LONGEST = 16  # bytes of a number: -1.23456789e-38 has 15
LEAST_POWER, GREATEST_POWER = -31, 45  # of ten, that the algorithm multiplies with
HIDDEN_BIT, EXPONENT_BIAS, FRACTION_BITS = 1 << 23, 150, 23
LEAST_FIXED, GREATEST_FIXED = -3, 9  # places of the point before the first digit, between which there is no exponent
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def _power(exponent: int) -> int:
    """The 64 leading bits of 10^exponent, rounded up."""
    top, bottom = (10**exponent, 1) if exponent >= 0 else (1, 10**-exponent)
    shift = 64 - top.bit_length() + bottom.bit_length()
    for bits in (shift - 1, shift, shift + 1):
        scaled = -(-(top << bits) // bottom) if bits >= 0 else -(-top // (bottom << -bits))
        if scaled.bit_length() == 64:
            return scaled
    raise AssertionError(exponent)


POWERS = np.array([_power(exponent) for exponent in range(LEAST_POWER, GREATEST_POWER + 1)], np.uint64)


@inlined
def round_to_odd(power, value):
    """power · value / 2^64, its last bit set if anything was cut off."""
    product = (power >> HALF) * value + (((power & LOW) * value) >> HALF)
    return np.int64(product >> HALF) | np.int64((product & LOW) > np.uint64(1))


@inlined
def shortest(bits):
    """The decimal nearest to a finite positive float32, among the shortest that round to it: its digits as an
    integer, and the power of ten of the last one."""
    fraction, exponent = bits & (HIDDEN_BIT - 1), bits >> FRACTION_BITS
    c = fraction | HIDDEN_BIT if exponent else fraction
    q = max(exponent, 1) - EXPONENT_BIAS  # the number is c · 2^q
    if -FRACTION_BITS <= q <= 0 and c & ((1 << -q) - 1) == 0:
        return c >> -q, 0
    closer = 1 if fraction == 0 and exponent > 1 else 0  # the lower neighbour, of a power of two
    k = (q * 1262611 - closer * 524031) >> 22  # floor(log10 of the interval's width)
    h = q + ((-k * 1741647) >> 19) + 1
    power = POWERS[-k - LEAST_POWER]
    odd = c & 1  # the ends of the interval round to x only if c is even
    lower = round_to_odd(power, np.uint64((4 * c - 2 + closer) << h)) + odd
    value = round_to_odd(power, np.uint64((4 * c) << h))
    upper = round_to_odd(power, np.uint64((4 * c + 2) << h)) - odd
    s = value >> 2
    if s >= 10:
        tens = s // 10
        below, above = lower <= 40 * tens, 40 * tens + 40 <= upper
        if below != above:
            return tens + above, k + 1
    below, above = lower <= 4 * s, 4 * s + 4 <= upper
    if below != above:
        return s + above, k
    middle = 4 * s + 2
    return s + (value > middle or (value == middle and s & 1 == 1)), k


@inlined
def write_number(bits, text, at):
    """Write the finite float32 with these bits to text[at:]; returns where it ends."""
    if bits < 0:
        text[at] = ord("-")
        at += 1
        bits &= 0x7FFFFFFF
    if bits == 0:
        text[at] = ord("0")
        return at + 1
    digits, exponent = shortest(bits)
    while digits % 10 == 0:
        digits //= 10
        exponent += 1
    count, bound = 1, 10
    while digits >= bound:
        count += 1
        bound *= 10
    point = count + exponent  # digits before the point; with less than 1, zeros behind it
    fixed = LEAST_FIXED <= point <= GREATEST_FIXED
    if fixed and point <= 0:
        text[at], text[at + 1] = ord("0"), ord(".")
        at += 2
        for _ in range(-point):
            text[at] = ord("0")
            at += 1
    whole = point if fixed else 1  # digits before the point
    dotted = 1 if 0 < whole < count else 0
    for i in range(count - 1, -1, -1):
        text[at + i + (dotted if i >= whole else 0)] = ord("0") + digits % 10
        digits //= 10
    if dotted:
        text[at + whole] = ord(".")
    at += count + dotted
    if fixed:
        for _ in range(point - count):
            text[at] = ord("0")
            at += 1
        return at
    text[at] = ord("e")
    text[at + 1] = ord("-") if point < 1 else ord("+")
    ten = abs(point - 1)
    text[at + 2], text[at + 3] = ord("0") + ten // 10, ord("0") + ten % 10
    return at + 4
