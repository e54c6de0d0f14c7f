"""A hash table of words with counts: the kernels, and the object that owns their arrays.

Four arrays, filled from the front and never sorted:

    slots    uint64[S]       open addressing, S a power of two: 32 bits of the hash, then entry number + 1; 0 is free
    offsets  int64[E + 1]    entry e is letters[offsets[e]:offsets[e + 1]]
    counts   int64[E]
    letters  uint8[L]        the words' bytes, one after the other

Hashes are not stored: a table that grows hashes its words again, in order, which is cheap and keeps a
word at about 40 bytes. Equal hashes never pass for equal words: bytes are always compared.

Hashes are seeded at random in each process, so that nobody can choose words that collide. Entries are numbered in the
order in which they come: nothing that is written depends on the seed.
"""

import secrets

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import inlined, kernel, outlined
from neglm_cli.text.bits import PADDING, folded_product, load64, prefetch
from neglm_cli.text.tokens import BATCH, padded, split, word_arrays

MAX_ENTRIES = 2**32 - 2
ENTRY_MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ONE = np.uint64(1)

Seed = tuple[np.uint64, np.uint64]


def random_seed() -> Seed:
    """Two secret numbers that hashes start from and multiply by; the latter is odd."""
    return np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64) | 1)


SEED = random_seed()  # of this process


@inlined
def hash_word(text, start, length, seed):
    """64 bits that depend on every byte; the last step of 8 may overlap the one before.

    Which words collide depends on the seed: the carries of a product with a secret number are not known, and folding
    brings them into every bit. (With a known multiplier, some words collide whatever the hash starts from.)
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
    """Whether a[i:i+length] and b[j:j+length] are the same."""
    if length < 8:
        return length == 0 or (load64(a, i) ^ load64(b, j)) << np.uint64(64 - 8 * length) == 0
    for step in range(0, length - 8, 8):
        if load64(a, i + step) != load64(b, j + step):
            return False
    return load64(a, i + length - 8) == load64(b, j + length - 8)


@inlined
def find(text, start, length, h, slots, offsets, letters):
    """The entry of a word, and its slot; the entry is -1 and the slot the free one where it belongs, if it is new.

    Indices are unsigned here: Numba would ask each signed one whether it counts from the end.
    """
    mask = np.uint64(slots.size - 1)
    slot = h & mask
    while True:
        content = slots[slot]
        if content == 0:
            return -1, np.int64(slot)
        if content >> HALF == h >> HALF:
            behind = content & ENTRY_MASK
            offset = offsets[behind - ONE]
            if offsets[behind] - offset == length and equal_bytes(text, start, letters, offset, length):
                return np.int64(behind) - 1, np.int64(slot)
        slot = (slot + ONE) & mask


@kernel
def look_up(word, length, seed, slots, offsets, letters):
    """The entry of a word, -1 if there is none."""
    return find(word, 0, length, hash_word(word, 0, length, seed), slots, offsets, letters)[0]


@kernel
def position(word, length, offsets, letters):
    """The entry of a word, -1 if there is none, where there are no slots: looks at all of them."""
    for entry in range(offsets.size - 1):
        if offsets[entry + 1] - offsets[entry] == length and equal_bytes(word, 0, letters, offsets[entry], length):
            return entry
    return -1


@outlined
def insert(text, start, length, h, slot, count, entry, slots, offsets, counts, letters):
    """Make a new entry. There must be room."""
    slots[slot] = (h >> HALF) << HALF | np.uint64(entry + 1)
    offset = offsets[entry]
    for i in range(length):
        letters[offset + i] = text[start + i]
    offsets[entry + 1] = offset + length
    counts[entry] = count


@inlined
def hash_batch(text, words, starts, ends, hashes, seed, slots, offsets, letters):
    """Hash the words of a batch, and start fetching what will be looked at: first all slots, then all entries.

    Rare words are not in the cache. Waiting for them one by one would take longer than all the rest.
    """
    mask = np.uint64(slots.size - 1)
    for i in range(words):
        hashes[i] = hash_word(text, starts[i], ends[i] - starts[i], seed)
        prefetch(slots, np.int64(hashes[i] & mask))
    for i in range(words):
        prefetch(offsets, np.int64(slots[hashes[i] & mask] & ENTRY_MASK))
    for i in range(words):
        prefetch(letters, offsets[slots[hashes[i] & mask] & ENTRY_MASK])


@kernel
def count_text(text, begin, end, size, seed, slots, offsets, counts, letters, starts, ends, line_ends, hashes):
    """Count the words of text[begin:end] until it ends or the table has no room for the next batch.

    Returns the number of entries, of words and of lines that were counted, where to go on, and the room in
    bytes that the next batch may need: a single one of its words can have any length.
    """
    words = lines = missing = 0
    room = letters.size - PADDING
    while begin < end:
        batch, batch_lines, position = split(text, begin, end, starts, ends, line_ends)
        if size + batch > counts.size or offsets[size] + (position - begin) > room:
            missing = position - begin
            break
        hash_batch(text, batch, starts, ends, hashes, seed, slots, offsets, letters)
        for i in range(batch):
            start, length, h = starts[i], ends[i] - starts[i], hashes[i]
            entry, slot = find(text, start, length, h, slots, offsets, letters)
            if entry >= 0:
                counts[np.uint64(entry)] += 1
            else:
                insert(text, start, length, h, slot, 1, size, slots, offsets, counts, letters)
                size += 1
        words += batch
        lines += batch_lines
        begin = position
    return size, words, lines, begin, missing


@kernel
def add_entries(more_offsets, more_counts, more_letters, size, seed, slots, offsets, counts, letters):
    """Add every word of another table's arrays, with its count."""
    hashes = np.empty(BATCH, np.uint64)
    for first in range(0, more_counts.size, BATCH):
        batch = min(BATCH, more_counts.size - first)
        starts, ends = more_offsets[first : first + batch], more_offsets[first + 1 : first + 1 + batch]
        hash_batch(more_letters, batch, starts, ends, hashes, seed, slots, offsets, letters)
        for i in range(batch):
            start, length, h, count = starts[i], ends[i] - starts[i], hashes[i], more_counts[first + i]
            entry, slot = find(more_letters, start, length, h, slots, offsets, letters)
            if entry >= 0:
                counts[entry] += count
            else:
                insert(more_letters, start, length, h, slot, count, size, slots, offsets, counts, letters)
                size += 1
    return size


@kernel
def enter_spans(text, starts, ends, more_counts, entries, size, seed, slots, offsets, counts, letters):
    """Add the words text[starts[i]:ends[i]], each with its count; entries[i] becomes the number of its entry."""
    hashes = np.empty(BATCH, np.uint64)
    for first in range(0, starts.size, BATCH):
        batch = min(BATCH, starts.size - first)
        hash_batch(text, batch, starts[first:], ends[first:], hashes, seed, slots, offsets, letters)
        for i in range(batch):
            start, length, h = starts[first + i], ends[first + i] - starts[first + i], hashes[i]
            count = more_counts[first + i]
            entry, slot = find(text, start, length, h, slots, offsets, letters)
            if entry >= 0:
                counts[entry] += count
            else:
                entry = size
                insert(text, start, length, h, slot, count, size, slots, offsets, counts, letters)
                size += 1
            entries[first + i] = entry
    return size


@kernel
def look_up_words(word_offsets, word_letters, entries, seed, slots, offsets, letters):
    """The entry of every word of another table's arrays, -1 where there is none."""
    for i in range(entries.size):
        start, length = word_offsets[i], word_offsets[i + 1] - word_offsets[i]
        h = hash_word(word_letters, start, length, seed)
        entries[i] = find(word_letters, start, length, h, slots, offsets, letters)[0]


@kernel
def find_owners(offsets, letters, first, parts, seed, owners):
    """The rank, one of so many, that each word from `first` on belongs to. All ranks must have the same seed, and not
    that of their tables, so that the words of a rank are spread over all slots."""
    for i in range(owners.size):
        start = offsets[first + i]
        h = hash_word(letters, start, offsets[first + i + 1] - start, seed)
        owners[i] = np.int64(((h >> HALF) * np.uint64(parts)) >> HALF)


@kernel
def fill_slots(size, seed, slots, offsets, letters):
    """Put all entries, which are known to be different words, into empty slots."""
    mask = np.uint64(slots.size - 1)
    for entry in range(size):
        h = hash_word(letters, offsets[entry], offsets[entry + 1] - offsets[entry], seed)
        slot = h & mask
        while slots[np.int64(slot)] != 0:
            slot = (slot + ONE) & mask
        slots[np.int64(slot)] = (h >> HALF) << HALF | np.uint64(entry + 1)


@kernel
def lookup_text(
    text, begin, end, unknown, end_of_line, ids, seed, slots, offsets, letters, starts, ends, line_ends, hashes
):  # fmt: skip
    """The ids of the words of text[begin:end], an end of line for each newline; returns how many were written."""
    written = 0
    while begin < end:
        batch, lines, begin = split(text, begin, end, starts, ends, line_ends)
        hash_batch(text, batch, starts, ends, hashes, seed, slots, offsets, letters)
        line = 0
        for i in range(batch):
            while line < lines and line_ends[line] == i:
                ids[written] = end_of_line
                written += 1
                line += 1
            entry, _ = find(text, starts[i], ends[i] - starts[i], hashes[i], slots, offsets, letters)
            ids[written] = entry if entry >= 0 else unknown
            written += 1
        for _ in range(line, lines):
            ids[written] = end_of_line
            written += 1
    return written


class Scratch:
    """Arrays that are used again for every block of text: one set per thread."""

    def __init__(self) -> None:
        self.arrays = (*word_arrays(), np.empty(BATCH, np.uint64))
        self.ids = np.empty(0, np.int32)

    def room_for_ids(self, length: int) -> np.ndarray:
        """Room for the ids of so many bytes of text, which has no more words and newlines than bytes."""
        if length > len(self.ids):
            self.ids = np.empty(length, np.int32)
        return self.ids


class WordTable:
    """Counts of words, growing as needed. Not safe to change from two threads at a time."""

    def __init__(self, seed: Seed = SEED) -> None:
        self._seed = seed
        self.clear()

    def clear(self) -> None:
        self.size = 0
        self._slots = np.zeros(2, np.uint64)  # twice the capacity: at least half of the slots stay free
        self._offsets = np.zeros(1, np.int64)
        self._counts = np.empty(0, np.int64)
        self._letters = np.empty(PADDING, np.uint8)

    def swap(self, other: "WordTable") -> None:
        """Exchange contents."""
        self.__dict__, other.__dict__ = other.__dict__, self.__dict__

    def drop_slots(self) -> None:
        """Free the memory of the slots: no word is to be found or added any more."""
        self._slots = self._slots[:0].copy()

    @property
    def offsets(self) -> np.ndarray:
        return self._offsets[: self.size + 1]

    @property
    def counts(self) -> np.ndarray:
        return self._counts[: self.size]

    @property
    def letters(self) -> np.ndarray:
        """The words' bytes, with PADDING behind them."""
        return self._letters[: self._offsets[self.size] + PADDING]

    @property
    def memory(self) -> int:
        """Bytes that the table occupies."""
        return sum(array.nbytes for array in (self._slots, self.offsets, self.counts, self.letters))

    def count_text(self, text: np.ndarray, length: int, scratch: Scratch) -> tuple[int, int]:
        """Count text[:length]; returns its number of words and of lines."""
        words = lines = begin = 0
        while begin < length:
            self.size, new_words, new_lines, begin, missing = count_text(
                text,
                begin,
                length,
                self.size,
                self._seed,
                self._slots,
                self._offsets,
                self._counts,
                self._letters,
                *scratch.arrays,
            )
            words, lines = words + new_words, lines + new_lines
            if missing:
                self._make_room(BATCH, missing)
        return words, lines

    def add_table(self, other: "WordTable") -> None:
        """Add all counts of another table."""
        self.add_words(other.offsets, other.counts, other.letters)

    def add_words(self, offsets: np.ndarray, counts: np.ndarray, letters: np.ndarray) -> None:
        """Add words given as a table's arrays (`letters` with PADDING behind them)."""
        self._make_room(len(counts), int(offsets[-1] - offsets[0]))
        self.size = add_entries(
            offsets, counts, letters, self.size, self._seed, self._slots, self._offsets, self._counts, self._letters
        )

    def add_word(self, word: bytes, count: int) -> None:
        self.add_words(np.array([0, len(word)]), np.array([count]), padded(word))

    def enter(self, text: np.ndarray, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Add the words text[starts[i]:ends[i]] with their counts; returns their entries, int64."""
        self._make_room(len(starts), int((ends - starts).sum()))
        entries = np.empty(len(starts), np.int64)
        self.size = enter_spans(
            text,
            starts,
            ends,
            counts,
            entries,
            self.size,
            self._seed,
            self._slots,
            self._offsets,
            self._counts,
            self._letters,
        )
        return entries

    def entries(self, offsets: np.ndarray, letters: np.ndarray) -> np.ndarray:
        """The entries of words given as a table's arrays, int64; -1 for those that have none."""
        entries = np.empty(len(offsets) - 1, np.int64)
        look_up_words(offsets, letters, entries, self._seed, self._slots, self._offsets, self._letters)
        return entries

    def entry(self, word: bytes) -> int:
        """The entry of a word, -1 if it has none."""
        return int(look_up(padded(word), len(word), self._seed, self._slots, self._offsets, self._letters))

    def lookup_text(
        self, text: np.ndarray, length: int, unknown: int, end_of_line: int, scratch: Scratch
    ) -> np.ndarray:
        """The entries of the words of text[:length], int32; `unknown` for others, `end_of_line` for every newline."""
        ids = scratch.room_for_ids(length)
        written = lookup_text(
            text,
            0,
            length,
            unknown,
            end_of_line,
            ids,
            self._seed,
            self._slots,
            self._offsets,
            self._letters,
            *scratch.arrays,
        )
        return ids[:written].copy()

    def _make_room(self, entries: int, bytes_: int) -> None:
        """Grow for so many more entries with so many bytes.

        Sizes double: the part that is not yet used takes address space, but no memory.
        """
        needed = self.size + entries
        if needed > MAX_ENTRIES:
            raise NeglmError(f"more than {MAX_ENTRIES:,} different words; give less --memory, so that they go to disk")
        if needed > len(self._counts):
            capacity = 1 << (needed - 1).bit_length()
            self._counts = _grown(self._counts, self.size, capacity)
            self._offsets = _grown(self._offsets, self.size + 1, capacity + 1)
            self.drop_slots()
            self._slots = np.zeros(2 * capacity, np.uint64)
            fill_slots(self.size, self._seed, self._slots, self._offsets, self._letters)
        used = int(self._offsets[self.size])
        if used + bytes_ + PADDING > len(self._letters):
            self._letters = _grown(self._letters, used, max(used + bytes_ + PADDING, 2 * len(self._letters)))


def _grown(array: np.ndarray, used: int, capacity: int) -> np.ndarray:
    larger = np.empty(capacity, array.dtype)
    larger[:used] = array[:used]
    return larger
