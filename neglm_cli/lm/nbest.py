"""N-best lists: alternative texts with the same id, optionally with scores, in the formats of three kinds of tools.

tab     id TAB text, or id TAB score TAB text
kaldi   id-number text, or id-number score text: all hypotheses of a list have scores, or none has
moses   id ||| text ||| features ||| score
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from neglm_cli.errors import NeglmError

MOSES = b" ||| "
KALDI_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
DIGITS = re.compile(rb"\d+")  # a score only if others of its list are: it may be a number in a text, `1999 was`


@dataclass(frozen=True)
class Hypothesis:
    id: bytes
    text: bytes
    score: float | None  # None if the list has none
    fields: tuple[bytes, ...]  # of the line, unchanged; of kaldi, those before the text
    line: int = 0  # its number, from 1 on


def _number(field: bytes) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _read_tab(line: bytes) -> Hypothesis | None:
    fields = line.split(b"\t")
    if len(fields) == 2:
        return Hypothesis(fields[0], fields[1], None, tuple(fields))
    if len(fields) == 3 and (score := _number(fields[1])) is not None:
        return Hypothesis(fields[0], fields[2], score, tuple(fields))
    return None


def _read_kaldi(line: bytes) -> Hypothesis | None:
    key, *after = line.split(maxsplit=1)[:2] or [b""]
    match = re.fullmatch(rb"(.+)-\d+", key)
    return Hypothesis(match[1], b"".join(after).rstrip(), None, (key,)) if match else None


def _with_scores(hypotheses: list[Hypothesis], name: str) -> list[Hypothesis]:
    """Separate scores from texts, if the list has scores."""
    firsts = [hypothesis.text.partition(b" ")[0] for hypothesis in hypotheses]
    numbers = [KALDI_NUMBER.fullmatch(first) is not None for first in firsts]
    if all(DIGITS.fullmatch(first) for first, number in zip(firsts, numbers, strict=True) if number):
        return hypotheses
    if not all(numbers):
        line = hypotheses[numbers.index(False)].line
        raise NeglmError(f"line {line:,} of {name} has no score, but others of its list have: all need one, or none")
    return [_with_score(hypothesis) for hypothesis in hypotheses]


def _with_score(hypothesis: Hypothesis) -> Hypothesis:
    first, _, text = hypothesis.text.partition(b" ")
    return replace(hypothesis, text=text.lstrip(), score=float(first), fields=(*hypothesis.fields, first))


def _read_moses(line: bytes) -> Hypothesis | None:
    fields = line.split(MOSES)
    score = _number(fields[-1]) if len(fields) > 2 else None
    if len(fields) < 2 or (len(fields) > 2 and score is None):
        return None
    return Hypothesis(fields[0], fields[1], score, tuple(fields))


def _write_tab(hypothesis: Hypothesis, total: float) -> bytes:
    return b"%b\t%.6f\t%b" % (hypothesis.id, total, hypothesis.text)


def _write_kaldi(hypothesis: Hypothesis, total: float) -> bytes:
    return b" ".join([*hypothesis.fields, hypothesis.text])


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
            yield replace(hypothesis, line=number)

    for _, group in groupby(hypotheses(), lambda hypothesis: hypothesis.id):
        found = list(group)
        if form == "kaldi":
            found = _with_scores(found, name)
        for hypothesis in found:
            if hypothesis.score is not None and not math.isfinite(hypothesis.score):
                raise NeglmError(
                    f"line {hypothesis.line:,} of {name} has the score {hypothesis.score}: it must be finite"
                )
        yield found


def write(hypothesis: Hypothesis, total: float, form: str) -> bytes:
    return FORMS[form][1](hypothesis, total)
