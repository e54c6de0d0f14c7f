"""Scores of records under one or two language models, and the choice of those to keep.

perplexity   exp(−Σ log p / tokens), over words and ends of line
contrast     bits per token under the model, minus those under the other: low for text like the model's
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.lines import LineEncoder, LineScorer
from neglm_cli.text.records import Value

BAD = -1  # tokens of a line that is no record
SCORE = np.dtype([("tokens", "<i8"), ("lines", "<i8"), ("oov", "<i8"), ("log_p", "<f8"), ("other_log_p", "<f8")])


class Judge(NamedTuple):
    """A language model that scores lines."""

    encoder: LineEncoder
    scorer: LineScorer


class RecordScorer:
    """Scores texts of one or more lines under a model and, if there is one, another."""

    def __init__(self, judge: Judge, other: Judge | None, prepare: Callable[[bytes], bytes]) -> None:
        """prepare: applied to each line before it is read."""
        self._judge, self._other = judge, other
        self._prepare = prepare

    def score(self, texts: Sequence[bytes | None]) -> np.ndarray:
        """Return an array of SCORE; None is a line that is no record."""
        scores = np.zeros(len(texts), SCORE)
        split = [[b""] if text is None else _lines(text) for text in texts]
        lines = [self._prepare(line) for parts in split for line in parts]
        starts = np.cumsum([0, *(len(parts) for parts in split[:-1])])
        words, oov, scores["log_p"] = self._sums(self._judge, lines, starts)
        scores["tokens"], scores["oov"], scores["lines"] = words, oov, [len(parts) for parts in split]
        if self._other is not None:
            scores["other_log_p"] = self._sums(self._other, lines, starts)[2]
        scores["tokens"][[text is None for text in texts]] = BAD
        return scores

    @staticmethod
    def _sums(judge: Judge, lines: list[bytes], starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return words, OOV words and the log-probability of each text."""
        if not lines:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        encoded = judge.encoder.encode(lines)
        log_p = encoded.sums(judge.scorer.score_lines(encoded))
        words, oov, total = (
            np.add.reduceat(values, starts) for values in (encoded.sizes - 1, encoded.sums(encoded.oov), log_p)
        )
        return words, oov, total


def _lines(text: bytes) -> list[bytes]:
    """Split a text into lines; a newline at its end adds none."""
    return text.removesuffix(b"\n").split(b"\n")


def perplexities(scores: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(-scores["log_p"] / _counted(scores), 700))  # finite, for JSON


def contrasts(scores: np.ndarray) -> np.ndarray:
    return (scores["other_log_p"] - scores["log_p"]) / _counted(scores) / math.log(2)


def oov_shares(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores["oov"] / np.maximum(scores["tokens"], 1))


def _counted(scores: np.ndarray) -> np.ndarray:
    """Return the number of tokens with ends of line, which are predicted, too."""
    return np.maximum(scores["tokens"], 0) + scores["lines"]


def added_values(scores: np.ndarray, contrast: bool) -> list[dict[str, Value]]:
    """Return the values that are added to each record."""
    columns: dict[str, list[Value]] = {
        "perplexity": perplexities(scores).tolist(),
        "tokens": scores["tokens"].tolist(),
        "oov_share": oov_shares(scores).tolist(),
    }
    if contrast:
        columns["contrast"] = contrasts(scores).tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


# --- the choice ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keep:
    """The range of --keep: bounds are values, or percentiles of all records. Both bounds are included."""

    low: float = -math.inf
    high: float = math.inf
    percent: bool = False

    @classmethod
    def parse(cls, text: str) -> "Keep | None":
        """Parse `20%..80%`, `..50%`, `100..500` or `..300`; None if it is no range."""
        number = r"([+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)(%?)"
        match = re.fullmatch(rf"\s*(?:{number})?\s*\.\.\s*(?:{number})?\s*", text, re.ASCII)
        if not match or not (match[1] or match[3]):
            return None
        units = {unit for value, unit in ((match[1], match[2]), (match[3], match[4])) if value}
        percent = "%" in units
        low = float(match[1]) if match[1] else (0.0 if percent else -math.inf)
        high = float(match[3]) if match[3] else (100.0 if percent else math.inf)
        if len(units) > 1 or low > high or (percent and not 0 <= low <= high <= 100):
            return None
        return cls(low, high, percent)

    def choose(self, values: np.ndarray, good: np.ndarray) -> np.ndarray:
        """Return True for the records to keep. good: False for those that are left out."""
        if not good.any():
            return good
        low, high = self.low, self.high
        if self.percent:
            low, high = np.percentile(values[good], [low, high])
        return np.asarray(good & (values >= low) & (values <= high))
