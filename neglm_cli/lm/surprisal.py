"""Surprisal and entropy word by word, for studies of reading times.

    surprisal −log p(w_t | w_<t)        entropy before w_t: −Σ_w p(w | w_<t) log p(w | w_<t)

Entropy needs the logits of all words, which are kept for a few rows at a time.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.lm.device import Scorer, State
from neglm_cli.lm.lines import Lines

LOGITS = 1 << 21  # logits in memory: enough rows at a time for efficient products


class Measures(NamedTuple):
    """Measures of each token, in nats: float64 (M,)."""

    surprisal: np.ndarray
    entropy: np.ndarray  # of the next word, before the token


class SurprisalMeter:
    """Measures lines, which are independent or one text."""

    def __init__(self, scorer: Scorer, words: int, end_of_line: int) -> None:
        self._scorer = scorer
        self._rows = max(min(scorer.capacity, LOGITS // words), 1)
        self._end = end_of_line
        self._state: State | None = None  # at the end of the last text

    def reset(self) -> None:
        """Start another text."""
        self._state = None

    def measure(self, lines: Lines) -> Measures:
        """Measure independent lines, some side by side."""
        found = Measures(np.empty(len(lines.tokens)), np.empty(len(lines.tokens)))
        order = np.argsort(-lines.sizes, kind="stable")
        for first in range(0, len(order), self._rows):
            rows = order[first : first + self._rows]
            self._measure_rows(lines.tokens, lines.starts[rows], lines.sizes[rows], None, found)
        return found

    def measure_text(self, lines: Lines) -> Measures:
        """Measure lines as one text, which continues across calls."""
        found = Measures(np.empty(len(lines.tokens)), np.empty(len(lines.tokens)))
        if len(lines.tokens):
            whole = np.array([0]), np.array([len(lines.tokens)])
            self._state = self._measure_rows(lines.tokens, *whole, self._state, found)
        return found

    def _measure_rows(
        self, tokens: np.ndarray, starts: np.ndarray, sizes: np.ndarray, state: State | None, found: Measures
    ) -> State:
        """Measure some rows of tokens, longest first. Return the states of the rows that end last."""
        words = np.full(len(starts), self._end)
        outputs: list[tuple[np.ndarray, np.ndarray]] = []  # positions of tokens, and the y that predict them
        for step in range(sizes[0]):
            active = int(np.searchsorted(-sizes, -step, side="left"))  # rows with more than `step` tokens
            state, y = self._scorer.step(state and state.select(slice(active)), words[:active])
            at = starts[:active] + step
            words = tokens[at]
            if sum(len(each) for each, _ in outputs) + active > self._rows:
                self._measure_outputs(tokens, outputs, found)
                outputs = []
            outputs.append((at, y))
        self._measure_outputs(tokens, outputs, found)
        assert state is not None
        return state

    def _measure_outputs(
        self, tokens: np.ndarray, outputs: list[tuple[np.ndarray, np.ndarray]], found: Measures
    ) -> None:
        """Measure the tokens of several steps, because logits of a few rows would take as long as those of many."""
        at, y = (np.concatenate(arrays) for arrays in zip(*outputs, strict=True))
        found.surprisal[at], found.entropy[at] = surprisal_and_entropy(self._scorer.logits(y), tokens[at])


def surprisal_and_entropy(logits: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute surprisal of words (B,) and entropy from logits (B, V): with s = logit − max and Z = Σ exp(s),
    the entropy is log Z − Σ exp(s)·s / Z."""
    s = logits - logits.max(axis=1, keepdims=True)
    target = s[np.arange(len(words)), words].astype(np.float64)
    e = np.exp(s)
    z = e.sum(axis=1, dtype=np.float64)
    s *= e
    return np.log(z) - target, np.log(z) - s.sum(axis=1, dtype=np.float64) / z
