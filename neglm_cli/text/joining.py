"""Joining neighbours to phrases: greedily, from left to right, in a stream of ids that comes in pieces.

The stream has an id for every word and every phrase, UNKNOWN for words that are in no phrase, and LINE_END; the
latter two are joined with nothing.
"""

from dataclasses import dataclass

import numpy as np

from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.bigrams import HALF, Run
from neglm_cli.text.bits import folded_product
from neglm_cli.text.table import ONE, SEED, Seed
from neglm_cli.text.tokens import split, word_arrays

UNKNOWN_WORD, LINE_END, NOTHING = -1, -2, -3  # in place of ids
NEWLINE = b"\n"
FREE = -1  # a slot without a pair


@inlined
def find_pair(key, seed, keys, places):
    """The slot of a pair, or the free one where it belongs: open addressing, the number of slots a power of two."""
    mask = np.uint64(keys.size - 1)
    slot = folded_product(key ^ seed[0], seed[1]) & mask
    while places[slot] != FREE and keys[slot] != key:
        slot = (slot + ONE) & mask
    return slot


@kernel
def fill_pairs(more, seed, keys, places):
    """Put pairs, all different, into free slots; places become their numbers."""
    for i in range(more.size):
        slot = find_pair(more[i], seed, keys, places)
        keys[slot] = more[i]
        places[slot] = i


@kernel
def join(ids, held, seed, keys, places, joined, times, out):
    """Join what is a pair in the table to joined[its number], and count how many times that happens.

    The last id is held back, for it may be joined with the first of what follows; `held` is that of the piece before.
    Returns how many ids there are now, and the one that is held.
    """
    length = 0
    for i in range(ids.size):
        here = ids[i]
        if held >= 0:
            place = FREE
            if here >= 0:
                place = places[find_pair(np.uint64(held) << HALF | np.uint64(here), seed, keys, places)]
            if place != FREE:
                out[length] = joined[place]
                times[place] += 1
                length += 1
                held = NOTHING
                continue
            out[length] = held
            length += 1
        held = here
        if here < 0:
            out[length] = here
            length += 1
            held = NOTHING
    return length, held


@kernel
def glue(ids, sizes, glued):
    """For every word of a stream, whether it is glued to the one before; returns the number of words.

    sizes[i] is the number of words that id i stands for.
    """
    words = 0
    for i in range(ids.size):
        if ids[i] == LINE_END:
            continue
        size = sizes[ids[i]] if ids[i] >= 0 else 1
        for nth in range(size):
            glued[words + nth] = nth > 0
        words += size
    return words


@kernel
def write_joined(text, length, glued, delimiter, out, starts, ends, line_ends):
    """Copy text[:length], with the delimiter in place of the white space before words that are glued.

    Returns the number of bytes, and where the last word ends: white space behind it is not copied.
    """
    word = written = copied = last_end = begin = 0
    while begin < length:
        words, _, begin = split(text, begin, length, starts, ends, line_ends)
        for i in range(words):
            if glued[word]:
                stretch = last_end - copied
                out[written : written + stretch] = text[copied:last_end]
                written += stretch
                out[written : written + delimiter.size] = delimiter
                written += delimiter.size
                copied = starts[i]
            last_end = ends[i]
            word += 1
    stretch = last_end - copied
    out[written : written + stretch] = text[copied:last_end]
    return written + stretch, last_end


@dataclass(frozen=True, eq=False)
class Joins:
    """What one pass joins."""

    pairs: Run
    joined: np.ndarray  # int32 (P,): the id that each pair becomes
    slots: tuple[Seed, np.ndarray, np.ndarray]  # a hash table of the pairs: its seed, uint64 (S,), int32 (S,)

    @staticmethod
    def of(pairs: Run, joined: np.ndarray) -> "Joins":
        size = 1 << (2 * len(pairs)).bit_length()  # at least half of the slots stay free
        slots = SEED, np.zeros(size, np.uint64), np.full(size, FREE, np.int32)
        fill_pairs(pairs.keys, *slots)
        return Joins(pairs, joined, slots)


class Joiner:
    """Applies the joins of one pass to a stream, piece after piece. A stream ends with the end of a line."""

    def __init__(self, joins: Joins) -> None:
        self._joins = joins
        self._held = NOTHING
        self.times = np.zeros(len(joins.pairs), np.int64)  # how often each pair was joined

    def join(self, ids: np.ndarray) -> np.ndarray:
        out = np.empty(len(ids) + 1, np.int32)
        length, self._held = join(ids, self._held, *self._joins.slots, self._joins.joined, self.times, out)
        return out[:length]


def glued_words(ids: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """For every word of a stream, bool: whether it is glued to the one before."""
    known = ids[ids >= 0]
    glued = np.empty(len(ids) - len(known) + int(sizes[known].sum()), np.bool_)
    return glued[: glue(ids, sizes, glued)]


class Scribe:
    """Writes blocks of a text with its words joined; all other bytes stay as they are."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = np.frombuffer(delimiter, np.uint8).copy()
        self._arrays = word_arrays()
        self.space = bytearray()  # white space behind the last word, which the next one may be glued to

    def write(self, text: np.ndarray, length: int, glued: np.ndarray) -> list[bytes | bytearray | memoryview]:
        """What to write for a block of text; the white space at its end waits for the next one."""
        if not len(glued):
            self.space += text[:length].data
            known = max(self.space.rfind(NEWLINE), 0)  # a phrase goes over no end of line; the last one may be left out
            white, self.space = self.space[:known], self.space[known:]
            return [white]
        out = np.empty(length + int(np.count_nonzero(glued)) * len(self._delimiter), np.uint8)
        written, end = write_joined(text, length, glued, self._delimiter, out, *self._arrays)
        before = b"" if glued[0] else self.space
        self.space = bytearray(text[end:length].data)
        return [before, out[:written].data]
