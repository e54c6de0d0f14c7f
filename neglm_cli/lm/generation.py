"""Words that a model would go on with: the most likely ones, or drawn."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neglm_cli.lm.cpu.device import CpuScorer, Followed
from neglm_cli.objective.random import WORDS_TO_COME, draw, stream

BITS = np.float64(2.0**-53)
S11 = np.uint64(11)


@dataclass(frozen=True)
class Taste:
    """How words are drawn. A temperature of 0 takes the most likely word; a top_k of 0 is no limit, nor is a top_p of
    1: the smallest set of most likely words whose probability is at least that."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    forbidden: tuple[int, ...] = ()


def probabilities(log_probabilities: np.ndarray, taste: Taste) -> tuple[np.ndarray, np.ndarray]:
    """The words that may be drawn, the most likely first (of equal ones, that with the lower id), and how likely."""
    scores = log_probabilities.astype(np.float64)
    scores[list(taste.forbidden)] = -np.inf
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    if taste.temperature == 0:
        return order[:1], np.ones(1)
    if taste.top_k:
        order = order[: taste.top_k]
    scaled = scores[order] / taste.temperature
    shares = np.exp(scaled - scaled[0])
    shares /= shares.sum()
    if taste.top_p < 1:
        count = int(np.searchsorted(np.cumsum(shares), taste.top_p)) + 1
        order, shares = order[:count], shares[:count] / shares[:count].sum()
    return order, shares


class Writer:
    """Goes on from a beginning, word by word. The same seed writes the same text."""

    def __init__(self, scorer: CpuScorer, beginning: np.ndarray, seed: int, taste: Taste) -> None:
        """beginning: ids, at least one: the end of a line stands for nothing."""
        self._scorer = scorer
        self._taste = taste
        self._key = stream(seed, WORDS_TO_COME)
        self._drawn = 0
        self.begin(beginning)

    def begin(self, beginning: np.ndarray) -> None:
        """Go on from another beginning."""
        self._at = read_on(self._scorer, beginning)
        self._begun = True

    def words(self) -> Iterator[int]:
        while True:
            self._begun = False
            word = self._draw()
            yield word
            if not self._begun:
                self._at = self._scorer.follow(self._at.state, np.array([word]), scored=False)

    def _draw(self) -> int:
        order, shares = probabilities(self._scorer.all_scores(self._at.y)[0], self._taste)
        bits = draw(np.array([self._key]), np.array([self._drawn], np.uint64))
        self._drawn += 1
        place = float((bits[0] >> S11) * BITS) * shares.sum()
        return int(order[min(np.searchsorted(np.cumsum(shares), place, side="right"), len(order) - 1)])


def read_on(scorer: CpuScorer, ids: np.ndarray) -> Followed:
    """Read words from no state on."""
    at = scorer.follow(scorer.no_state(1), ids[:1], scored=False)
    for word in ids[1:]:
        at = scorer.follow(at.state, np.array([word]), scored=False)
    return at


def next_words(scorer: CpuScorer, ids: np.ndarray, count: int) -> list[tuple[int, float]]:
    """The most likely words after these, each with its probability."""
    scores = scorer.all_scores(read_on(scorer, ids).y)[0].astype(np.float64)
    log_z = scores.max() + np.log(np.exp(scores - scores.max()).sum())
    best = np.argsort(-scores, kind="stable")[:count]
    return [(int(word), float(np.exp(scores[word] - log_z))) for word in best]
