"""Minimal pairs: a grammatical sentence and one that is not; a model should find the first more likely.

Files have BLiMP's JSONL (`sentence_good`, `sentence_bad`, and optionally `UID`, the paradigm, and `linguistics_term`,
its phenomenon), or lines of good TAB bad.
"""

import json
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.lines import LineEncoder, LineScorer
from neglm_cli.text.records import BadRecordError, Format, json_reason, read_records
from neglm_cli.text.source import open_source

BATCH_PAIRS = 256
EXPECTED = 'a JSON object with "sentence_good" and "sentence_bad", or a good sentence, a tab and a bad one'


class MinimalPair(NamedTuple):
    good: bytes
    bad: bytes
    paradigm: str
    phenomenon: str


@dataclass
class PairTally:
    """Counts of pairs. A tie is not correct."""

    pairs: int = 0
    correct: int = 0
    ties: int = 0
    oov: int = 0  # pairs with out-of-vocabulary words
    correct_oov: int = 0  # of these

    def add(self, correct: bool, tie: bool, oov: bool) -> None:
        self.pairs += 1
        self.correct += correct
        self.ties += tie
        self.oov += oov
        self.correct_oov += correct and oov

    def __add__(self, other: "PairTally") -> "PairTally":
        return PairTally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.pairs if self.pairs else None

    @property
    def accuracy_without_oov(self) -> float | None:
        known = self.pairs - self.oov
        return (self.correct - self.correct_oov) / known if known else None


class PairFile:
    """A file of minimal pairs."""

    def __init__(self, path: str, skip_bad: bool = False, name: str | None = None) -> None:
        """skip_bad: count lines that are no pair, instead of raising an error; name: of pairs that name no paradigm,
        by default the file's."""
        self._source = open_source(path)
        self._name = name or (base_name(path) if self._source.size >= 0 else self._source.name)
        self._skip_bad = skip_bad
        self.bad = 0  # lines skipped so far

    def read(self) -> Iterator[MinimalPair]:
        """Yield its pairs. Empty lines are ignored."""
        found = 0
        for line, number, offset in read_records(self._source, Format()):
            try:
                if line.strip():
                    yield _pair(line.removeprefix(BOM_UTF8) if number == 1 else line, self._name)
                    found += 1
            except BadRecordError as reason:
                if not self._skip_bad:
                    raise NeglmError(
                        f"line {number:,} of {self._source.name}, at byte {offset:,}, is no minimal pair ({reason}): "
                        f"expected {EXPECTED}; correct it, or skip such lines with --skip-bad"
                    ) from None
                self.bad += 1
        if not found:
            raise NeglmError(f"{self._source.name} has no minimal pairs: expected lines with {EXPECTED}")


def base_name(path: str) -> str:
    return os.path.basename(path).split(".")[0]


def _pair(line: bytes, name: str) -> MinimalPair:
    if line.lstrip().startswith(b"{"):
        return _json_pair(line, name)
    fields = line.rstrip(b"\r").split(b"\t")
    if len(fields) != 2:
        raise BadRecordError(f"it has {len(fields)} of 2 columns")
    if not all(field.strip() for field in fields):
        raise BadRecordError("one is empty")
    return MinimalPair(fields[0], fields[1], name, name)


def _json_pair(line: bytes, name: str) -> MinimalPair:
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRecordError(json_reason(error)) from None
    good, bad = found.get("sentence_good"), found.get("sentence_bad")
    if not isinstance(good, str) or not isinstance(bad, str):
        raise BadRecordError("a sentence is missing")
    if not good.strip() or not bad.strip():
        raise BadRecordError("one is empty")
    paradigm = str(found.get("UID") or name)
    return MinimalPair(_one_line(good), _one_line(bad), paradigm, str(found.get("linguistics_term") or paradigm))


def _one_line(sentence: str) -> bytes:
    return sentence.replace("\n", " ").encode(errors="replace")


def judge_pairs(
    pairs: Iterable[MinimalPair], encoder: LineEncoder, scorer: LineScorer, prepare: Callable[[bytes], bytes]
) -> Iterator[tuple[MinimalPair, bool, bool, bool]]:
    """Yield each pair, and True if the model is correct, if it is a tie, and if there are OOV words.

    prepare: applied to each sentence before it is read.
    """
    waiting = iter(pairs)
    while batch := list(islice(waiting, BATCH_PAIRS)):
        lines = encoder.encode([prepare(sentence) for pair in batch for sentence in pair[:2]])
        ids = [tokens[:-1] for tokens in lines.split(lines.tokens)]
        scores = scorer.score_list(ids)
        oov = lines.sums(lines.oov) > 0
        for i, pair in enumerate(batch):
            good, bad = 2 * i, 2 * i + 1
            tie = np.array_equal(ids[good], ids[bad]) or scores[good] == scores[bad]
            yield pair, not tie and bool(scores[good] > scores[bad]), bool(tie), bool(oov[good] or oov[bad])
