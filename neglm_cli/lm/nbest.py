"""N-best lists: alternative texts with the same id, optionally with scores, in the formats of three kinds of tools.

tab     id TAB text, or id TAB score TAB text
kaldi   id-number text, or id-number score text: a score has a decimal point
moses   id ||| text ||| features ||| score
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from neglm_cli.errors import NeglmError

MOSES = b" ||| "
KALDI_SCORE = re.compile(rb"[+-]?\d*\.\d+([eE][+-]?\d+)?")  # unlike a number in a text, `in 1999`


@dataclass(frozen=True)
class Hypothesis:
    id: bytes
    text: bytes
    score: float  # 0 if the list has none
    fields: tuple[bytes, ...]  # of the line, unchanged


def _number(field: bytes) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _read_tab(line: bytes) -> Hypothesis | None:
    fields = line.split(b"\t")
    if len(fields) == 2:
        return Hypothesis(fields[0], fields[1], 0.0, tuple(fields))
    if len(fields) == 3 and (score := _number(fields[1])) is not None:
        return Hypothesis(fields[0], fields[2], score, tuple(fields))
    return None


def _read_kaldi(line: bytes) -> Hypothesis | None:
    key, _, text = line.strip().partition(b" ")
    match = re.fullmatch(rb"(.+)-\d+", key)
    if not match:
        return None
    first, _, rest = text.partition(b" ")
    if KALDI_SCORE.fullmatch(first):
        return Hypothesis(match[1], rest, float(first), (key, first, rest))
    return Hypothesis(match[1], text, 0.0, (key, text))


def _read_moses(line: bytes) -> Hypothesis | None:
    fields = line.split(MOSES)
    score = _number(fields[-1]) if len(fields) > 2 else 0.0
    if len(fields) < 2 or score is None:
        return None
    return Hypothesis(fields[0], fields[1], score, tuple(fields))


def _write_tab(hypothesis: Hypothesis, total: float) -> bytes:
    return b"%b\t%.6f\t%b" % (hypothesis.id, total, hypothesis.text)


def _write_kaldi(hypothesis: Hypothesis, total: float) -> bytes:
    return b" ".join(hypothesis.fields)


def _write_moses(hypothesis: Hypothesis, total: float) -> bytes:
    fields = hypothesis.fields
    kept = fields[:-1] if len(fields) > 2 else fields
    return MOSES.join([*kept, b"%.6f" % total])


FORMS: dict[str, tuple[Callable[[bytes], Hypothesis | None], Callable[[Hypothesis, float], bytes], str]] = {
    "tab": (_read_tab, _write_tab, "id TAB text, or id TAB score TAB text"),
    "kaldi": (_read_kaldi, _write_kaldi, "id-number text, or id-number score text"),
    "moses": (_read_moses, _write_moses, "id ||| text ||| features ||| score"),
}


def read_lists(lines: Iterable[bytes], form: str, name: str) -> Iterator[list[Hypothesis]]:
    """Read lists of consecutive hypotheses with the same id."""
    read, _, shape = FORMS[form]

    def hypotheses() -> Iterator[Hypothesis]:
        for number, line in enumerate(lines, 1):
            hypothesis = read(line)
            if hypothesis is None:
                raise NeglmError(f"line {number:,} of {name} is no n-best line: it should be {shape}")
            if not math.isfinite(hypothesis.score):
                raise NeglmError(f"line {number:,} of {name} has the score {hypothesis.score}: it must be finite")
            yield hypothesis

    return (list(group) for _, group in groupby(hypotheses(), lambda hypothesis: hypothesis.id))


def write(hypothesis: Hypothesis, total: float, form: str) -> bytes:
    return FORMS[form][1](hypothesis, total)
