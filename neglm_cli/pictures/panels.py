"""The panels of learning curves, on paper or in a terminal, and their limits."""

from collections.abc import Sequence
from typing import NamedTuple

from neglm_cli.pictures.log import By, Point, TrainingLog, averaged

LOG_SCALE_FROM = 2.0  # ratio of the largest value to the smallest
MAX_POINTS = 100  # of a curve: more are hard to tell apart
MAX_BANDS = 2  # likewise
BEGINNING = 0.05  # of a training: outliers there may be outside of the panel


class Curve(NamedTuple):
    """Finite values, in the order of training."""

    x: list[float]  # words or seconds
    y: list[float]
    spread: list[float]  # standard deviations, or empty

    @staticmethod
    def of(points: Sequence[Point]) -> "Curve":
        spread = [point.spread for point in points if point.spread is not None]
        return Curve([point.x for point in points], [point.y for point in points], spread)


class Panel(NamedTuple):
    title: str
    curves: list[Curve]  # one per run, empty ones too
    best: bool = False  # True if the lowest point matters
    zero: bool = False  # True if the panel includes zero

    def value(self, curve: Curve) -> str:
        """Return the value in the label of a non-empty curve: its best or its last."""
        value = min(curve.y) if self.best else curve.y[-1]
        digits = 2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0
        return ("best " if self.best else "") + f"{value:,.{digits}f}".replace("-", "−")


class Limits(NamedTuple):
    low: float
    high: float
    logarithmic: bool


def draws_each_report(logs: list[TrainingLog], wanted: bool) -> bool:
    """Return True if reports are drawn, not epoch means: if wanted, or before the second epoch has ended."""
    return wanted or all(log.epochs < 2 for log in logs)


def panels(logs: list[TrainingLog], by: By, reports: bool = False) -> list[Panel]:
    """Return the panels of these logs, by epochs or reports, without those for which no log has values."""
    each_report = draws_each_report(logs, reports)

    def line(points: list[Point]) -> Curve:
        return Curve.of(averaged(points, MAX_POINTS) if each_report else points)

    log_z = [line(log.log_z(by, each_report)) for log in logs]
    bands = len(logs) <= MAX_BANDS
    found = [
        Panel(
            "Training loss, nats per word" + ("" if each_report else ", epoch means"),
            [line(log.loss(by, each_report)) for log in logs],
        ),
        Panel("Validation perplexity", [Curve.of(log.perplexity(by)) for log in logs], best=True),
        Panel("log Z, mean ± standard deviation", log_z, zero=True)
        if bands
        else Panel("log Z, mean", [curve._replace(spread=[]) for curve in log_z], zero=True),
    ]
    return [panel for panel in found if any(curve.x for curve in panel.curves)]


def last_of(drawn: list[Panel]) -> float:
    """Return the end of the longest training."""
    return max(curve.x[-1] for panel in drawn for curve in panel.curves if curve.x)


def limits(panel: Panel, last: float) -> Limits:
    """Limits of the y axis, with a margin; logarithmic if the range is wide.

    The beginning of a training is ignored, because its loss can be many times as high.
    """
    settled, every = [], []
    for curve in panel.curves:
        for i, y in enumerate(curve.y):
            spread = curve.spread[i] if curve.spread else 0.0
            every += [y - spread, y + spread]
            if panel.best or curve.x[i] > BEGINNING * last:
                settled += [y - spread, y + spread]
    values = (settled or every) + [0.0] * panel.zero
    low, high = min(values), max(values)
    if not panel.zero and low > 0 and high / low > LOG_SCALE_FROM:
        margin = (high / low) ** 0.06
        return Limits(low / margin, high * margin, True)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return Limits(low - margin, high + margin, False)
