"""From text to windows: which words stay, and which contexts each of them has.

Words are numbered by row here, not by vocabulary id: only words that have vectors count. BREAK stands between
sentences. Everything random is drawn for a word's place in the corpus (see objective/random).
"""

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.objective.random import S32, below, draw

NO_WORD, BREAK = -1, -2  # rows of what has no vector: a word that is left out, and the end of a sentence
CERTAIN = 2**32


def keep_table(counts: np.ndarray, sample: float) -> np.ndarray:
    """How likely each word is to stay, as a number of 2^32: uint64. word2vec's rule; with sample 0 all stay.

    A word of relative frequency f stays with probability √(t/f) + t/f, where t is `sample`.
    """
    if sample == 0:
        return np.full(len(counts), CERTAIN, np.uint64)
    relative = sample * counts.sum() / counts
    return (np.minimum(np.sqrt(relative) + relative, 1) * CERTAIN).astype(np.uint64)


@kernel
def subsample(ids, row_of, keep, key, position, words, places):
    """The words of a stretch of corpus that training sees, frequent ones thinned out; returns how many.

    ids: int32, the stretch, whose first word is number `position` of the corpus.
    row_of: int32 (V,), the row of each id, NO_WORD or BREAK.
    keep: uint64, by row: a word stays if 32 random bits are below it.
    words, places: room for the rows that stay and their places in the corpus; a BREAK stays always.
    """
    count = 0
    for i in range(ids.size):
        row = row_of[ids[i]]
        if row == NO_WORD:
            continue
        place = position + i
        if row != BREAK and draw(key, np.uint64(place)) >> S32 >= keep[row]:
            continue
        words[count] = row
        places[count] = place
        count += 1
    return count


@kernel
def find_windows(words, places, begin, end, window, key):
    """The windows around words[begin:end], as `source.Windows` has them.

    words, places: see `subsample`; entries before begin and behind end are contexts only. A window reaches 1 to
    `window` words to either side, drawn evenly, but not beyond a BREAK. One without contexts is left out.
    """
    starts = np.empty(end - begin + 1, np.int64)
    contexts = np.empty((end - begin) * 2 * window, np.int32)
    targets = np.empty(end - begin, np.int32)
    target_places = np.empty(end - begin, np.int64)
    count = size = 0
    starts[0] = 0
    for centre in range(begin, end):
        if words[centre] == BREAK:
            continue
        reach = 1 + np.int64(below(draw(key, np.uint64(places[centre])), np.uint64(window)))
        left = right = centre
        while left > 0 and centre - left < reach and words[left - 1] != BREAK:
            left -= 1
        while right + 1 < words.size and right - centre < reach and words[right + 1] != BREAK:
            right += 1
        for i in range(left, centre):
            contexts[size] = words[i]
            size += 1
        for i in range(centre + 1, right + 1):
            contexts[size] = words[i]
            size += 1
        if left < right:
            targets[count] = words[centre]
            target_places[count] = places[centre]
            count += 1
            starts[count] = size
    return starts[: count + 1], contexts[:size], targets[:count], target_places[:count]
