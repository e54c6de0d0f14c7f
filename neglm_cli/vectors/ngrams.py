"""Character n-grams of words, and their buckets: those of fastText and of floret, bit for bit.

A word w stands between angle brackets: <w>. Its n-grams are all runs of `minn` to `maxn` characters in it, except < and
> alone. A character is a byte and the bytes 10xxxxxx after it: a code point in UTF-8. This defines the n-grams of any
other bytes, too: a byte 10xxxxxx always belongs to the character before it. The word </s>, fastText's end of a line,
has no n-grams.

The bucket of an n-gram is its hash modulo the number of buckets. The hash is FNV-1a with 32 bits, except that bytes
are signed: those from 128 on are extended to 32 bits by ones.

floret hashes <w> itself, too, and < and > alone, as spaCy does; </s> is a word like any other. Each of these has up to
four hashes: the 32-bit parts of MurmurHash3 (x64, 128 bits), lowest first.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.word_index import WordIndex

LINE_END = b"</s>"
MOST_SUITABLE = 2_000_000  # buckets: fastText's default
MOST_SUITABLE_FLORET = 200_000  # those of spaCy's large packages
FNV_BASIS, FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)
LESS, GREATER = np.uint8(ord("<")), np.uint8(ord(">"))
SIGN, ONES = np.uint8(0x80), np.uint32(0xFFFFFF00)
CONTINUATION_MASK, CONTINUATION = np.uint8(0xC0), np.uint8(0x80)


MURMUR_SEED = 2166136261  # floret's
MURMUR_C1, MURMUR_C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
MURMUR_ADD1, MURMUR_ADD2, FIVE = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
MIX1, MIX2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
S8, S27, S31, S32, S33, S64 = (np.uint64(shift) for shift in (8, 27, 31, 32, 33, 64))
LOW = np.uint64(0xFFFFFFFF)


class NGrams(NamedTuple):
    """The n-grams of words: those of word i are ids[starts[i]:starts[i+1]], from left to right, shorter ones first. In
    floret's case, they follow the word itself, and each has several ids."""

    ids: np.ndarray  # hashes, uint32, or buckets, int32
    starts: np.ndarray  # int64 (words + 1,)


def ngram_hashes(words: WordIndex, minn: int, maxn: int, hash_count: int = 0) -> NGrams:
    """Return the hashes of the n-grams of words, uint32. hash_count: of floret; 0 for those of fastText."""
    starts = np.zeros(len(words) + 1, np.int64)
    if hash_count:
        lengths = (minn, maxn, hash_count)
        _scan_floret(words.words, words.offsets, lengths, np.empty(0, np.uint32), starts)
        np.cumsum(starts, out=starts)
        hashes = np.empty(starts[-1], np.uint32)
        _scan_floret(words.words, words.offsets, lengths, hashes, np.empty(0, np.int64))
        return NGrams(hashes, starts)
    line_end = words.id(LINE_END)
    _scan(words.words, words.offsets, (minn, maxn), line_end, np.empty(0, np.uint32), starts)
    np.cumsum(starts, out=starts)
    hashes = np.empty(starts[-1], np.uint32)
    _scan(words.words, words.offsets, (minn, maxn), line_end, hashes, np.empty(0, np.int64))
    return NGrams(hashes, starts)


def in_buckets(hashes: NGrams, buckets: int) -> NGrams:
    """Return the buckets of n-grams, int32."""
    return NGrams((hashes.ids % np.uint32(buckets)).astype(np.int32), hashes.starts)


def ngram_buckets(words: WordIndex, minn: int, maxn: int, buckets: int, hash_count: int = 0) -> NGrams:
    """Return the buckets of the n-grams of words, int32. hash_count: see `ngram_hashes`."""
    return in_buckets(ngram_hashes(words, minn, maxn, hash_count), buckets)


def suitable_buckets(hashes: NGrams, floret: bool = False) -> int:
    """Return a number of buckets for the n-grams of a vocabulary: few share one, and few buckets are empty. A table of
    floret has fewer, since n-grams that share one of their rows differ in the others."""
    return min(MOST_SUITABLE_FLORET if floret else MOST_SUITABLE, max(1, 2 * len(np.unique(hashes.ids))))


@inlined
def _byte(words, begin, end, i):
    """Return the byte at `i` of the word words[begin:end], or of the brackets around it."""
    if i < begin:
        return LESS
    return words[i] if i < end else GREATER


@inlined
def _continues(words, begin, end, i):
    """Return True if the byte at `i` belongs to the character before it."""
    return _byte(words, begin, end, i) & CONTINUATION_MASK == CONTINUATION


@kernel
def _scan(words, offsets, lengths, skipped, hashes, counts):
    """Write the hashes of all n-grams to `hashes`, or their number in word i to counts[i+1]: whichever is not empty.

    words, offsets: see `WordIndex`. skipped: id of a word that has none, or -1.
    """
    minn, maxn = lengths
    found = 0
    for word in range(offsets.size - 1):
        begin, end = offsets[word], offsets[word + 1]
        before = found
        for first in range(begin - 1, end + 1 if word != skipped else begin - 1):  # with the brackets
            if _continues(words, begin, end, first):
                continue
            hash_, n, i = FNV_BASIS, 0, first
            while i <= end and n < maxn:
                while True:  # the bytes of a character
                    byte = _byte(words, begin, end, i)
                    hash_ = (hash_ ^ (np.uint32(byte) | (ONES if byte & SIGN else np.uint32(0)))) * FNV_PRIME
                    i += 1
                    if i > end or not _continues(words, begin, end, i):
                        break
                n += 1
                if n >= minn and not (n == 1 and (first < begin or i > end)):
                    if hashes.size:
                        hashes[found] = hash_
                    found += 1
        if counts.size:
            counts[word + 1] = found - before


@inlined
def _eight_bytes(words, begin, end, first, last):
    """Return up to eight bytes from `first` to before `last` as a little-endian number."""
    found = np.uint64(0)
    shift = np.uint64(0)
    for i in range(first, min(first + 8, last)):
        found |= np.uint64(_byte(words, begin, end, i)) << shift
        shift += S8
    return found


@inlined
def _rotated(x, bits):
    return (x << bits) | (x >> (S64 - bits))


@inlined
def _mixed(x):
    x = (x ^ (x >> S33)) * MIX1
    x = (x ^ (x >> S33)) * MIX2
    return x ^ (x >> S33)


@inlined
def _murmur(words, begin, end, first, last):
    """Return MurmurHash3 (x64, 128 bits) of the bytes from `first` to before `last`, as two halves."""
    h1 = h2 = np.uint64(MURMUR_SEED)
    size = last - first
    whole = size // 16
    for block in range(whole + 1):  # the last one is shorter, or empty; missing bytes are zeros, which change nothing
        at = first + block * 16
        k1 = _eight_bytes(words, begin, end, at, last)
        k2 = _eight_bytes(words, begin, end, at + 8, last)
        h1 ^= _rotated(k1 * MURMUR_C1, S31) * MURMUR_C2
        if block < whole:
            h1 = (_rotated(h1, S27) + h2) * FIVE + MURMUR_ADD1
        h2 ^= _rotated(k2 * MURMUR_C2, S33) * MURMUR_C1
        if block < whole:
            h2 = (_rotated(h2, S31) + h1) * FIVE + MURMUR_ADD2
    h1 ^= np.uint64(size)
    h2 ^= np.uint64(size)
    h1 += h2
    h2 += h1
    h1 = _mixed(h1)
    h2 = _mixed(h2)
    h1 += h2
    return h1, h2 + h1


@inlined
def _write_hashes(words, begin, end, span, hashes, found, count):
    """Write the `count` hashes of the bytes in a span to hashes[found:], unless `hashes` is empty."""
    if hashes.size:
        h1, h2 = _murmur(words, begin, end, span[0], span[1])
        for i in range(count):
            half = h1 if i < 2 else h2
            hashes[found + i] = np.uint32((half >> S32) if i & 1 else (half & LOW))


@kernel
def _scan_floret(words, offsets, lengths, hashes, counts):
    """Do the same for floret. lengths: minn, maxn, and the number of hashes."""
    minn, maxn, hash_count = lengths
    found = 0
    for word in range(offsets.size - 1):
        begin, end = offsets[word], offsets[word + 1]
        before = found
        _write_hashes(words, begin, end, (begin - 1, end + 1), hashes, found, hash_count)
        found += hash_count
        for first in range(begin - 1, end + 1):
            if _continues(words, begin, end, first):
                continue
            n, i = 0, first
            while i <= end and n < maxn:
                i += 1
                while i <= end and _continues(words, begin, end, i):
                    i += 1
                n += 1
                if n >= minn:
                    _write_hashes(words, begin, end, (first, i), hashes, found, hash_count)
                    found += hash_count
        if counts.size:
            counts[word + 1] = found - before
