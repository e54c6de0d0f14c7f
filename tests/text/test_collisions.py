"""Words and pairs chosen to collide must not make the hash tables slow: the work is counted, not timed."""

import random
from collections.abc import Iterator
from itertools import islice, product

import numpy as np
import pytest

from neglm_cli.text.bigrams import PairCounts
from neglm_cli.text.phrase_joining import PhrasePairs
from neglm_cli.text.table import Scratch, WordTable
from neglm_cli.text.tokens import padded

MODULUS = 1 << 64
MULTIPLIER, LENGTH_MULTIPLIER = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
COLLIDING_BITS = 24  # more than a table of WORDS words has slots for
WORDS = 1 << 13
STEPS_PER_WORD = 20  # a half-full table needs about three


def unseeded_hash(word: bytes) -> int:
    """Return the hash of version 0.1.0, which is invertible."""
    h = len(word) * LENGTH_MULTIPLIER % MODULUS
    for at in (*range(0, len(word) - 8, 8), len(word) - 8):
        h = (h ^ int.from_bytes(word[at : at + 8], "little")) * MULTIPLIER % MODULUS
        h ^= h >> 32
    h = h * LENGTH_MULTIPLIER % MODULUS
    return h ^ h >> 29


def word_with_hash(h: int) -> bytes:
    """Return the word of eight bytes with this unseeded hash."""
    h ^= h >> 29 ^ h >> 58
    h = h * pow(LENGTH_MULTIPLIER, -1, MODULUS) % MODULUS
    h ^= h >> 32
    return (h * pow(MULTIPLIER, -1, MODULUS) % MODULUS ^ 8 * LENGTH_MULTIPLIER % MODULUS).to_bytes(8, "little")


def is_word(word: bytes) -> bool:
    return word.split() == [word]


def words_in_one_slot() -> Iterator[bytes]:
    """Yield distinct words whose unseeded hashes end in the same bits."""
    return filter(is_word, (word_with_hash(high << COLLIDING_BITS) for high in range(1, MODULUS >> COLLIDING_BITS)))


def words_with_one_hash() -> Iterator[bytes]:
    """Yield words that collide for every initial hash: a flipped top bit passes through a multiplication by any odd
    number unchanged, and the next eight bytes cancel the effect of the shift."""
    base = b"abcdefgh" * 2
    flipped = bytes(byte ^ flip for byte, flip in zip(base, b"\0" * 7 + b"\x80" + b"\0\0\0\x80\0\0\0\x80", strict=True))
    return (b"".join(parts) + b"the-tail" for parts in product((base, flipped), repeat=16))


def most_steps(used: np.ndarray) -> int:
    """Return an upper bound of the probes that filled these slots: a cluster of n slots took no more than
    n (n + 1) / 2."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], used, [False]]).astype(np.int8)))
    lengths = edges[1::2] - edges[::2]
    return int((lengths * (lengths + 1) // 2).sum())


CHOSEN = {"slot": words_in_one_slot, "hash": words_with_one_hash}


def test_the_generators_collide_in_the_unseeded_hash() -> None:
    in_one_slot = list(islice(words_in_one_slot(), 100))
    assert {unseeded_hash(word) % (1 << COLLIDING_BITS) for word in in_one_slot} == {0}
    assert len(set(in_one_slot)) == 100
    with_one_hash = list(islice(words_with_one_hash(), 100))
    assert len({unseeded_hash(word) for word in with_one_hash}) == 1
    assert all(map(is_word, with_one_hash))
    assert len(set(with_one_hash)) == 100


@pytest.mark.parametrize("chosen", CHOSEN)
def test_chosen_words_take_no_more_steps_than_others(chosen: str) -> None:
    words = list(islice(CHOSEN[chosen](), WORDS))
    text = padded(b" ".join(words) + b"\n")
    table = WordTable()
    table.count_text(text, len(b" ".join(words)) + 1, Scratch())
    assert table.size == WORDS
    assert most_steps(table._slots != 0) <= STEPS_PER_WORD * WORDS
    entries = table.entries(np.cumsum([0, *map(len, words[:100])]), padded(b"".join(words[:100])))
    assert entries.tolist() == list(range(100))


def test_entries_do_not_depend_on_the_seed() -> None:
    draw = random.Random(1)
    words = [draw.randbytes(length % 40 + 1).translate(None, b" \t\n\r\v\f") + b"x" for length in range(900)]
    text = padded(b" ".join(words) + b"\n")
    tables = [WordTable(), WordTable((np.uint64(1), np.uint64(3))), WordTable((np.uint64(2**64 - 1), np.uint64(99)))]
    for table in tables:
        table.count_text(text, len(b" ".join(words)) + 1, Scratch())
        assert table.word_bytes[: table.offsets[-1]].tobytes() == tables[0].word_bytes[: table.offsets[-1]].tobytes()
        assert np.array_equal(table.offsets, tables[0].offsets)
        assert np.array_equal(table.counts, tables[0].counts)


def test_chosen_pairs_take_no_more_steps_than_others() -> None:
    """Pairs of ids that share a slot when a key is hashed by a known multiplication."""
    slots = 1 << (2 * WORDS).bit_length()
    firsts, seconds = np.meshgrid(np.arange(4096, dtype=np.uint64), np.arange(4096, dtype=np.uint64))
    keys = (firsts << np.uint64(32) | seconds).ravel()
    hashes = keys * np.uint64(MULTIPLIER)
    chosen = np.sort(keys[(hashes ^ hashes >> np.uint64(32)) % np.uint64(slots) < 32][:WORDS])
    assert len(chosen) == WORDS
    pairs = PhrasePairs.of(PairCounts(chosen, np.ones(WORDS, np.int64)), np.arange(WORDS, dtype=np.int32))
    assert most_steps(pairs.table[-1] >= 0) <= STEPS_PER_WORD * WORDS
