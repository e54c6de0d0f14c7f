"""What the user sees. Results go to stdout, all else to stderr: progress, notes, errors."""

import json
import sys
import time
from types import TracebackType
from typing import Any

from neglm_cli.errors import Escapes, visible_lines
from neglm_cli.store.output import STANDARD_OUTPUT

FIRST_DRAWING = 0.5  # seconds: what is over sooner needs no progress bar
REPORT_EVERY = 10.0  # seconds between progress lines where stderr is no terminal
JSON_ESCAPES = Escapes("\n", lambda char: json.dumps(char)[1:-1])  # for what JSON itself leaves: C1 and bidi overrides


class Console:
    """One per process; the options --quiet and --debug set its two switches."""

    def __init__(self) -> None:
        self.rank: int | None = None  # of this process, if there are several
        self.quiet = False
        self.debug = False
        self._watching_compiler = False

    def error(self, sentence: str) -> None:
        where = "" if self.rank is None else f"rank {self.rank}: "
        self._say(f"neglm: {where}{sentence}")

    def note(self, sentence: str) -> None:
        """Something worth knowing that is no result."""
        if not self.silent:
            self._say(sentence)

    @property
    def silent(self) -> bool:
        """Whether only errors are to be seen."""
        return self.quiet or bool(self.rank)

    def trace(self, text: str) -> None:
        """Where an error comes from, for --debug."""
        self._say(text.rstrip("\n"))

    def _say(self, text: str) -> None:
        print(visible_lines(text), file=sys.stderr)

    def result(self, text: str) -> None:
        """Lines for people. They may quote files: a terminal gets no control characters."""
        print(visible_lines(text) if sys.stdout.isatty() else text)

    def json(self, value: Any) -> None:
        print(self.as_json(value))

    def json_line(self, value: Any) -> None:
        """One line, which a reader at the other end of a pipe gets at once."""
        print(self.as_json(value, indent=None), flush=True)

    def as_json(self, value: Any, indent: int | None = 2) -> str:
        ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
        return json.dumps(value, ensure_ascii=ascii_only, indent=indent).translate(JSON_ESCAPES)

    def summary(self, summary: dict[str, Any], text: str, output: str, as_json: bool) -> None:
        """What a command that wrote `output` says of it: a result, unless the output itself went there."""
        if output in STANDARD_OUTPUT:
            self.note(self.as_json(summary) if as_json else text)
        elif as_json:
            self.json(summary)
        elif not self.quiet:
            self.result(text)

    def announce_compiling(self) -> None:
        """Say so if Numba compiles: it happens once after an install, and takes seconds."""
        from numba.core import event

        outer = self

        class Watcher(event.Listener):
            told = False

            def on_start(self, event: Any) -> None:
                if not self.told:
                    Watcher.told = True
                    outer.note("compiling kernels (only at the first start after an install or an upgrade) …")

            def on_end(self, event: Any) -> None:
                pass

        if not self._watching_compiler:
            self._watching_compiler = True
            event.register("numba:compile", Watcher())


console = Console()


class Progress:
    """Progress through a known or unknown number of bytes or words: a bar on a terminal, else a line now and then."""

    def __init__(self, what: str, total: int | None, unit: str = "MB", done: int = 0) -> None:
        self._what = what
        self._total = total
        self._unit = unit  # a million bytes, words, ...; a thousand if it begins with K
        self._before = done  # what lay behind already at the start
        self._done = done
        self._detail = ""
        self._start = time.monotonic()
        self._next = self._start + (FIRST_DRAWING if sys.stderr.isatty() else REPORT_EVERY)
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Progress":
        return self

    def advance(self, amount: int, detail: str = "") -> None:
        self._done += amount
        self._detail = detail or self._detail
        now = time.monotonic()
        if console.silent or now < self._next:
            return
        if sys.stderr.isatty():
            self._draw()
        else:
            self._next = now + REPORT_EVERY
            console.note(self._line())

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """Per second, since the start."""
        return (self._done - self._before) / max(self.seconds, 1e-9)

    def _draw(self) -> None:
        if self._bar is None:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = RichProgress(*columns, console=RichConsole(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        self._bar.update(self._task, completed=self._done, description=self._so_far())

    def _line(self) -> str:
        if not self._total:
            return self._so_far()
        left = (self._total - self._done) / max(self.rate, 1e-9)
        return f"{self._so_far()}, {self._done / self._total:.0%}, {left:,.0f} s to go"

    def _so_far(self) -> str:
        digits = 0 if self._unit == "MB" else 1
        scale = 1e3 if self._unit.startswith("K") else 1e6
        done, rate = (f"{value / scale:,.{digits}f} {self._unit}" for value in (self._done, self.rate))
        return f"{self._what}: {done}, {rate}/s" + (f", {self._detail}" if self._detail else "")
