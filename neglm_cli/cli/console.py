"""What the user sees. Results go to stdout, all else to stderr: progress, notes, errors."""

import json
import sys
from collections.abc import Iterable
from typing import Any

from neglm_cli.errors import Escapes, visible_lines
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM

JSON_ESCAPES = Escapes("\n", lambda char: json.dumps(char)[1:-1])  # for what JSON itself leaves: C1 and bidi overrides
START_OF_LINE, ERASE_TO_END = "\r", "\x1b[K"


class Console:
    """One per process; the options --quiet and --debug set its two switches."""

    def __init__(self) -> None:
        self.rank: int | None = None  # of this process, if there are several
        self.quiet = False
        self.debug = False
        self._watching_compiler = False
        self._bar_drawn = False

    def draw_bar(self, line: str) -> None:
        """Draw a progress bar over the one that stands in the terminal's last line."""
        print(f"{START_OF_LINE}{line}{ERASE_TO_END}", end="", file=sys.stderr, flush=True)
        self._bar_drawn = True

    def erase_bar(self) -> None:
        """Make the terminal's last line free for other output; a progress bar comes back when it advances."""
        if self._bar_drawn:
            print(f"{START_OF_LINE}{ERASE_TO_END}", end="", file=sys.stderr, flush=True)
            self._bar_drawn = False

    def error(self, sentence: str) -> None:
        self.erase_bar()
        where = "" if self.rank is None else f"rank {self.rank}: "
        self._say(f"neglm: {where}{sentence}")

    def note(self, sentence: str) -> None:
        """Something worth knowing that is no result."""
        if not self.silent:
            self.erase_bar()
            self._say(sentence)

    def announce_standard_input(self, paths: Iterable[str]) -> None:
        """Say so where a command waits for somebody to type a text: it would seem to hang."""
        if STANDARD_STREAM in paths and sys.stdin.isatty():
            self.note("reading standard input (Ctrl-D ends it) …")

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
        self.erase_bar()
        print(visible_lines(text) if sys.stdout.isatty() else text)

    def json(self, value: Any) -> None:
        self.erase_bar()
        print(self.as_json(value))

    def json_line(self, value: Any) -> None:
        """One line, which a reader at the other end of a pipe gets at once."""
        self.erase_bar()
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
