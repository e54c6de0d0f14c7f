"""Text generation: the most likely next words, or words drawn from the model."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neglm_cli.lm.device import Scorer, StepOutput
from neglm_cli.objective.random import GENERATE, draw, stream

BITS = np.float64(2.0**-53)
S11 = np.uint64(11)


@dataclass(frozen=True)
class SamplingParams:
    """Parameters of sampling: temperature (0: always the most likely word), top-k (0: no limit), top-p (1: no limit;
    else the smallest set of most likely words with at least this probability), and words that are never drawn."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    forbidden: tuple[int, ...] = ()


def probabilities(logits: np.ndarray, sampling: SamplingParams) -> tuple[np.ndarray, np.ndarray]:
    """Return the words that may be drawn, most likely first (ties by id), and their probabilities."""
    scores = logits.astype(np.float64)
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

    def __init__(self, scorer: Scorer, prompt: np.ndarray, seed: int, sampling: SamplingParams) -> None:
        """prompt: ids, at least one; for an empty prompt, an end of line."""
        self._scorer = scorer
        self._sampling = sampling
        self._key = stream(seed, GENERATE)
        self._drawn = 0
        self.restart(prompt)

    def restart(self, prompt: np.ndarray) -> None:
        """Continue after another prompt."""
        self._output = read_prompt(self._scorer, prompt)
        self._restarted = True

    def words(self) -> Iterator[int]:
        while True:
            self._restarted = False
            word = self._draw()
            yield word
            if not self._restarted:
                self._output = self._scorer.step(self._output.state, np.array([word]))

    def _draw(self) -> int:
        order, shares = probabilities(self._scorer.logits(self._output.y)[0], self._sampling)
        bits = draw(np.array([self._key]), np.array([self._drawn], np.uint64))
        self._drawn += 1
        threshold = float((bits[0] >> S11) * BITS) * shares.sum()
        return int(order[min(np.searchsorted(np.cumsum(shares), threshold, side="right"), len(order) - 1)])


def read_prompt(scorer: Scorer, ids: np.ndarray) -> StepOutput:
    """Read words from a zero state on; ids: at least one."""
    output = scorer.step(None, ids[:1])
    for word in ids[1:]:
        output = scorer.step(output.state, np.array([word]))
    return output


def next_words(scorer: Scorer, ids: np.ndarray, count: int) -> list[tuple[int, float]]:
    """Return the `count` most likely words after these, each with its probability."""
    logits = scorer.logits(read_prompt(scorer, ids).y)[0].astype(np.float64)
    log_z = logits.max() + np.log(np.exp(logits - logits.max()).sum())
    best = np.argsort(-logits, kind="stable")[:count]
    return [(int(word), float(np.exp(logits[word] - log_z))) for word in best]
