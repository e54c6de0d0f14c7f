"""The tokeniser: where words start and end, and after which word each line ends.

Words are what `bytes.split()` finds in a line: ASCII white space separates them, any other byte is a
letter. A line ends at `\\n` and nowhere else.
"""

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.text.bits import PADDING, bit_count, lowest_bit, whitespace64

UNKNOWN = b"<unk>"  # stands for every word that a vocabulary lacks
END_OF_LINE = b"<eos>"  # the end of a line: counted and predicted like a word

SPACE = np.array([byte in b" \t\n\r\v\f" for byte in range(256)])
BATCH = 256  # words that are split before the next step takes them: small enough for the first-level cache
ONE = np.uint64(1)


def word_arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for one call of `split`: starts, ends, line_ends."""
    return np.empty(BATCH, np.int64), np.empty(BATCH, np.int64), np.empty(BATCH, np.int64)


@kernel
def split(text, begin, end, starts, ends, line_ends):
    """Split text[begin:end] until it ends or an array is full.

    Word i is text[starts[i]:ends[i]]; line_ends[j] is the number of this call's words before the j-th newline.
    Returns the number of words, the number of newlines, and where to go on. `begin` must not lie inside a word.
    The arrays have room for 128 at least: with less, a word that is still open at the end of a block could keep
    the next call from getting on.
    """
    # Where an index is cast to unsigned, Numba need not ask whether it counts from the end: this is the hottest loop.
    words = words_ended = lines = 0
    before = ONE  # whether the byte before the block is white space
    position = begin
    while position < end and words + 64 <= starts.size and lines + 64 <= line_ends.size:
        space, newline = whitespace64(text, position)
        if end - position < 64:  # what lies behind the end is white space and no newline
            inside = (ONE << np.uint64(end - position)) - ONE
            space |= ~inside
            newline &= inside
        after_space = (space << ONE) | before
        before = space >> np.uint64(63)
        start = after_space & ~space
        stop = space & ~after_space
        while newline:
            earlier = (ONE << np.uint64(lowest_bit(newline))) - ONE
            line_ends[np.uint64(lines)] = words + bit_count(start & earlier)
            lines += 1
            newline &= newline - ONE
        while start:
            starts[np.uint64(words)] = position + lowest_bit(start)
            words += 1
            start &= start - ONE
        while stop:
            ends[np.uint64(words_ended)] = position + lowest_bit(stop)
            words_ended += 1
            stop &= stop - ONE
        position += 64
    if words > words_ended:
        if position < end:  # the arrays are full and a word is open: it is the first of the next call
            return words_ended, lines, starts[words_ended]
        ends[words_ended] = end  # the text ends with the word, at a block's last byte
    return words, lines, min(position, end)


@kernel
def first_space(text, begin, end):
    """Index of the first white space in text[begin:end]; `end` if there is none."""
    for i in range(begin, end):
        if SPACE[text[i]]:
            return i
    return end


@kernel
def last_space(text, begin, end):
    """Index behind the last white space in text[begin:end]; `begin` if there is none."""
    for i in range(end - 1, begin - 1, -1):
        if SPACE[text[i]]:
            return i + 1
    return begin


def padded(data: bytes | bytearray | memoryview) -> np.ndarray:
    """A copy of the bytes as an array with the PADDING that the kernels read behind it."""
    array = np.empty(len(data) + PADDING, np.uint8)
    array[: len(data)] = np.frombuffer(data, np.uint8)
    array[len(data) :] = ord(" ")
    return array
