"""Exact, normalized perplexity of a text, scored as one sequence."""

import math
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import Protocol

import numpy as np

from neglm_cli.lm.device import Scorer, Scores
from neglm_cli.lm.parameters import Shape

CHUNK = 4096  # words of a forward pass; more would not be faster


@dataclass
class Tally:
    """Sums over the words of a text, ends of line among them; logarithms are natural."""

    words: int = 0  # without ends of line
    lines: int = 0
    oov: int = 0  # out of the vocabulary
    log_probability: float = 0.0
    log_probability_oov: float = 0.0  # of OOV words alone
    unigram: float = 0.0  # log-probability under the counts of the vocabulary
    log_z: float = 0.0
    log_z_squares: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

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
    def unnormalized_perplexity(self) -> float:
        """Perplexity with unnormalized scores in place of log-probabilities."""
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
    log_probability: float = 0.0  # including its end


class OrderedScorer(Protocol):
    """Scores one text in order, at most `capacity` words a call: the part of `Scorer` that mixtures have, too."""

    capacity: int

    def score(self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True) -> Scores: ...


class Reader:
    """Scores a text and tallies the results. unknown: the id that replaces OOV words."""

    def __init__(self, scorer: OrderedScorer, counts: np.ndarray, unknown: int, end_of_line: int) -> None:
        self._scorer = scorer
        self._unigram = np.log(counts / counts.sum())
        self._unknown = unknown
        self._end_of_line = end_of_line
        self._last = end_of_line  # a text starts as after an end of line
        self._line = Line()
        self.tally = Tally()

    def read(self, ids: np.ndarray, take_line: Callable[[Line], None] | None = None) -> None:
        """Score the next words; OOV words have the id V."""
        for piece in self._pieces(ids):
            self._read(piece, take_line)

    def _pieces(self, ids: np.ndarray) -> Iterator[np.ndarray]:
        return (ids[first : first + self._scorer.capacity] for first in range(0, len(ids), self._scorer.capacity))

    def _shifted(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets."""
        targets = np.where(ids >= len(self._unigram), self._unknown, ids).astype(np.int32)
        inputs = np.append(np.int32(self._last), targets[:-1]).astype(np.int32)
        self._last = int(targets[-1])
        return inputs, targets

    def _read(self, ids: np.ndarray, take_line: Callable[[Line], None] | None) -> None:
        missing = ids >= len(self._unigram)
        inputs, targets = self._shifted(ids)
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


# --- one text, several ranks --------------------------------------------------------------------------------
#
# The probability of a word depends on all words before it. So each rank first reads the text up to its own segment
# without scoring, and then scores the segment. Reading is faster than scoring, above all with a large vocabulary.


class SkippingReader(Reader):
    """A reader that can also read words without scoring them."""

    def __init__(self, scorer: Scorer, counts: np.ndarray, unknown: int, end_of_line: int) -> None:
        super().__init__(scorer, counts, unknown, end_of_line)
        self._skipping = scorer

    def advance(self, ids: np.ndarray) -> None:
        """Read the next words."""
        for piece in self._pieces(ids):
            self._skipping.advance(self._shifted(piece)[0][None])


def segment_bounds(words: int, shape: Shape, parts: int) -> list[int]:
    """Divide a text into segments for ranks, so that all ranks finish at the same time; returns their bounds."""
    layers = shape.lstm_macs
    reading = layers / (layers + shape.words * (shape.hidden + 1))  # cost of reading a word, relative to scoring it
    ends = [0.0]
    for _ in range(parts):  # reading up to its segment takes part of a rank's time
        ends.append(1 + (1 - reading) * ends[-1])
    return [round(words * end / ends[-1]) for end in ends]


class Segment:
    """The segment of a text that a rank scores: words `first` to `last`, or the lines that start among them."""

    def __init__(self, reader: SkippingReader, first: int, last: int, end_of_line: int | None = None) -> None:
        """end_of_line: for whole lines."""
        self._reader = reader
        self._first, self._last = first, last
        self._end_of_line = end_of_line
        self._position = 0
        self._begun, self.ended = first == 0, last == 0

    def read(self, ids: np.ndarray, take_line: Callable[[Line], None] | None = None) -> None:
        """Read the next words of the text, from its first word on."""
        begin, self._begun = (0, True) if self._begun else self._border(ids, self._first)
        end, self.ended = (0, True) if self.ended else self._border(ids, self._last)
        self._reader.advance(ids[:begin])
        self._reader.read(ids[begin:end], take_line)
        self._position += len(ids)

    def _border(self, ids: np.ndarray, word: int) -> tuple[int, bool]:
        """Return the index of a bound in these words, and True if they reach it."""
        at = word - self._position
        if self._end_of_line is None:
            return min(at, len(ids)), at <= len(ids)
        ends = np.flatnonzero(ids == self._end_of_line) + 1
        ends = ends[ends >= at]
        return (int(ends[0]), True) if len(ends) else (len(ids), False)
