"""Matrices as text, one row per line, optionally prefixed by a word: for word2vec's text format and the projector.

Values are written as the shortest decimal that reads back as the same float32, as Python's repr does for doubles. The
algorithm is Schubfach (Raffaello Giulietti, "The Schubfach way to render doubles", 2020): the numbers that round to x
form an interval, which contains at most a few decimals of the right length; multiplying by a power of ten, with 64
bits of precision, finds them.
"""

from collections.abc import Iterator

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.tokens import SPACE
from neglm_cli.vectors.reading import InputBuffer, TableBuilder, displayed

LONGEST = 16  # bytes of a value: -1.23456789e-38 has 15
MIN_POWER, MAX_POWER = -31, 45  # of ten
HIDDEN_BIT, EXPONENT_BIAS, FRACTION_BITS = 1 << 23, 150, 23
MIN_FIXED, MAX_FIXED = -3, 9  # positions of the decimal point for which no exponent is written
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
BLOCK = 4 << 20  # bytes of text formatted at a time
ROWS = 1 << 12  # read at a time; also the capacity for inexact values among them
NEWLINE, POINT, PLUS, MINUS, ZERO, NINE = b"\n.+-09"
EXACT_TENS = 10.0 ** np.arange(23)  # powers of ten that a double represents exactly
EXACT_INTEGERS = 1 << 53  # a double represents all integers up to this one
MAX_DIGITS = 18  # always fit an int64
MAX_EXPONENT = 1000  # Python parses greater ones

COMPLETE, WRONG_COUNT, BLANK = 0, 1, 2  # status of `parse_lines`


def _power(exponent: int) -> int:
    """Return the 64 leading bits of 10^exponent, rounded up."""
    top, bottom = (10**exponent, 1) if exponent >= 0 else (1, 10**-exponent)
    shift = 64 - top.bit_length() + bottom.bit_length()
    for bits in (shift - 1, shift, shift + 1):
        scaled = -(-(top << bits) // bottom) if bits >= 0 else -(-top // (bottom << -bits))
        if scaled.bit_length() == 64:
            return scaled
    raise AssertionError(exponent)


POWERS = np.array([_power(exponent) for exponent in range(MIN_POWER, MAX_POWER + 1)], np.uint64)


@inlined
def round_to_odd(power, value):
    """Compute power · value / 2^64, with the last bit set if the result is inexact."""
    product = (power >> HALF) * value + (((power & LOW) * value) >> HALF)
    return np.int64(product >> HALF) | np.int64((product & LOW) > np.uint64(1))


@inlined
def shortest(bits):
    """Return the nearest of the shortest decimals that round to a positive finite float32: digits as an integer, and
    the exponent of the last one."""
    fraction, exponent = bits & (HIDDEN_BIT - 1), bits >> FRACTION_BITS
    c = fraction | HIDDEN_BIT if exponent else fraction
    q = max(exponent, 1) - EXPONENT_BIAS  # the number is c · 2^q
    if -FRACTION_BITS <= q <= 0 and c & ((1 << -q) - 1) == 0:
        return c >> -q, 0
    closer = 1 if fraction == 0 and exponent > 1 else 0  # the lower neighbor, of a power of two
    k = (q * 1262611 - closer * 524031) >> 22  # floor(log10 of the interval's width)
    h = q + ((-k * 1741647) >> 19) + 1
    power = POWERS[-k - MIN_POWER]
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
    """Write the finite float32 with these bits to text[at:]. Return the end index."""
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
    point = count + exponent  # digits before the decimal point; below 1, zeros follow it
    fixed = MIN_FIXED <= point <= MAX_FIXED
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


def format_lines(
    word_bytes: np.ndarray, offsets: np.ndarray, vectors: np.ndarray, separator: bytes
) -> Iterator[np.ndarray]:  # fmt: skip
    """Yield the text of a matrix (V, D) in blocks. Line i starts with the word word_bytes[offsets[i]:offsets[i+1]],
    unless it is empty."""
    rows, size = vectors.shape
    step = max(1, BLOCK // (size * (LONGEST + 1)))
    for start in range(0, rows, step):
        bits = np.ascontiguousarray(vectors[start : start + step], np.float32).view(np.int32)
        ends = offsets[start : start + len(bits) + 1]
        text = np.empty(int(ends[-1] - ends[0]) + bits.size * (LONGEST + 1) + len(bits), np.uint8)
        yield text[: format_rows(word_bytes, ends, bits, separator[0], text)]


@kernel
def format_rows(word_bytes, offsets, bits, separator, text):
    """Write rows of float32, given as bits (B, D), to `text`. Return its length."""
    at = 0
    for i in range(bits.shape[0]):
        begin = at
        for k in range(offsets[i], offsets[i + 1]):
            text[at] = word_bytes[k]
            at += 1
        for j in range(bits.shape[1]):
            if at > begin:
                text[at] = separator
                at += 1
            at = write_number(np.int64(bits[i, j]), text, at)
        text[at] = NEWLINE
        at += 1
    return at


@inlined
def parse_number(text, begin, end):
    """Parse text[begin:end]. Return the value, and True if it is exact.

    It is exact if both the integer and the power of ten are exact doubles: one operation rounds once (Clinger, 1990).
    """
    at = begin
    if text[at] == MINUS or text[at] == PLUS:
        at += 1
    value, digits, exponent = np.int64(0), 0, np.int64(0)
    pointed = False
    while at < end:
        byte = text[at]
        if ZERO <= byte <= NINE:
            value = value * 10 + (np.int64(byte) - ZERO)
            digits += 1
            exponent -= pointed
            if digits > MAX_DIGITS:
                return 0.0, False
        elif byte == POINT and not pointed:
            pointed = True
        else:
            break
        at += 1
    if digits == 0:
        return 0.0, False
    if at < end:
        if (text[at] | 32) != ord("e") or at + 1 == end:
            return 0.0, False
        at += 1
        negative = text[at] == MINUS
        if negative or text[at] == PLUS:
            at += 1
        power = np.int64(0)
        if at == end:
            return 0.0, False
        while at < end:
            if not ZERO <= text[at] <= NINE or power > MAX_EXPONENT:
                return 0.0, False
            power = power * 10 + (np.int64(text[at]) - ZERO)
            at += 1
        exponent = exponent - power if negative else exponent + power
    if value > EXACT_INTEGERS or not -EXACT_TENS.size < exponent < EXACT_TENS.size:
        return 0.0, False
    exact = np.float64(value) / EXACT_TENS[-exponent] if exponent < 0 else np.float64(value) * EXACT_TENS[exponent]
    return -exact if text[begin] == MINUS else exact, True


@kernel
def parse_lines(text, begin, end, vectors, ends, inexact):
    """Parse the lines of text[begin:end], which ends with a newline, up to an invalid line, or until an array is full.

    Row i goes to vectors[i]; its word is text[ends[i, 0]:ends[i, 1]]. Inexact values are listed in
    `inexact` (row, column, begin, end). Return the number of rows, the number of inexact values, the end of the
    parsed text, a status, and the number of values in the last line.
    """
    rows, size = vectors.shape
    row = count = 0
    while begin < end and row < rows and count + size <= inexact.shape[0]:
        at = begin
        fields = 0
        while True:
            while text[at] != NEWLINE and SPACE[text[at]]:
                at += 1
            if text[at] == NEWLINE:
                break
            start = at
            while not SPACE[text[at]]:
                at += 1
            if fields == 0:
                ends[row, 0], ends[row, 1] = start, at
            elif fields <= size:
                value, is_exact = parse_number(text, start, at)
                vectors[row, fields - 1] = value
                if not is_exact:
                    inexact[count, 0], inexact[count, 1], inexact[count, 2], inexact[count, 3] = (
                        row,
                        fields - 1,
                        start,
                        at,
                    )
                    count += 1
            fields += 1
        if fields != size + 1:
            return row, count, begin, WRONG_COUNT if fields else BLANK, fields - 1
        begin = at + 1
        row += 1
    return row, count, begin, COMPLETE, size


def read(source: InputBuffer, table: TableBuilder, line: int) -> None:
    """Read all lines. line: the number of the first."""
    size = table.free_rows().shape[1]
    first = line - len(table)
    while True:
        stop = source.text.rfind(b"\n", source.begin, source.end) + 1
        while source.begin < stop:
            if not _read_some(source, stop, table, size, first):
                return
        if not source.more():
            break
    if source.text[source.begin : source.end].strip():
        raise NeglmError(
            f"{source.name} is cut short: line {first + len(table)} does not end with a newline; add one if complete"
        )


def _read_some(source: InputBuffer, stop: int, table: TableBuilder, size: int, first: int) -> bool:
    """Read lines until the arrays are full. Return False if only whitespace is left."""
    vectors = table.free_rows()[:ROWS]
    ends = np.empty((len(vectors), 2), np.int64)
    inexact = np.empty((max(size, ROWS), 4), np.int64)
    text = np.frombuffer(source.text, np.uint8)
    rows, count, source.begin, status, values = parse_lines(text, source.begin, stop, vectors, ends, inexact)
    line = first + len(table)
    for row, column, begin, end in inexact[:count].tolist():
        if row < rows:
            vectors[row, column] = _parse_exactly(source.text[begin:end], f"{source.name}, line {line + row}")
    table.words += [bytes(source.text[begin:end]) for begin, end in ends[:rows].tolist()]
    line += rows
    if status == WRONG_COUNT:
        raise NeglmError(
            f"{source.name}, line {line}: expected a word and {size:,} values, as in the first line, but found "
            f"{values:,}; a word cannot contain blanks"
        )
    if status == BLANK:
        _check_white_space(source, line)
    return status == COMPLETE


def _parse_exactly(digits: bytearray, where: str) -> np.float32:
    """Parse a value that the kernel cannot. Like the kernel, round to a double, then to float32."""
    try:
        if b"_" in digits:  # Python allows it between digits
            raise ValueError
        with np.errstate(over="ignore"):
            return np.float64(float(digits)).astype(np.float32)
    except ValueError:
        raise NeglmError(f"{where}: {displayed(bytes(digits))} is not a number") from None


def _check_white_space(source: InputBuffer, line: int) -> None:
    """Raise unless the rest of the file is whitespace."""
    while True:
        if source.text[source.begin : source.end].strip():
            raise NeglmError(f"{source.name}, line {line} is empty, but more lines follow; remove it")
        source.begin = source.end
        if not source.more():
            return
