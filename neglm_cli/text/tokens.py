"""The tokenizer: finds where words start and end, and after which word each line ends.

Words are those of `bytes.split()`: separated by ASCII whitespace; any other byte is part of a word.
Lines end only at `\\n`.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.text.bits import PADDING, bit_count, lowest_bit, whitespace64

UNKNOWN = b"<unk>"  # replaces words that are not in the vocabulary
END_OF_LINE = b"<eos>"  # counted and predicted like a word at the end of each line

SPACE = np.array([byte in b" \t\n\r\v\f" for byte in range(256)])
BATCH = 256  # words per batch: the arrays fit into the L1 cache
ONE = np.uint64(1)


class WordSpans(NamedTuple):
    """Output arrays of `split`, int64."""

    starts: np.ndarray  # of words
    ends: np.ndarray  # of words
    line_ends: np.ndarray  # number of words before each newline


def word_spans() -> WordSpans:
    """Allocate the output arrays of `split` for BATCH words."""
    return WordSpans(np.empty(BATCH, np.int64), np.empty(BATCH, np.int64), np.empty(BATCH, np.int64))


@kernel
def split(text, begin, end, spans):
    """Split text[begin:end] until it ends or an array is full.

    Word i is text[starts[i]:ends[i]]; line_ends[j] is the number of this call's words before the j-th newline.
    Return the number of words, the number of newlines, and the position to continue at. `begin` must not be inside a
    word. The arrays need at least 128 elements: otherwise a word that is incomplete at the end of a 64-byte block could
    keep the next call from making progress.
    """
    starts, ends, line_ends = spans
    # Unsigned indices avoid Numba's wraparound check: this is the hottest loop.
    words = words_ended = lines = 0
    before = ONE  # 1 if the byte before the block is whitespace
    position = begin
    while position < end and words + 64 <= starts.size and lines + 64 <= line_ends.size:
        space, newline = whitespace64(text, position)
        if end - position < 64:  # treat bytes past the end as whitespace other than newlines
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
        if position < end:  # the arrays are full: an incomplete word goes to the next call
            return words_ended, lines, starts[words_ended]
        ends[words_ended] = end  # the text ends with a word, at the last byte of a block
    return words, lines, min(position, end)


@kernel
def first_space(text, begin, end):
    """Return the index of the first whitespace in text[begin:end], or `end`."""
    for i in range(begin, end):
        if SPACE[text[i]]:
            return i
    return end


@kernel
def last_space(text, begin, end):
    """Return the index after the last whitespace in text[begin:end], or `begin`."""
    for i in range(end - 1, begin - 1, -1):
        if SPACE[text[i]]:
            return i + 1
    return begin


def padded(data: bytes | bytearray | memoryview) -> np.ndarray:
    """Copy bytes to an array, with the PADDING that kernels require."""
    array = np.empty(len(data) + PADDING, np.uint8)
    array[: len(data)] = np.frombuffer(data, np.uint8)
    array[len(data) :] = ord(" ")
    return array
