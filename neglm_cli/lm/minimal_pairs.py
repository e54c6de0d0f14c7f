"""Minimal pairs: a grammatical sentence and one that is not; a model should find the first more likely.

Files have BLiMP's JSONL (`sentence_good`, `sentence_bad`, and optionally `UID`, the paradigm, and `linguistics_term`,
its phenomenon), or lines of good TAB bad.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError, short
from neglm_cli.lm.lines import LineEncoder, LineScorer
from neglm_cli.text.source import Source, open_source

BATCH_PAIRS = 256
EXPECTED = 'a JSON object with "sentence_good" and "sentence_bad", or a good sentence, a tab and a bad one'
SHOWN = 60  # characters of a JSON error


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


def read_pairs(path: str) -> Iterator[MinimalPair]:
    """Read a file of minimal pairs. Empty lines are skipped."""
    source = open_source(path)
    name = os.path.basename(path).split(".")[0] if source.size >= 0 else source.name
    number = 0
    empty = True
    for lines in source.lines():
        for line in lines:
            number += 1
            if line.strip():
                empty = False
                yield _pair(line, name, source, number)
    if empty:
        raise NeglmError(f"{source.name} has no minimal pairs: expected lines with {EXPECTED}")


def _pair(line: bytes, name: str, source: Source, number: int) -> MinimalPair:
    if line.lstrip().startswith(b"{"):
        return _json_pair(line, name, source, number)
    fields = line.rstrip(b"\r").split(b"\t")
    if len(fields) != 2 or not all(field.strip() for field in fields):
        raise _unreadable(source, number, f"it has {len(fields)} of 2 columns" if len(fields) != 2 else "one is empty")
    return MinimalPair(fields[0], fields[1], name, name)


def _json_pair(line: bytes, name: str, source: Source, number: int) -> MinimalPair:
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _unreadable(source, number, short(str(error), SHOWN)) from None
    good, bad = found.get("sentence_good"), found.get("sentence_bad")
    if not isinstance(good, str) or not isinstance(bad, str):
        raise _unreadable(source, number, "a sentence is missing")
    paradigm = str(found.get("UID", name))
    return MinimalPair(
        _one_line(good), _one_line(bad), paradigm, str(found.get("linguistics_term", paradigm))
    )  # fmt: skip


def _one_line(sentence: str) -> bytes:
    return sentence.replace("\n", " ").encode(errors="replace")


def _unreadable(source: Source, number: int, reason: str) -> NeglmError:
    return NeglmError(f"line {number:,} of {source.name} is no minimal pair ({reason}): expected {EXPECTED}")


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
