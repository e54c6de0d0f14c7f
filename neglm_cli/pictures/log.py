"""Learning curves from a training log, as written by `neglm train-lm --log`."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

from neglm_cli.errors import NeglmError

EVENTS = ("progress", "epoch", "end")
ALWAYS = ("epoch", "step", "tokens", "seconds")  # fields of every line
FORMERLY = {"words": "tokens", "loss_words": "loss_tokens"}  # fields of logs of old versions
LARGEST = 1e300  # an axis cannot show more
START = b'{"event"'  # of a line
MIN_PART_OF_EPOCH = 0.1  # means over a smaller fraction are omitted

By = Literal["words", "time"]


class Point(NamedTuple):
    """A value of one line of the log, or the mean of several."""

    epoch: float
    x: float  # words or seconds
    y: float
    tokens: float  # covered by it: its weight in a mean
    spread: float | None = None  # standard deviation


def averaged(points: Sequence[Point], most: int) -> Sequence[Point]:
    """Average adjacent points, to at most `most` points."""
    size = -(-len(points) // most)
    if size <= 1:
        return points
    return [_mean(points[start : start + size]) for start in range(0, len(points), size)]


def _mean(points: Sequence[Point]) -> Point:
    """Return the mean weighted by tokens, at the last of the points; standard deviations are pooled."""
    weights = [point.tokens for point in points] if any(point.tokens for point in points) else [1.0] * len(points)
    total = sum(weights)
    mean = sum(weight * point.y for weight, point in zip(weights, points, strict=True)) / total
    last, spread = points[-1], None
    if last.spread is not None:
        squares = [(point.spread or 0.0) ** 2 + (point.y - mean) ** 2 for point in points]
        spread = math.sqrt(sum(weight * square for weight, square in zip(weights, squares, strict=True)) / total)
    return Point(last.epoch, last.x, mean, sum(point.tokens for point in points), spread)


@dataclass(frozen=True)
class TrainingLog:
    """The reports of a training run, each step once; seconds include all resumed runs."""

    name: str  # of the file, for messages
    records: list[dict[str, Any]]

    @staticmethod
    def parse(data: bytes, name: str) -> "TrainingLog":
        """Parse a log. An incomplete last line is ignored: it is still being written."""
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
        """The latest value of each field."""
        found: dict[str, Any] = {}
        for record in self.records:
            found |= record
        return found

    @property
    def epochs(self) -> int:
        """The number of completed epochs."""
        return sum(record["event"] == "epoch" for record in self.records)

    def loss(self, by: By, each_report: bool) -> list[Point]:
        """Return each report, if there are at least two; else the mean of each epoch, including the current one so
        far."""
        reports = self._points("progress", "loss", by)
        if each_report and len(reports) > 1:
            return reports
        ended = {point.epoch: point for point in self._points("epoch", "loss", by)}
        found = {point.epoch: point for point in self._epoch_means(reports, by)} | ended
        return sorted(found.values(), key=lambda point: point.epoch)

    def perplexity(self, by: By) -> list[Point]:
        return self._points("epoch", "valid_perplexity", by)

    def log_z(self, by: By, each_report: bool) -> list[Point]:
        reports = self._points("progress", "log_z_mean", by, "log_z_std")
        return reports if each_report else self._epoch_means(reports, by)

    def _epoch_means(self, reports: list[Point], by: By) -> list[Point]:
        """Return the mean of the reports of each epoch, unless they cover only a small part of it."""
        ends = {point.epoch: point for point in self._points("epoch", "loss", by)}
        means = [_mean(list(group)) for _, group in groupby(reports, key=lambda point: point.epoch)]
        longest = max((point.tokens for point in [*means, *ends.values()]), default=0.0)
        return [
            mean._replace(x=ends.get(mean.epoch, mean).x)
            for mean in means
            if mean.tokens >= MIN_PART_OF_EPOCH * longest
        ]

    def _points(self, event: str, field: str, by: By, spread: str | None = None) -> list[Point]:
        x_field = "tokens" if by == "words" else "seconds"
        found, before = [], 0.0
        for record in self.records:
            if record["event"] == event and is_number(record.get(field)):
                deviation = None if spread is None else float(record[spread]) if is_number(record.get(spread)) else 0.0
                covered = _tokens_of(record, before)
                found.append(Point(record["epoch"], float(record[x_field]), float(record[field]), covered, deviation))
            if record["event"] in (event, "epoch"):
                before = record["tokens"]
        return found


def _tokens_of(record: dict[str, Any], before: float) -> float:
    """Return the number of tokens that a line covers; in logs of old versions, all since the previous line."""
    covered: Any = record.get("loss_tokens")
    return float(covered if is_number(covered) and covered >= 0 else max(0, record["tokens"] - before))


def _record(line: bytes, where: str) -> dict[str, Any]:
    """Parse a line. If a killed run left it incomplete, it also contains the next run's first line."""
    for start in (0, max(0, line.rfind(START))):
        try:
            record = json.loads(line[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            record = {FORMERLY.get(name, name): value for name, value in record.items()}
        if (
            isinstance(record, dict)
            and record.get("event") in EVENTS
            and all(is_number(record.get(field)) and record[field] >= 0 for field in ALWAYS)
        ):
            return record
    raise NeglmError(f"{where}: this is not a training log; name a file written by `neglm train-lm --log`")


def is_number(value: Any) -> bool:
    """Return True for a finite number that can be plotted."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _joined(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the runs of a resumed training. Each run appends to the log from its last checkpoint, with a new clock.

    If a step appears twice, the later line wins; the time of both is counted.
    """
    joined: list[dict[str, Any]] = []
    before = seconds = 0.0  # of earlier runs; of this run so far
    for record in records:
        if record["seconds"] < seconds or (joined and record["step"] < joined[-1]["step"]):
            before += seconds
            joined = [old for old in joined if old["step"] < record["step"]]
        seconds = record["seconds"]
        joined.append(record | {"seconds": before + seconds})
    return joined
