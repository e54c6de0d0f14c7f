"""A Python program as the host of runs: a callback for reports, notes in a logger, Ctrl-C."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from neglm_cli.runs.host import Report
from neglm_cli.runs.interrupts import Interrupted, defer_keyboard_interrupt

Progress = Callable[[Report], None]

REPORT_EVERY = 1.0  # seconds, while a text is read
BYTES = "MB"  # the unit of trackers that count bytes

logger = logging.getLogger("neglm_cli")


class PythonHost:
    """progress: called with each report. If it raises, the run stops, writes a checkpoint, and raises the same."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self._stop: Callable[[], None] | None = None
        self._error: BaseException | None = None

    def note(self, sentence: str) -> None:
        logger.info(sentence)

    @contextmanager
    def track(self, what: str, total: int | None, unit: str = BYTES, done: int = 0) -> Iterator["_Tracker"]:
        yield _Tracker(what, total or 0, self.report if unit == BYTES else None)

    def report(self, report: Report) -> None:
        if self._progress is None or self._error is not None:
            return
        try:
            self._progress(report)
        except BaseException as error:
            if self._stop is None:  # not training
                raise
            self._error = error
            self._stop()

    @contextmanager
    def defer_signals(self, stop: Callable[[], None]) -> Iterator[list[int]]:
        self._stop = stop
        with defer_keyboard_interrupt(stop) as received:
            try:
                yield received
            except Interrupted:
                if self._error is None:
                    raise
        if self._error is not None:
            raise self._error


class _Tracker:
    """Reports how much of a text was read."""

    def __init__(self, what: str, total: int, report: Progress | None) -> None:
        self._what = what
        self._total = total
        self._report = report
        self._done = 0
        self._started = self._last = time.monotonic()

    def advance(self, amount: int, detail: str = "") -> None:
        self._done += amount
        now = time.monotonic()
        if self._report is not None and now - self._last > REPORT_EVERY:
            self._last, seconds = now, now - self._started
            self._report(Report(self._what, self._done, self._total, "bytes", seconds, self._done / seconds))
