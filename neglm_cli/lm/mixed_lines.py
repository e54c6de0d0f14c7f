"""Scoring of lines with a model's additions at test time; as `lines.LineScorer`."""

from collections.abc import Sequence

import numpy as np

from neglm_cli.lm.lines import Ids, Lines, LineScorer
from neglm_cli.lm.mixing import CHUNK, MixedScorer
from neglm_cli.lm.mixture import log_mixture
from neglm_cli.lm.ngram import NgramModel


class OrderedLines:
    """Scores lines in order: what a model learns or caches in one is there for the next.

    Whether its state is carried, too, is up to the model's settings. Alternative lines, as in n-best lists, have no
    order: there is no `score_list`.
    """

    def __init__(self, scorer: MixedScorer, normalized: bool) -> None:
        self._scorer, self._normalized = scorer, normalized

    def score_lines(self, lines: Lines) -> np.ndarray:
        """Score each token, float64 (M,)."""
        inputs, targets = lines.inputs[None], lines.tokens[None]
        pieces = [slice(at, at + CHUNK) for at in range(0, targets.size, CHUNK)]
        scores = [self._scorer.score(inputs[:, at], targets[:, at], self._normalized) for at in pieces]
        return np.concatenate([part.log_probabilities[0] for part in scores] or [np.empty(0)])

    score_text = score_lines


class InterpolatedLines:
    """Scores independent lines with a mixture of the model and an n-gram model; the model takes them in batches."""

    def __init__(self, scorer: LineScorer, ngram: NgramModel, weight: float, end_of_line: int) -> None:
        self._scorer, self._ngram, self._end = scorer, ngram, end_of_line
        self._weights = np.array([1 - weight, weight])

    def score_lines(self, lines: Lines) -> np.ndarray:
        """Score each token, float64 (M,)."""
        return self._mixed(lines, self._scorer.score_lines(lines))

    def score_text(self, lines: Lines) -> np.ndarray:
        """Score each token of lines that the model reads as one text; the n-gram model reads them apart."""
        return self._mixed(lines, self._scorer.score_text(lines))

    def score_list(self, lines: Sequence[Ids]) -> np.ndarray:
        """Score whole lines, with their ends: float64 (lines,)."""
        joined = Lines.of(lines, self._end)
        return joined.sums(self.score_lines(joined))

    def _mixed(self, lines: Lines, scores: np.ndarray) -> np.ndarray:
        return log_mixture(self._weights, np.stack([scores, self._ngram.score(lines.tokens)]))
