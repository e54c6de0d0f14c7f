"""How well a model predicts a text: perplexity, exact and normalised, read as one text from the first word on."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neglm_cli.lm.device import Scorer

AT_ONCE = 256  # words that go through the network together


@dataclass
class Tally:
    """Sums over the words of a text, ends of line among them; logarithms are natural."""

    words: int = 0  # without ends of line
    lines: int = 0
    oov: int = 0  # out of the vocabulary
    log_probability: float = 0.0
    log_probability_oov: float = 0.0  # the part of the words that are out of the vocabulary
    unigram: float = 0.0  # log-probability under the counts of the vocabulary
    log_z: float = 0.0
    log_z_squares: float = 0.0

    @property
    def tokens(self) -> int:
        return self.words + self.lines

    @property
    def perplexity(self) -> float:
        return _perplexity(self.log_probability, self.tokens)

    @property
    def perplexity_without_oov(self) -> float:
        return _perplexity(self.log_probability - self.log_probability_oov, self.tokens - self.oov)

    @property
    def unnormalised_perplexity(self) -> float:
        """With scores taken for log-probabilities as they are."""
        return _perplexity(self.log_probability + self.log_z, self.tokens)

    @property
    def unigram_perplexity(self) -> float:
        return _perplexity(self.unigram, self.tokens)

    @property
    def log_z_mean(self) -> float:
        return self.log_z / max(self.tokens, 1)

    @property
    def log_z_std(self) -> float:
        return math.sqrt(max(self.log_z_squares / max(self.tokens, 1) - self.log_z_mean**2, 0.0))


def _perplexity(log_probability: float, tokens: int) -> float:
    if not tokens:
        return math.nan
    try:
        return math.exp(-log_probability / tokens)
    except OverflowError:
        return math.inf


@dataclass
class Line:
    """One line of a text."""

    words: int = 0
    oov: int = 0
    log_probability: float = 0.0  # with that of its end


class Reader:
    """Reads a text with a model. `unknown` is the id that words out of the vocabulary are read as."""

    def __init__(self, scorer: Scorer, counts: np.ndarray, unknown: int, end_of_line: int) -> None:
        self._scorer = scorer
        self._unigram = np.log(counts / counts.sum())
        self._unknown = unknown
        self._end_of_line = end_of_line
        self._last = end_of_line  # the text begins as behind the end of a line
        self._line = Line()
        self.tally = Tally()

    def read(self, ids: np.ndarray, take_line: Callable[[Line], None] | None = None) -> None:
        """Read on; the vocabulary's size stands for a word that is out of it."""
        for first in range(0, len(ids), AT_ONCE):
            self._read(ids[first : first + AT_ONCE], take_line)

    def _read(self, ids: np.ndarray, take_line: Callable[[Line], None] | None) -> None:
        missing = ids >= len(self._unigram)
        targets = np.where(missing, self._unknown, ids).astype(np.int32)
        inputs = np.append(np.int32(self._last), targets[:-1]).astype(np.int32)
        self._last = int(targets[-1])
        scores = self._scorer.score(inputs[None], targets[None])
        log_probabilities, log_z = scores.log_probabilities[0], scores.log_z[0]
        ends = ids == self._end_of_line
        tally = self.tally
        tally.lines += int(ends.sum())
        tally.words += int((~ends).sum())
        tally.oov += int(missing.sum())
        tally.log_probability += float(log_probabilities.sum())
        tally.log_probability_oov += float(log_probabilities[missing].sum())
        tally.unigram += float(self._unigram[targets].sum())
        tally.log_z += float(log_z.sum())
        tally.log_z_squares += float((log_z**2).sum())
        if take_line is not None:
            for end, missed, value in zip(ends.tolist(), missing.tolist(), log_probabilities.tolist(), strict=True):
                line = self._line
                line.words += not end
                line.oov += missed
                line.log_probability += value
                if end:
                    take_line(line)
                    self._line = Line()
