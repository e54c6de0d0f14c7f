"""Progress on stderr: a bar at a terminal, otherwise a line every ten seconds."""

import os
import stat
import sys
import time
from collections.abc import Iterable
from types import TracebackType

from neglm_cli.cli.console import console
from neglm_cli.store.output import STANDARD_STREAM

FIRST_DRAWING = 0.5  # seconds before the bar appears
DRAW_EVERY = 0.1  # seconds between two drawings of a bar
REPORT_EVERY = 10.0  # seconds between lines if stderr is not a terminal
BAR, SHORT_BAR = 20, 10  # cells
NARROW = 80  # columns; narrower terminals get the short bar
TIME_WIDTH = len("23 h 59 min to go")


class Progress:
    """Progress through a known or unknown number of bytes or words."""

    def __init__(self, what: str, total: int | None, unit: str = "MB", done: int = 0) -> None:
        self._what = what
        self._total = total
        self._unit = unit  # a million bytes, words, ...; a thousand if it begins with K; "" for no amounts
        self._before = done  # done by the run that this one resumes
        self._done = done
        self._detail = ""
        self._terminal = _can_draw()
        self._start = time.monotonic()
        self._next = self._start + (FIRST_DRAWING if self._terminal else REPORT_EVERY)

    def __enter__(self) -> "Progress":
        return self

    def advance(self, amount: int, detail: str = "") -> None:
        self._done += amount
        self._detail = detail or self._detail
        now = time.monotonic()
        if console.silent or now < self._next:
            return
        if self._terminal:
            self._next = now + DRAW_EVERY
            self._draw()
        else:
            self._next = now + REPORT_EVERY
            console.note(self._line())

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        console.erase_bar()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """Per second, since the start."""
        return (self._done - self._before) / max(self.seconds, 1e-9)

    def _draw(self) -> None:
        width = _columns()
        line = self._bar(BAR if width >= NARROW else SHORT_BAR) + self._what
        for detail in filter(None, (*self._detail.split(", "), *reversed(self._amounts()))):
            if len(line) + len(f", {detail}") > width - 1:  # the last column would wrap
                break
            line += f", {detail}"
        console.draw_bar(_plain(line)[: width - 1])

    def _bar(self, cells: int) -> str:
        """Return percentage, time left and bar; nothing if the total is unknown."""
        if not self._total:
            return ""
        filled = min(cells, cells * self._done // self._total)
        return f"{self._percent():>4}  {self._time_left():<{TIME_WIDTH}}  {'█' * filled}{'░' * (cells - filled)}  "

    def _line(self) -> str:
        details = ", ".join(filter(None, (*self._amounts(), self._detail)))
        parts = [f"{self._what}: {details}" if details else self._what]
        return ", ".join(parts + ([self._percent(), self._time_left()] if self._total else []))

    def _percent(self) -> str:
        assert self._total
        return f"{min(100, 100 * self._done // self._total)}%"

    def _time_left(self) -> str:
        assert self._total
        if self._done <= self._before:
            return "? to go"
        return duration(max(0, self._total - self._done) / max(self.rate, 1e-9)) + " to go"

    def _amounts(self) -> list[str]:
        return [amount(self._done, self._unit), amount(self.rate, self._unit) + "/s"] if self._unit else []


def amount(value: float, unit: str) -> str:
    """Format an amount in a unit of a million, or of a thousand if it begins with K."""
    if unit == "MB":
        return f"{value / 1e6:,.0f} MB" if value >= 1e6 else f"{value / 1e3:,.0f} KB"
    return f"{value / (1e3 if unit.startswith('K') else 1e6):,.1f} {unit}"


def duration(seconds: float) -> str:
    """Format a time in its two largest units: 44 s, 4 min 5 s, 1 h 16 min, 2 d 3 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24:,} d {hours % 24} h"


def bytes_to_read(paths: Iterable[str]) -> int | None:
    """Return the total size of the files; None if one is a pipe. Standard input may be a file."""
    total = 0
    for path in paths:
        try:
            status = os.fstat(0) if path == STANDARD_STREAM else os.stat(path)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total


def _can_draw() -> bool:
    """Return True if stderr is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb").lower() not in ("dumb", "unknown", "")


def _columns() -> int:
    """Return the current width of the terminal."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or NARROW
    except (OSError, ValueError):
        return NARROW


def _plain(line: str) -> str:
    """Replace characters that the terminal's encoding lacks."""
    if "utf" in (sys.stderr.encoding or "").lower():
        return line
    return line.replace("█", "#").replace("░", "-").replace("±", "+-")
