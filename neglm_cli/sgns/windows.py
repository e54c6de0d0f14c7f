"""From text to windows: subsampling, and the contexts of each remaining word.

Words are rows of the tables, not vocabulary ids: only words with vectors count. BREAK separates sentences.
Random numbers are a hash of a word's position in the corpus (see objective/random).
"""

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.objective.random import S32, below, draw
from neglm_cli.sgns.source import Windows

NO_WORD, BREAK = -1, -2  # instead of a row: a word without a vector, and the end of a sentence
ALWAYS = 2**32  # the threshold that keeps every occurrence


def keep_thresholds(counts: np.ndarray, sample: float) -> np.ndarray:
    """Return the probability of keeping each word, times 2^32: uint64 (V,). A sample of 0 keeps all words.

    As in word2vec, a word of relative frequency f is kept with probability √(t/f) + t/f, where t is `sample`.
    """
    if sample == 0:
        return np.full(len(counts), ALWAYS, np.uint64)
    relative = sample * counts.sum() / counts
    return (np.minimum(np.sqrt(relative) + relative, 1) * ALWAYS).astype(np.uint64)


@kernel
def subsample(ids, row_of, keep, key, first, words, positions):
    """Drop words without vectors, and frequent words at random. Return the number of remaining words.

    ids: int32, part of the corpus, starting at position `first`.
    row_of: int32 (V,), the row of each id, NO_WORD or BREAK.
    keep: uint64, by row: see `keep_thresholds`. A BREAK is always kept.
    words, positions: outputs, the rows of the remaining words and their positions in the corpus.
    """
    count = 0
    for i in range(ids.size):
        row = row_of[ids[i]]
        if row == NO_WORD:
            continue
        position = first + i
        if row != BREAK and draw(key, np.uint64(position)) >> S32 >= keep[row]:
            continue
        words[count] = row
        positions[count] = position
        count += 1
    return count


def find_windows(
    words: np.ndarray, positions: np.ndarray, begin: int, end: int, window: int, key: np.uint64
) -> Windows:  # fmt: skip
    """Find the windows of words[begin:end].

    words, positions: see `subsample`; words outside begin and end are contexts only. A window extends 1 to `window`
    words to either side, uniformly distributed, but not past a BREAK. Windows without contexts are omitted.
    """
    count = end - begin
    found = Windows(
        np.empty(count + 1, np.int64), np.empty(count * 2 * window, np.int32), np.empty(count, np.int32),
        np.empty(count, np.int64),
    )  # fmt: skip
    count, size = _find_windows(words, positions, begin, end, window, key, found)
    return Windows(found.starts[: count + 1], found.contexts[:size], found.targets[:count], found.positions[:count])


@kernel
def _find_windows(words, positions, begin, end, window, key, found):
    """Write the windows to `found`. Return the number of windows and of contexts."""
    starts, contexts, targets, target_positions = found
    count = size = 0
    starts[0] = 0
    for center in range(begin, end):
        if words[center] == BREAK:
            continue
        radius = 1 + np.int64(below(draw(key, np.uint64(positions[center])), np.uint64(window)))
        left = right = center
        while left > 0 and center - left < radius and words[left - 1] != BREAK:
            left -= 1
        while right + 1 < words.size and right - center < radius and words[right + 1] != BREAK:
            right += 1
        for i in range(left, center):
            contexts[size] = words[i]
            size += 1
        for i in range(center + 1, right + 1):
            contexts[size] = words[i]
            size += 1
        if left < right:
            targets[count] = words[center]
            target_positions[count] = positions[center]
            count += 1
            starts[count] = size
    return count, size
