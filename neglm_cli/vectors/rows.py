"""Rows of numbers as text, one a line, with or without a word in front: what word2vec and the projector share."""

from collections.abc import Iterator

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.tokens import SPACE
from neglm_cli.vectors.reading import Growing, Input, displayed
from neglm_cli.vectors.shortest import LONGEST, write_number

BLOCK = 4 << 20  # bytes of text that are made at a time
ROWS = 1 << 12  # that are read at a time, and hard numbers that are listed
NEWLINE, POINT, PLUS, MINUS, ZERO, NINE = b"\n.+-09"
EXACT_TENS = 10.0 ** np.arange(23)  # the powers of ten that a double holds exactly
EXACT_INTEGERS = 1 << 53  # and how far it holds all integers
MOST_DIGITS = 18  # that an int64 holds, whatever they are
MOST_EXPONENT = 1000  # what is greater is left to Python, before it overflows

WHOLE, WRONG_COUNT, BLANK = 0, 1, 2  # how a call of `parse` ended


def lines(letters: np.ndarray, offsets: np.ndarray, vectors: np.ndarray, separator: bytes) -> Iterator[np.ndarray]:
    """The lines of a matrix (V, D), word i = letters[offsets[i]:offsets[i+1]] first; an empty one is left out."""
    rows, size = vectors.shape
    step = max(1, BLOCK // (size * (LONGEST + 1)))
    for start in range(0, rows, step):
        bits = np.ascontiguousarray(vectors[start : start + step], np.float32).view(np.int32)
        ends = offsets[start : start + len(bits) + 1]
        text = np.empty(int(ends[-1] - ends[0]) + bits.size * (LONGEST + 1) + len(bits), np.uint8)
        yield text[: format_rows(letters, ends, bits, separator[0], text)]


@kernel
def format_rows(letters, offsets, bits, separator, text):
    """Write rows of float32, given as their bits (B, D), to `text`; returns its length."""
    at = 0
    for i in range(bits.shape[0]):
        begin = at
        for letter in range(offsets[i], offsets[i + 1]):
            text[at] = letters[letter]
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
def number(text, begin, end):
    """The number that text[begin:end] spells, and whether that is certain.

    It is if integer and power of ten are both exact as doubles: then one operation rounds once. (Clinger, 1990.)
    """
    at = begin
    if text[at] == MINUS or text[at] == PLUS:
        at += 1
    value, digits, exponent = np.int64(0), 0, np.int64(0)
    pointed = False
    while at < end:
        letter = text[at]
        if ZERO <= letter <= NINE:
            value = value * 10 + (np.int64(letter) - ZERO)
            digits += 1
            exponent -= pointed
            if digits > MOST_DIGITS:
                return 0.0, False
        elif letter == POINT and not pointed:
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
            if not ZERO <= text[at] <= NINE or power > MOST_EXPONENT:
                return 0.0, False
            power = power * 10 + (np.int64(text[at]) - ZERO)
            at += 1
        exponent = exponent - power if negative else exponent + power
    if value > EXACT_INTEGERS or not -EXACT_TENS.size < exponent < EXACT_TENS.size:
        return 0.0, False
    exact = np.float64(value) / EXACT_TENS[-exponent] if exponent < 0 else np.float64(value) * EXACT_TENS[exponent]
    return -exact if text[begin] == MINUS else exact, True


@kernel
def parse(text, begin, end, vectors, ends, hard):
    """Read lines from text[begin:end], which ends with a newline, until one is wrong or an array is full.

    Row i is vectors[i], its word text[ends[i, 0]:ends[i, 1]]. Numbers that take more than one rounding are listed in
    `hard` (row, column, begin, end). Returns the number of rows, of hard numbers, where to go on, how it ended, and
    how many values the line has that it ended with.
    """
    rows, size = vectors.shape
    row = hards = 0
    while begin < end and row < rows and hards + size <= hard.shape[0]:
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
                value, certain = number(text, start, at)
                vectors[row, fields - 1] = value
                if not certain:
                    hard[hards, 0], hard[hards, 1], hard[hards, 2], hard[hards, 3] = row, fields - 1, start, at
                    hards += 1
            fields += 1
        if fields != size + 1:
            return row, hards, begin, WRONG_COUNT if fields else BLANK, fields - 1
        begin = at + 1
        row += 1
    return row, hards, begin, WHOLE, size


def read(source: Input, table: Growing, line: int) -> None:
    """Read words and their numbers to the end of the file; `line` is the number of the first line."""
    size = table.room().shape[1]
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
            f"{source.name} is cut short: line {first + len(table)} does not end with a newline; add one if it is whole"
        )


def _read_some(source: Input, stop: int, table: Growing, size: int, first: int) -> bool:
    """Read as many lines as the arrays have room for; False if only white space is left."""
    room = table.room()[:ROWS]
    ends = np.empty((len(room), 2), np.int64)
    hard = np.empty((max(size, ROWS), 4), np.int64)
    text = np.frombuffer(source.text, np.uint8)
    rows, hards, source.begin, status, count = parse(text, source.begin, stop, room, ends, hard)
    line = first + len(table)
    for row, column, begin, end in hard[:hards].tolist():
        if row < rows:
            room[row, column] = _exactly(source.text[begin:end], f"{source.name}, line {line + row}")
    table.words += [bytes(source.text[begin:end]) for begin, end in ends[:rows].tolist()]
    line += rows
    if status == WRONG_COUNT:
        raise NeglmError(
            f"{source.name}, line {line}: expected a word and {size:,} numbers, as the first line has it, but found "
            f"{count:,}; a word must not have blanks in it"
        )
    if status == BLANK:
        _only_white_space(source, line)
    return status == WHOLE


def _exactly(letters: bytearray, where: str) -> np.float32:
    """A number that the kernel left alone, rounded twice as everywhere: to a double, then to 32 bits."""
    try:
        if b"_" in letters:  # which Python allows between digits
            raise ValueError
        with np.errstate(over="ignore"):
            return np.float64(float(letters)).astype(np.float32)
    except ValueError:
        raise NeglmError(f"{where}: {displayed(bytes(letters))} is not a number") from None


def _only_white_space(source: Input, line: int) -> None:
    while True:
        if source.text[source.begin : source.end].strip():
            raise NeglmError(f"{source.name}, line {line} is empty, but there are more behind it; remove it")
        source.begin = source.end
        if not source.more():
            return
