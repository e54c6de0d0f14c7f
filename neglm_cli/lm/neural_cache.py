"""The neural cache: words seen after similar contexts become likely (Grave, Joulin and Usunier, 2017).

    p_cache(w | h) ∝ Σ exp(θ · h·hᵢ)    over the last N positions i of the text whose word is w

hᵢ is the output of the network that predicted word i. The sum is over all N positions, without approximation.
"""

from collections.abc import Sequence

import numpy as np

MAX_SCORES = 1 << 21  # dot products in memory at a time, unless a single word has more


class NeuralCache:
    """The last `size` outputs of the network, with the words that followed them."""

    def __init__(self, size: int, hidden: int) -> None:
        self._size = size
        self._outputs = np.empty((0, hidden), np.float32)
        self._words = np.empty(0, np.int32)
        self._start = self._end = 0  # of what the cache has, in these two

    def score(self, outputs: np.ndarray, words: np.ndarray, thetas: Sequence[float]) -> np.ndarray:
        """Return the log-probability of each word by each θ, and add the words to the cache: float64 (θ, T).

        outputs: float32 (T, H), those that predict `words`, (T,). A word may find earlier ones of the same call. It is
        -inf if the cache lacks the word, and NaN as long as the cache is empty.
        """
        found = np.empty((len(thetas), len(words)))
        rows = max(MAX_SCORES // (self._size + 1), 1)
        for first in range(0, len(words), rows):
            part = slice(first, min(first + rows, len(words)))
            found[:, part] = self._score(outputs[part], words[part], thetas)
        return found

    def _score(self, outputs: np.ndarray, words: np.ndarray, thetas: Sequence[float]) -> np.ndarray:
        cached = self._end - self._start
        self._append(outputs, words)
        oldest = self._end - len(words) - cached
        keys, followers = self._outputs[oldest : self._end], self._words[oldest : self._end]
        dots = (outputs @ keys.T).astype(np.float64)
        age = cached + np.arange(len(words))[:, None] - np.arange(len(keys))  # in words; 0 is the word itself
        visible = (age > 0) & (age <= self._size)
        same = visible & (followers == words[:, None])
        self._start = max(self._start, self._end - self._size)
        with np.errstate(invalid="ignore", divide="ignore"):  # -inf if nothing matches, NaN if nothing is visible
            return np.array([_log_sum(theta * dots, same) - _log_sum(theta * dots, visible) for theta in thetas])

    def _append(self, outputs: np.ndarray, words: np.ndarray) -> None:
        """Add to the arrays. When they are full, what is still needed moves to the front of larger ones."""
        count = len(words)
        if self._end + count > len(self._words):
            cached = slice(self._start, self._end)
            length = 2 * (self._end - self._start + count)
            for name in ("_outputs", "_words"):
                old: np.ndarray = getattr(self, name)
                new = np.empty((length, *old.shape[1:]), old.dtype)
                new[: cached.stop - cached.start] = old[cached]
                setattr(self, name, new)
            self._start, self._end = 0, cached.stop - cached.start
        self._outputs[self._end : self._end + count] = outputs
        self._words[self._end : self._end + count] = words
        self._end += count


def _log_sum(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the logarithm of the sum of exp(scores), over the columns of each row that a mask selects."""
    masked = np.where(mask, scores, -np.inf)
    top = masked.max(axis=1, keepdims=True)
    top[top == -np.inf] = 0
    return np.asarray(top[:, 0] + np.log(np.exp(masked - top).sum(axis=1)))
