"""Learning curves for terminals, drawn with Braille characters of 2 × 4 dots."""

import math
from typing import NamedTuple

from neglm_cli.pictures.log import By, TrainingLog, is_number
from neglm_cli.pictures.panels import Limits, Panel, last_of, limits, panels
from neglm_cli.pictures.scales import clock, words

BLANK = 0x2800  # the empty Braille character
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a character
MARGIN = 9  # characters for tick labels at the left
MIN_ROWS, MAX_ROWS = 4, 14  # of a panel's curve


class Row(NamedTuple):
    """A line of the terminal; its two parts may have different colors."""

    left: str
    right: str
    kind: str  # "title", "curve" or "axis"


class Canvas:
    """A bitmap of dots; the origin is at the lower left."""

    def __init__(self, columns: int, rows: int) -> None:
        self.width, self.height = 2 * columns, 4 * rows
        self._cells = [[0] * columns for _ in range(rows)]

    def dot(self, x: int, y: int) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            down = self.height - 1 - y
            self._cells[down // 4][x // 2] |= DOTS[down % 4][x % 2]

    def line(self, x: float, y: float, to_x: float, to_y: float) -> None:
        steps = max(1, math.ceil(max(abs(to_x - x), min(abs(to_y - y), 4 * self.height))))
        for i in range(steps + 1):
            self.dot(round(x + (to_x - x) * i / steps), round(y + (to_y - y) * i / steps))

    def lines(self, braille: bool) -> list[str]:
        """Return rows of characters; asterisks if the terminal has no Braille."""
        return ["".join(chr(BLANK + cell) if braille else " *"[cell > 0] for cell in row) for row in self._cells]


def picture(log: TrainingLog, by: By, columns: int, rows: int, braille: bool, reports: bool = False) -> list[Row]:
    """Draw a log in this many columns and at most this many rows."""
    drawn = [panel._replace(curves=[panel.curves[0]._replace(spread=[])]) for panel in panels([log], by, reports)]
    drawn = drawn[: max(1, (rows - 3) // (MIN_ROWS + 1))]
    height = min(MAX_ROWS, max(MIN_ROWS, (rows - 3) // len(drawn) - 1))
    width = max(10, columns - MARGIN - 1)
    last = last_of(drawn)
    found = [Row(_headline(log), "", "title")]
    for panel in drawn:
        found += _panel(panel, last, width, height, braille)
    unit = clock(last) if by == "time" else words(last)
    end = f"{last / unit.size:,.4g} {unit.name}"
    return [*found, Row(" " * MARGIN, f" 0{end:>{width - 1}}", "axis")]


def _panel(panel: Panel, last: float, width: int, height: int, braille: bool) -> list[Row]:
    canvas, scale = Canvas(width, height), limits(panel, last)
    (curve,) = panel.curves
    x = [value / (last or 1) * (canvas.width - 1) for value in curve.x]
    y = [_fraction(value, scale) * (canvas.height - 1) for value in curve.y]
    for i in range(len(x)):
        canvas.line(x[i - 1] if i else x[i], y[i - 1] if i else y[i], x[i], y[i])
    lines = canvas.lines(braille)
    bar = "│" if braille else "|"
    labels = {0: scale.high, height - 1: scale.low}
    rows = [
        Row(f"{_label(labels[i]) if i in labels else '':>{MARGIN - 1}} {bar}", line, "curve")
        for i, line in enumerate(lines)
    ]
    return [Row(" " * (MARGIN + 1) + panel.title.partition(",")[0], f"  {panel.value(curve)}", "title"), *rows]


def _fraction(value: float, scale: Limits) -> float:
    """Return the position of a value on the axis: 0 at the lower limit, 1 at the upper."""
    if scale.logarithmic:
        return math.log(max(value, 1e-300) / scale.low) / math.log(scale.high / scale.low)
    return (value - scale.low) / (scale.high - scale.low)


def _label(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _headline(log: TrainingLog) -> str:
    last = log.last
    parts = [f"{log.name}: epoch {last['epoch']:.0f}", f"{last['tokens']:,.0f} words", _duration(last["seconds"])]
    if not log.finished and is_number(last.get("words_per_second")):
        parts.append(f"{last['words_per_second']:,.0f} words/s")
    return ", ".join([*parts, *(["finished"] if log.finished else [])])


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds) // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"
