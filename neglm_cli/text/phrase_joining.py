"""Joining bigrams into phrases: greedily, from left to right, in a chunked stream of ids.

The stream has an id for every word and every phrase, UNKNOWN_WORD for words that are in no phrase, and LINE_END; the
latter two are never joined.
"""

from dataclasses import dataclass

import numpy as np

from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.bigrams import HALF, PairCounts
from neglm_cli.text.bits import copy, folded_product
from neglm_cli.text.table import ONE, SEED, Seed
from neglm_cli.text.tokens import split, word_spans

UNKNOWN_WORD, LINE_END, NOTHING = -1, -2, -3  # special ids
NEWLINE = b"\n"
FREE = -1  # an empty slot


@inlined
def find_pair(key, seed, keys, indices):
    """Return the slot of a pair, or the free slot to insert it at. Open addressing; the size is a power of two."""
    mask = np.uint64(keys.size - 1)
    slot = folded_product(key ^ seed[0], seed[1]) & mask
    while indices[slot] != FREE and keys[slot] != key:
        slot = (slot + ONE) & mask
    return slot


@kernel
def insert_pairs(pair_keys, seed, keys, indices):
    """Insert distinct pairs, and set indices[slot] to the index of the pair in that slot."""
    for i in range(pair_keys.size):
        slot = find_pair(pair_keys[i], seed, keys, indices)
        keys[slot] = pair_keys[i]
        indices[slot] = i


@kernel
def join_pairs(ids, held, table, joined_ids, join_counts, out):
    """Replace each pair in the table by its id in joined_ids (P,), and count replacements in join_counts (P,).

    The last id is held back, because it may join with the first of the next chunk. held: the id held back from the
    previous chunk. Return the number of ids written, and the id held back.
    """
    seed, keys, indices = table
    length = 0
    for i in range(ids.size):
        here = ids[i]
        if held >= 0:
            number = FREE
            if here >= 0:
                number = indices[find_pair(np.uint64(held) << HALF | np.uint64(here), seed, keys, indices)]
            if number != FREE:
                out[length] = joined_ids[number]
                join_counts[number] += 1
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
def mark_joined(ids, sizes, joined):
    """Set a flag for every word of a stream: True if it is joined to the previous word. Return the number of words.

    sizes (U,): the number of words of each id.
    """
    words = 0
    for i in range(ids.size):
        if ids[i] == LINE_END:
            continue
        size = sizes[ids[i]] if ids[i] >= 0 else 1
        for nth in range(size):
            joined[words + nth] = nth > 0
        words += size
    return words


@kernel
def write_joined(text, length, joined, delimiter, out, spans):
    """Copy text[:length], replacing the whitespace before joined words by the delimiter.

    Return the number of bytes written, and the end of the last word: whitespace after it is not copied.
    """
    starts, ends, _ = spans
    word = written = copied = last_end = begin = 0
    while begin < length:
        words, _, begin = split(text, begin, length, spans)
        for i in range(words):
            if joined[word]:
                size = last_end - copied
                copy(text, copied, out, written, size)
                written += size
                copy(delimiter, 0, out, written, delimiter.size)
                written += delimiter.size
                copied = starts[i]
            last_end = ends[i]
            word += 1
    size = last_end - copied
    copy(text, copied, out, written, size)
    return written + size, last_end


@dataclass(frozen=True, eq=False)
class PhrasePairs:
    """The pairs that one pass joins, with a hash table to find them."""

    pairs: PairCounts
    joined_ids: np.ndarray  # int32 (P,): the id of each joined pair
    table: tuple[Seed, np.ndarray, np.ndarray]  # hash table: seed, keys uint64 (S,), pair indices int32 (S,)

    @staticmethod
    def of(pairs: PairCounts, joined_ids: np.ndarray) -> "PhrasePairs":
        size = 1 << (2 * len(pairs)).bit_length()  # load factor at most 1/2
        table = SEED, np.zeros(size, np.uint64), np.full(size, FREE, np.int32)
        insert_pairs(pairs.keys, *table)
        return PhrasePairs(pairs, joined_ids, table)


class PhraseJoiner:
    """Joins the pairs of one pass in a stream of chunks. The stream must end with LINE_END."""

    def __init__(self, pairs: PhrasePairs) -> None:
        self._pairs = pairs
        self._held = NOTHING
        self.join_counts = np.zeros(len(pairs.pairs), np.int64)  # (P,)

    def join(self, ids: np.ndarray) -> np.ndarray:
        """Return the ids of a chunk after joining, except the last one if it may be joined with the next chunk."""
        out = np.empty(len(ids) + 1, np.int32)
        pairs = self._pairs
        length, self._held = join_pairs(ids, self._held, pairs.table, pairs.joined_ids, self.join_counts, out)
        return out[:length]


def joined_words(ids: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return a flag for every word of a stream: True if it is joined to the previous word."""
    known = ids[ids >= 0]
    joined = np.empty(len(ids) - len(known) + int(sizes[known].sum()), np.bool_)
    return joined[: mark_joined(ids, sizes, joined)]


class PhraseWriter:
    """Writes blocks of a text with its phrases joined; all other bytes are unchanged."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = np.frombuffer(delimiter, np.uint8).copy()
        self._spans = word_spans()
        self.space = bytearray()  # whitespace after the last word, which may be joined with the next

    def write(self, text: np.ndarray, length: int, joined: np.ndarray) -> list[bytes | bytearray | memoryview]:
        """Return the output for a block of text; whitespace at its end is held until the next block."""
        if not len(joined):
            self.space += text[:length].data
            known = max(
                self.space.rfind(NEWLINE), 0
            )  # phrases don't cross lines; the last newline may be dropped later
            written, self.space = self.space[:known], self.space[known:]
            return [written]
        out = np.empty(length + int(np.count_nonzero(joined)) * len(self._delimiter), np.uint8)
        size, end = write_joined(text, length, joined, self._delimiter, out, self._spans)
        before = b"" if joined[0] else self.space
        self.space = bytearray(text[end:length].data)
        return [before, out[:size].data]
