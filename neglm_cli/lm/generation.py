"""Text generation: the most likely next words, or words drawn from the model."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neglm_cli.lm.cpu.device import CpuScorer, NextState
from neglm_cli.objective.random import WORDS_TO_COME, draw, stream

BITS = np.float64(2.0**-53)
S11 = np.uint64(11)


@dataclass(frozen=True)
class SamplingParams:
    """How words are drawn: temperature (0 takes the most likely word), top-k (0 for no limit), and top-p, the smallest
    set of most likely words whose probability is at least that (1 for no limit)."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    forbidden: tuple[int, ...] = ()


def probabilities(log_probabilities: np.ndarray, sampling: SamplingParams) -> tuple[np.ndarray, np.ndarray]:
    """The words that may be drawn, most likely first (ties by id), and their probabilities."""
    scores = log_probabilities.astype(np.float64)
    scores[list(sampling.forbidden)] = -np.inf
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    if sampling.temperature == 0:
        return order[:1], np.ones(1)
    if sampling.top_k:
        order = order[: sampling.top_k]
    scaled = scores[order] / sampling.temperature
    shares = np.exp(scaled - scaled[0])
    shares /= shares.sum()
    if sampling.top_p < 1:
        count = int(np.searchsorted(np.cumsum(shares), sampling.top_p)) + 1
        order, shares = order[:count], shares[:count] / shares[:count].sum()
    return order, shares


class Generator:
    """Draws a text word by word, after a prompt. The same seed gives the same text."""

    def __init__(self, scorer: CpuScorer, prompt: np.ndarray, seed: int, sampling: SamplingParams) -> None:
        """prompt: ids, at least one; an end of line stands for an empty prompt."""
        self._scorer = scorer
        self._sampling = sampling
        self._key = stream(seed, WORDS_TO_COME)
        self._drawn = 0
        self.restart(prompt)

    def restart(self, prompt: np.ndarray) -> None:
        """Continue after another prompt."""
        self._next = read_prompt(self._scorer, prompt)
        self._restarted = True

    def words(self) -> Iterator[int]:
        while True:
            self._restarted = False
            word = self._draw()
            yield word
            if not self._restarted:
                self._next = self._scorer.step(self._next.state, np.array([word]), scored=False)

    def _draw(self) -> int:
        order, shares = probabilities(self._scorer.all_scores(self._next.y)[0], self._sampling)
        bits = draw(np.array([self._key]), np.array([self._drawn], np.uint64))
        self._drawn += 1
        threshold = float((bits[0] >> S11) * BITS) * shares.sum()
        return int(order[min(np.searchsorted(np.cumsum(shares), threshold, side="right"), len(order) - 1)])


def read_prompt(scorer: CpuScorer, ids: np.ndarray) -> NextState:
    """Read words from a zero state on."""
    after = scorer.step(scorer.zero_state(1), ids[:1], scored=False)
    for word in ids[1:]:
        after = scorer.step(after.state, np.array([word]), scored=False)
    return after


def next_words(scorer: CpuScorer, ids: np.ndarray, count: int) -> list[tuple[int, float]]:
    """The most likely words after these, each with its probability."""
    scores = scorer.all_scores(read_prompt(scorer, ids).y)[0].astype(np.float64)
    log_z = scores.max() + np.log(np.exp(scores - scores.max()).sum())
    best = np.argsort(-scores, kind="stable")[:count]
    return [(int(word), float(np.exp(scores[word] - log_z))) for word in best]
