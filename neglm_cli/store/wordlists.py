"""Validation of word lists in files, before any word is read by its offsets."""

from collections.abc import Mapping

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.store.rules import SchemaError
from neglm_cli.store.schema import WordList

REQUIRED = (b"<unk>", b"<eos>")
IS_SPACE = np.isin(np.arange(256), np.frombuffer(b" \t\n\r\v\f", np.uint8))
MAX_TOTAL = 2**63  # limit of the sum of counts, including at least 1 for `<unk>`
MAX_WORDS = 2**31 - 1
MAX_SHOWN = 40  # bytes of a word
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd; 2^64 / golden ratio
HALF = np.uint64(32)
SEARCHED = 1 << 20  # words at a time
COMPARED = 16  # bytes that a search compares for all words at once; then few words are left


def check_words(names: WordList, tensors: Mapping[str, np.ndarray]) -> None:
    """Raise `SchemaError` unless offsets split `words` into distinct words, with counts of at least 1."""
    words, offsets, counts = (tensors[name] for name in names[:3])
    rising = offsets[0] == 0 and offsets[-1] == len(words) and bool((offsets[1:] > offsets[:-1]).all())
    if not rising or len(counts) > MAX_WORDS:
        raise SchemaError(f"`{names.offsets}` do not cut `{names.words}` into words")
    if len(counts) and (counts.min() < 1 or exact_sum(counts) > MAX_TOTAL):
        raise SchemaError(f"`{names.counts}` are not counts: each is at least 1, and they add up to 64 bits")
    if names.of_text:
        if IS_SPACE[words].any():
            raise SchemaError(f"`{names.words}` have white space in them")
        for word in REQUIRED:
            if find_word(word, words, offsets) < 0:
                raise SchemaError(f"the word `{word.decode()}` is not among its words")
    repeated = _repeated(words, offsets)
    if repeated is not None:
        shown = repeated[:MAX_SHOWN].decode(errors="backslashreplace")
        raise SchemaError(f"the word {shown!r} occurs twice in `{names.words}`")


def exact_sum(counts: np.ndarray) -> int:
    """Return the exact sum, which may exceed 64 bits."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def find_word(word: bytes, words: np.ndarray, offsets: np.ndarray) -> int:
    """Return the index of a word, or -1, by linear search: for one word, faster than building a hash table."""
    for first in range(0, len(offsets) - 1, SEARCHED):
        starts = offsets[first : first + SEARCHED + 1]
        found = first + np.flatnonzero(np.diff(starts) == len(word))
        for i, byte in enumerate(word[:COMPARED]):
            found = found[words[offsets[found] + i] == byte]
        for number in found.tolist():
            if words[offsets[number] : offsets[number + 1]].tobytes() == word:
                return int(number)
    return -1


def _repeated(words: np.ndarray, offsets: np.ndarray) -> bytes | None:
    """Return a duplicate word, or None. Compares hashes first, then the few words whose hashes are equal."""
    hashes = np.empty(offsets.size - 1, np.uint64)
    _hash_words(words, offsets, hashes)
    ordered = np.sort(hashes)
    suspects = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(suspects):
        return None
    seen = set()
    for number in np.flatnonzero(np.isin(hashes, suspects)):
        word = words[offsets[number] : offsets[number + 1]].tobytes()
        if word in seen:
            return word
        seen.add(word)
    return None


@kernel
def _hash_words(words, offsets, hashes):
    """Set a 64-bit hash of each word."""
    for number in range(hashes.size):
        h = np.uint64(offsets[number + 1] - offsets[number])
        for i in range(offsets[number], offsets[number + 1]):
            h = (h ^ np.uint64(words[i])) * MULTIPLIER
            h ^= h >> HALF
        hashes[number] = h
