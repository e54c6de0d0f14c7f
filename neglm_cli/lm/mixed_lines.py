"""Scoring of lines with a model's additions at test time; as `lines.LineScorer`."""

from collections.abc import Sequence

import numpy as np

from neglm_cli.lm.lines import Ids, LineScorer
from neglm_cli.lm.mixing import CHUNK, MixedScorer
from neglm_cli.lm.mixture import log_mixture
from neglm_cli.lm.ngram import NgramModel


class OrderedLines:
    """Scores lines in order: a model that adapts or has a cache goes on from line to line.

    Whether its state is carried, too, is up to the model's settings.
    """

    def __init__(self, scorer: MixedScorer, end_of_line: int, normalized: bool) -> None:
        self._scorer, self._end, self._normalized = scorer, end_of_line, normalized

    def score(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        return [self._score(line) for line in lines]

    score_text = score

    def score_list(self, lines: Sequence[Ids]) -> np.ndarray:
        raise NotImplementedError("alternative lines have no order")

    def _score(self, line: Ids) -> np.ndarray:
        text = np.concatenate([[self._end], line, [self._end]]).astype(np.int32)[None]
        pieces = [slice(at, min(at + CHUNK, text.size - 1)) for at in range(0, text.size - 1, CHUNK)]
        inputs, targets = text[:, :-1], text[:, 1:]
        scores = [self._scorer.score(inputs[:, at], targets[:, at], self._normalized) for at in pieces]
        return np.concatenate([part.log_probabilities[0] for part in scores])


class InterpolatedLines:
    """Scores independent lines with a mixture of the model and an n-gram model; the model takes them in batches."""

    def __init__(self, scorer: LineScorer, ngram: NgramModel, weight: float, end_of_line: int) -> None:
        self._scorer, self._ngram, self._end = scorer, ngram, end_of_line
        self._weights = np.array([1 - weight, weight])

    def score(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        return [self._mixed(line, scores) for line, scores in zip(lines, self._scorer.score(lines), strict=True)]

    def score_text(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        return [self._mixed(line, scores) for line, scores in zip(lines, self._scorer.score_text(lines), strict=True)]

    def score_list(self, lines: Sequence[Ids]) -> np.ndarray:
        return np.array([scores.sum() for scores in self.score(lines)])

    def _mixed(self, line: Ids, scores: np.ndarray) -> np.ndarray:
        ngram = self._ngram.score(np.append(line, self._end))
        return log_mixture(self._weights, np.stack([scores, ngram]))
