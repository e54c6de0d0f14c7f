"""The log of a training, as `neglm train-lm --log` writes it, as curves."""

import json
import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from neglm_cli.errors import NeglmError

EVENTS = ("progress", "epoch", "end")
ALWAYS = ("epoch", "step", "words", "seconds")  # numbers that every line has
LARGEST = 1e300  # beyond it there is no room for an axis
START = b'{"event"'  # of a line

By = Literal["words", "time"]


class Curve(NamedTuple):
    """Finite numbers, in the order of the training."""

    x: list[float]  # words or seconds
    y: list[float]
    spread: list[float]  # the standard deviation of each; empty where there is none


def averaged(curve: Curve, most: int) -> Curve:
    """At most this many points, each the mean of some that follow each other; spreads are those of all together."""
    size = -(-len(curve.x) // most)
    if size <= 1:
        return curve
    groups = [slice(start, start + size) for start in range(0, len(curve.x), size)]
    x = [curve.x[group][-1] for group in groups]
    y = [_mean(curve.y[group]) for group in groups]
    spread = [
        math.sqrt(_mean([s * s + (value - mean) ** 2 for s, value in zip(curve.spread[g], curve.y[g], strict=True)]))
        for g, mean in zip(groups, y, strict=True)
        if curve.spread
    ]
    return Curve(x, y, spread)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


@dataclass(frozen=True)
class TrainingLog:
    """What a training has reported, every step once; seconds are those of all its runs together."""

    name: str  # of the file, for a sentence
    records: list[dict[str, Any]]

    @staticmethod
    def parse(data: bytes, name: str) -> "TrainingLog":
        """A last line that is cut is left out: the training is about to write it."""
        *lines, rest = data.split(b"\n")
        records = [_record(line, f"{name}, line {i + 1}") for i, line in enumerate(lines) if line.strip()]
        try:
            records += [_record(rest, f"{name}, line {len(lines) + 1}")] if rest.strip() else []
        except NeglmError:
            if not START.startswith(rest[: len(START)]):
                raise
        return TrainingLog(name, _joined(records))

    @property
    def finished(self) -> bool:
        return bool(self.records) and self.records[-1]["event"] == "end"

    @property
    def last(self) -> dict[str, Any]:
        """The newest value of each field."""
        found: dict[str, Any] = {}
        for record in self.records:
            found |= record
        return found

    def loss(self, by: By) -> Curve:
        """Of each report; of each epoch where reports are fewer, as in a short training."""
        progress, epochs = (self._curve(event, "loss", by) for event in ("progress", "epoch"))
        return progress if len(progress.x) >= max(2, len(epochs.x)) else epochs if epochs.x else progress

    def perplexity(self, by: By) -> Curve:
        return self._curve("epoch", "valid_perplexity", by)

    def log_z(self, by: By) -> Curve:
        return self._curve("progress", "log_z_mean", by, "log_z_std")

    def _curve(self, event: str, field: str, by: By, spread: str | None = None) -> Curve:
        x_field = "words" if by == "words" else "seconds"
        found = [
            (record[x_field], record[field], record[spread] if spread and is_number(record.get(spread)) else 0.0)
            for record in self.records
            if record["event"] == event and is_number(record.get(field))
        ]
        x, y, spreads = ([float(row[i]) for row in found] for i in range(3))
        return Curve(x, y, spreads if spread else [])


def _record(line: bytes, where: str) -> dict[str, Any]:
    """A line's object. Behind one that was cut when its training was killed, the next run's first line goes on."""
    for start in (0, max(0, line.rfind(START))):
        try:
            record = json.loads(line[start:])
        except (ValueError, RecursionError):
            continue
        if (
            isinstance(record, dict)
            and record.get("event") in EVENTS
            and all(is_number(record.get(field)) and record[field] >= 0 for field in ALWAYS)
        ):
            return record
    raise NeglmError(f"{where}: this is not the log of a training: give a file that `neglm train-lm --log` wrote")


def is_number(value: Any) -> bool:
    """Whether it is one that can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _joined(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A training that goes on adds to the file, from its last checkpoint on, and its clock starts anew.

    What it does once more replaces what was there; the time that was lost stays spent.
    """
    joined: list[dict[str, Any]] = []
    before = seconds = 0.0  # of the runs before; of this run so far
    for record in records:
        if record["seconds"] < seconds or (joined and record["step"] < joined[-1]["step"]):
            before += seconds
            joined = [old for old in joined if old["step"] < record["step"]]
        seconds = record["seconds"]
        joined.append(record | {"seconds": before + seconds})
    return joined
