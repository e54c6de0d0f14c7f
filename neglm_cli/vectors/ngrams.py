"""Character n-grams of words, and their buckets: those of fastText, bit for bit.

A word w stands between angle brackets: <w>. Its n-grams are all runs of `minn` to `maxn` characters in it, except < and
> alone. A character is a byte and the bytes 10xxxxxx after it: a code point in UTF-8. This defines the n-grams of any
other bytes, too: a byte 10xxxxxx always belongs to the character before it. The word </s>, fastText's end of a line,
has no n-grams.

The bucket of an n-gram is its hash modulo the number of buckets. The hash is FNV-1a with 32 bits, except that bytes
are signed: those from 128 on are extended to 32 bits by ones.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.word_index import WordIndex

LINE_END = b"</s>"
MOST_SUITABLE = 2_000_000  # buckets: fastText's default
FNV_BASIS, FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)
LESS, GREATER = np.uint8(ord("<")), np.uint8(ord(">"))
SIGN, ONES = np.uint8(0x80), np.uint32(0xFFFFFF00)
CONTINUATION_MASK, CONTINUATION = np.uint8(0xC0), np.uint8(0x80)


class NGrams(NamedTuple):
    """The n-grams of words: those of word i are ids[starts[i]:starts[i+1]], from left to right, shorter ones first."""

    ids: np.ndarray  # hashes, uint32, or buckets, int32
    starts: np.ndarray  # int64 (words + 1,)


def ngram_hashes(words: WordIndex, minn: int, maxn: int) -> NGrams:
    """Return the hashes of the n-grams of words, uint32."""
    starts = np.zeros(len(words) + 1, np.int64)
    line_end = words.id(LINE_END)
    _scan(words.words, words.offsets, (minn, maxn), line_end, np.empty(0, np.uint32), starts)
    np.cumsum(starts, out=starts)
    hashes = np.empty(starts[-1], np.uint32)
    _scan(words.words, words.offsets, (minn, maxn), line_end, hashes, np.empty(0, np.int64))
    return NGrams(hashes, starts)


def in_buckets(hashes: NGrams, buckets: int) -> NGrams:
    """Return the buckets of n-grams, int32."""
    return NGrams((hashes.ids % np.uint32(buckets)).astype(np.int32), hashes.starts)


def ngram_buckets(words: WordIndex, minn: int, maxn: int, buckets: int) -> NGrams:
    """Return the buckets of the n-grams of words, int32."""
    return in_buckets(ngram_hashes(words, minn, maxn), buckets)


def suitable_buckets(hashes: NGrams) -> int:
    """Return a number of buckets for the n-grams of a vocabulary: few share one, and few buckets are empty."""
    return min(MOST_SUITABLE, max(1, 2 * len(np.unique(hashes.ids))))


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
