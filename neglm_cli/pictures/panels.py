"""The panels of learning curves, for files and terminals, and their axis limits."""

from collections.abc import Sequence
from typing import NamedTuple

from neglm_cli.pictures.log import By, Point, TrainingLog, averaged

LOG_SCALE_FROM = 2.0  # ratio of the largest value to the smallest
MAX_POINTS = 100  # per curve: more are hard to distinguish
MAX_BANDS = 2  # of standard deviation: more are hard to distinguish
WARMUP = 0.05  # fraction of a training whose outliers may be outside the panel


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
    """Return True if reports are drawn, not epoch means: if requested, or before the end of the second epoch."""
    return wanted or all(log.epochs < 2 for log in logs)


def panels(logs: list[TrainingLog], by: By, reports: bool = False) -> list[Panel]:
    """Return the panels of these logs, by epoch or report, without panels for which no log has values."""
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
    """Compute the limits of the y axis, with a margin; logarithmic if the range is wide.

    The start of a training is ignored, because its loss can be many times as high.
    """
    after_warmup, every = [], []
    for curve in panel.curves:
        for i, y in enumerate(curve.y):
            spread = curve.spread[i] if curve.spread else 0.0
            every += [y - spread, y + spread]
            if panel.best or curve.x[i] > WARMUP * last:
                after_warmup += [y - spread, y + spread]
    values = (after_warmup or every) + [0.0] * panel.zero
    low, high = min(values), max(values)
    if not panel.zero and low > 0 and high / low > LOG_SCALE_FROM:
        margin = (high / low) ** 0.06
        return Limits(low / margin, high * margin, True)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return Limits(low - margin, high + margin, False)
