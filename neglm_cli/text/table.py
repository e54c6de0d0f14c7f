"""A hash table of words with counts: kernels, and the class that owns their arrays.

Four arrays; entries are appended and never sorted:

    slots       uint64 (S,)      open addressing, S a power of two: 32 bits of the hash, then entry + 1; 0 is free
    offsets     int64 (E + 1,)   entry e is word_bytes[offsets[e]:offsets[e + 1]]
    counts      int64 (E,)
    word_bytes  uint8 (B,)       the words' bytes, concatenated

Hashes are not stored: a growing table rehashes its words, in order, which is cheap and keeps a word at about 40 bytes.
Bytes are always compared, so words with equal hashes are distinguished.

The hash seed is random in each process, so that an attacker cannot choose words that collide. Entries are numbered in
order of insertion, so that no output depends on the seed.
"""

import secrets
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import inlined, kernel, outlined
from neglm_cli.text.bits import PADDING, folded_product, load64, prefetch
from neglm_cli.text.tokens import BATCH, padded, split, word_spans

MAX_ENTRIES = 2**32 - 2
ENTRY_MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ONE = np.uint64(1)

Seed = tuple[np.uint64, np.uint64]


def random_seed() -> Seed:
    """Return two secret values: the initial value of hashes, and their odd multiplier."""
    return np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64) | 1)


SEED = random_seed()  # of this process's tables


class WordArrays(NamedTuple):
    """Words with counts: entry e is word_bytes[offsets[e]:offsets[e + 1]]."""

    offsets: np.ndarray  # int64 (E + 1,)
    counts: np.ndarray  # int64 (E,)
    word_bytes: np.ndarray  # uint8 (B + PADDING,)


class TableArrays(NamedTuple):
    """The arrays of a hash table, with capacity for more entries than it has."""

    seed: Seed
    slots: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray
    word_bytes: np.ndarray


@inlined
def hash_word(text, start, length, seed):
    """Return a 64-bit hash of every byte; the last 8 bytes may overlap the previous ones.

    Which words collide depends on the seed: the carries of a product with a secret factor are unknown, and folding
    spreads them to every bit. (With a known multiplier, some words collide for every initial value.)
    """
    h, multiplier = seed
    if length < 8:
        h ^= load64(text, start) & ((ONE << np.uint64(8 * length)) - ONE)
    else:
        for i in range(0, length - 8, 8):
            h = folded_product(h ^ load64(text, start + i), multiplier)
        h ^= load64(text, start + length - 8)
    return folded_product(folded_product(h, multiplier) ^ np.uint64(length), multiplier)


@inlined
def equal_bytes(a, i, b, j, length):
    """Return True if a[i:i+length] equals b[j:j+length]."""
    if length < 8:
        return length == 0 or (load64(a, i) ^ load64(b, j)) << np.uint64(64 - 8 * length) == 0
    for step in range(0, length - 8, 8):
        if load64(a, i + step) != load64(b, j + step):
            return False
    return load64(a, i + length - 8) == load64(b, j + length - 8)


@inlined
def find(text, start, length, h, slots, offsets, word_bytes):
    """Return the entry and the slot of a word; for a new word, -1 and the free slot to insert it at.

    Unsigned indices avoid Numba's wraparound check.
    """
    mask = np.uint64(slots.size - 1)
    slot = h & mask
    while True:
        content = slots[slot]
        if content == 0:
            return -1, np.int64(slot)
        if content >> HALF == h >> HALF:
            following = content & ENTRY_MASK  # entry + 1
            offset = offsets[following - ONE]
            if offsets[following] - offset == length and equal_bytes(text, start, word_bytes, offset, length):
                return np.int64(following) - 1, np.int64(slot)
        slot = (slot + ONE) & mask


@outlined
def insert(text, start, length, h, slot, count, entry, table):
    """Append a new entry. The arrays must have capacity for it."""
    _, slots, offsets, counts, word_bytes = table
    slots[slot] = (h >> HALF) << HALF | np.uint64(entry + 1)
    offset = offsets[entry]
    for i in range(length):
        word_bytes[offset + i] = text[start + i]
    offsets[entry + 1] = offset + length
    counts[entry] = count


@inlined
def hash_batch(text, words, starts, ends, hashes, table):
    """Hash the words of a batch, and prefetch first their slots, then their entries.

    Rare words are not in the cache: without prefetching, cache misses would dominate the time.
    """
    seed, slots, offsets, _, word_bytes = table
    mask = np.uint64(slots.size - 1)
    for i in range(words):
        hashes[i] = hash_word(text, starts[i], ends[i] - starts[i], seed)
        prefetch(slots, np.int64(hashes[i] & mask))
    for i in range(words):
        prefetch(offsets, np.int64(slots[hashes[i] & mask] & ENTRY_MASK))
    for i in range(words):
        prefetch(word_bytes, offsets[slots[hashes[i] & mask] & ENTRY_MASK])


@kernel
def count_text(text, begin, end, size, table, spans, hashes):
    """Count the words of text[begin:end] until it ends or the next batch may exceed the table's capacity.

    Return the number of entries, of words and of lines counted, the position to continue at, and the capacity in bytes
    that the next batch may need: a single word can have any length.
    """
    _, slots, offsets, counts, word_bytes = table
    starts, ends, _ = spans
    words = lines = missing = 0
    capacity = word_bytes.size - PADDING
    while begin < end:
        batch, batch_lines, position = split(text, begin, end, spans)
        if size + batch > counts.size or offsets[size] + (position - begin) > capacity:
            missing = position - begin
            break
        hash_batch(text, batch, starts, ends, hashes, table)
        for i in range(batch):
            start, length, h = starts[i], ends[i] - starts[i], hashes[i]
            entry, slot = find(text, start, length, h, slots, offsets, word_bytes)
            if entry >= 0:
                counts[np.uint64(entry)] += 1
            else:
                insert(text, start, length, h, slot, 1, size, table)
                size += 1
        words += batch
        lines += batch_lines
        begin = position
    return size, words, lines, begin, missing


@kernel
def add_entries(words, size, table, hashes):
    """Add words (WordArrays) with their counts. Return the number of entries. hashes: uint64 (BATCH,), scratch."""
    _, slots, offsets, counts, word_bytes = table
    more_offsets, more_counts, more_word_bytes = words
    for first in range(0, more_counts.size, BATCH):
        batch = min(BATCH, more_counts.size - first)
        starts, ends = more_offsets[first : first + batch], more_offsets[first + 1 : first + 1 + batch]
        hash_batch(more_word_bytes, batch, starts, ends, hashes, table)
        for i in range(batch):
            start, length, h, count = starts[i], ends[i] - starts[i], hashes[i], more_counts[first + i]
            entry, slot = find(more_word_bytes, start, length, h, slots, offsets, word_bytes)
            if entry >= 0:
                counts[entry] += count
            else:
                insert(more_word_bytes, start, length, h, slot, count, size, table)
                size += 1
    return size


@kernel
def add_spans(text, starts, ends, more_counts, entries, size, table, hashes):
    """Add the words text[starts[i]:ends[i]] with their counts, and set entries[i]. Return the number of entries.
    hashes: uint64 (BATCH,), scratch."""
    _, slots, offsets, counts, word_bytes = table
    for first in range(0, starts.size, BATCH):
        batch = min(BATCH, starts.size - first)
        hash_batch(text, batch, starts[first:], ends[first:], hashes, table)
        for i in range(batch):
            start, length, h = starts[first + i], ends[first + i] - starts[first + i], hashes[i]
            count = more_counts[first + i]
            entry, slot = find(text, start, length, h, slots, offsets, word_bytes)
            if entry >= 0:
                counts[entry] += count
            else:
                entry = size
                insert(text, start, length, h, slot, count, size, table)
                size += 1
            entries[first + i] = entry
    return size


@kernel
def lookup_words(query_offsets, query_bytes, entries, table):
    """Set the entry of every word of another table's arrays, or -1."""
    seed, slots, offsets, _, word_bytes = table
    for i in range(entries.size):
        start, length = query_offsets[i], query_offsets[i + 1] - query_offsets[i]
        h = hash_word(query_bytes, start, length, seed)
        entries[i] = find(query_bytes, start, length, h, slots, offsets, word_bytes)[0]


@kernel
def find_owners(offsets, word_bytes, first, parts, seed, owners):
    """Set the rank that owns each word, from entry `first` on. All ranks must use the same seed, but not the seed of
    their tables, so that each rank's words use all slots."""
    for i in range(owners.size):
        start = offsets[first + i]
        h = hash_word(word_bytes, start, offsets[first + i + 1] - start, seed)
        owners[i] = np.int64(((h >> HALF) * np.uint64(parts)) >> HALF)


@kernel
def fill_slots(size, table):
    """Insert all entries into empty slots. The words are known to be distinct."""
    seed, slots, offsets, _, word_bytes = table
    mask = np.uint64(slots.size - 1)
    for entry in range(size):
        h = hash_word(word_bytes, offsets[entry], offsets[entry + 1] - offsets[entry], seed)
        slot = h & mask
        while slots[np.int64(slot)] != 0:
            slot = (slot + ONE) & mask
        slots[np.int64(slot)] = (h >> HALF) << HALF | np.uint64(entry + 1)


@kernel
def lookup_text(text, end, unknown, end_of_line, ids, table, spans, hashes):
    """Write the ids of the words of text[:end], and `end_of_line` for each newline. Return the number of ids."""
    _, slots, offsets, _, word_bytes = table
    starts, ends, line_ends = spans
    written = begin = 0
    while begin < end:
        batch, lines, begin = split(text, begin, end, spans)
        hash_batch(text, batch, starts, ends, hashes, table)
        line = 0
        for i in range(batch):
            while line < lines and line_ends[line] == i:
                ids[written] = end_of_line
                written += 1
                line += 1
            entry, _ = find(text, starts[i], ends[i] - starts[i], hashes[i], slots, offsets, word_bytes)
            ids[written] = entry if entry >= 0 else unknown
            written += 1
        for _ in range(line, lines):
            ids[written] = end_of_line
            written += 1
    return written


class Scratch:
    """Scratch arrays, reused for every block of text: one set per thread."""

    def __init__(self) -> None:
        self.spans = word_spans()
        self.hashes = np.empty(BATCH, np.uint64)
        self.ids = np.empty(0, np.int32)

    def ids_buffer(self, length: int) -> np.ndarray:
        """Return a buffer for the ids of a text of `length` bytes, which has no more words and newlines than bytes."""
        if length > len(self.ids):
            self.ids = np.empty(length, np.int32)
        return self.ids


class WordTable:
    """A growing hash table of word counts. Not thread-safe."""

    def __init__(self, seed: Seed = SEED) -> None:
        self._seed = seed
        self.clear()

    @staticmethod
    def of_distinct(offsets: np.ndarray, counts: np.ndarray, word_bytes: np.ndarray) -> "WordTable":
        """Return a table of words that are known to be distinct. `word_bytes` is followed by PADDING.

        Arrays are copied: for read-only ones, such as those of a mapped file, Numba would compile every kernel again.
        """
        table = WordTable()
        table.size = len(counts)
        table._offsets, table._counts, table._word_bytes = np.array(offsets), np.array(counts), word_bytes
        table._slots = np.zeros(2 << max(table.size - 1, 0).bit_length(), np.uint64)
        fill_slots(table.size, table._arrays)
        return table

    def clear(self) -> None:
        self.size = 0
        self._slots = np.zeros(2, np.uint64)  # twice the capacity: load factor at most 1/2
        self._offsets = np.zeros(1, np.int64)
        self._counts = np.empty(0, np.int64)
        self._word_bytes = np.empty(PADDING, np.uint8)

    def swap(self, other: "WordTable") -> None:
        """Swap contents with another table."""
        self.__dict__, other.__dict__ = other.__dict__, self.__dict__

    def drop_slots(self) -> None:
        """Free the memory of the slots. Words can no longer be looked up or added."""
        self._slots = self._slots[:0].copy()

    @property
    def _arrays(self) -> TableArrays:
        return TableArrays(self._seed, self._slots, self._offsets, self._counts, self._word_bytes)

    @property
    def offsets(self) -> np.ndarray:
        return self._offsets[: self.size + 1]

    @property
    def counts(self) -> np.ndarray:
        return self._counts[: self.size]

    @property
    def word_bytes(self) -> np.ndarray:
        """The words' bytes, followed by PADDING."""
        return self._word_bytes[: self._offsets[self.size] + PADDING]

    @property
    def memory(self) -> int:
        """Memory use in bytes."""
        return sum(array.nbytes for array in (self._slots, self.offsets, self.counts, self.word_bytes))

    def count_text(self, text: np.ndarray, length: int, scratch: Scratch) -> tuple[int, int]:
        """Count text[:length]. Return its number of words and of lines."""
        words = lines = begin = 0
        while begin < length:
            self.size, new_words, new_lines, begin, missing = count_text(
                text, begin, length, self.size, self._arrays, scratch.spans, scratch.hashes
            )
            words, lines = words + new_words, lines + new_lines
            if missing:
                self._reserve(BATCH, missing)
        return words, lines

    def add_table(self, other: "WordTable") -> None:
        """Add all counts of another table."""
        self.add_words(other.offsets, other.counts, other.word_bytes)

    def add_words(self, offsets: np.ndarray, counts: np.ndarray, word_bytes: np.ndarray) -> None:
        """Add words given as a table's arrays (`word_bytes` followed by PADDING)."""
        self._reserve(len(counts), int(offsets[-1] - offsets[0]))
        words = WordArrays(offsets, counts, word_bytes)
        self.size = add_entries(words, self.size, self._arrays, np.empty(BATCH, np.uint64))

    def add_word(self, word: bytes, count: int) -> None:
        self.add_words(np.array([0, len(word)]), np.array([count]), padded(word))

    def add_spans(self, text: np.ndarray, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Add the words text[starts[i]:ends[i]] with their counts. Return their entries, int64."""
        self._reserve(len(starts), int((ends - starts).sum()))
        entries = np.empty(len(starts), np.int64)
        hashes = np.empty(BATCH, np.uint64)
        self.size = add_spans(text, starts, ends, counts, entries, self.size, self._arrays, hashes)
        return entries

    def entries(self, offsets: np.ndarray, word_bytes: np.ndarray) -> np.ndarray:
        """Return the entries of words given as a table's arrays, int64; -1 for unknown words."""
        entries = np.empty(len(offsets) - 1, np.int64)
        lookup_words(offsets, word_bytes, entries, self._arrays)
        return entries

    def lookup_text(
        self, text: np.ndarray, length: int, unknown: int, end_of_line: int, scratch: Scratch
    ) -> np.ndarray:
        """Return the entries of the words of text[:length], int32; `unknown` for others, `end_of_line` for newlines."""
        ids = scratch.ids_buffer(length)
        written = lookup_text(text, length, unknown, end_of_line, ids, self._arrays, scratch.spans, scratch.hashes)
        return ids[:written].copy()

    def _reserve(self, entries: int, bytes_: int) -> None:
        """Grow the arrays for this many more entries and bytes.

        Capacities double: untouched pages take no memory.
        """
        needed = self.size + entries
        if needed > MAX_ENTRIES:
            raise NeglmError(f"more than {MAX_ENTRIES:,} distinct words; lower --memory, so that they spill to disk")
        if needed > len(self._counts):
            capacity = 1 << (needed - 1).bit_length()
            self._counts = _grown(self._counts, self.size, capacity)
            self._offsets = _grown(self._offsets, self.size + 1, capacity + 1)
            self.drop_slots()
            self._slots = np.zeros(2 * capacity, np.uint64)
            fill_slots(self.size, self._arrays)
        used = int(self._offsets[self.size])
        if used + bytes_ + PADDING > len(self._word_bytes):
            self._word_bytes = _grown(self._word_bytes, used, max(used + bytes_ + PADDING, 2 * len(self._word_bytes)))


def _grown(array: np.ndarray, used: int, capacity: int) -> np.ndarray:
    larger = np.empty(capacity, array.dtype)
    larger[:used] = array[:used]
    return larger
