"""Output for the user: results to stdout; progress, notes and errors to stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from neglm_cli.errors import Escapes, visible_lines
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM

JSON_ESCAPES = Escapes(
    "\n", lambda char: json.dumps(char)[1:-1]
)  # characters that JSON leaves unescaped: C1 and bidi overrides
START_OF_LINE, ERASE_TO_END = "\r", "\x1b[K"


class Console:
    """One per process; the options --quiet and --debug set its two switches."""

    def __init__(self) -> None:
        self.rank: int | None = None  # of this process, if there are several
        self.quiet = False
        self.debug = False
        self._bar_drawn = False
        self._compiled = False

    def draw_bar(self, line: str) -> None:
        """Draw a progress bar over the previous one, in the last line of the terminal."""
        print(f"{START_OF_LINE}{line}{ERASE_TO_END}", end="", file=sys.stderr, flush=True)
        self._bar_drawn = True

    def erase_bar(self) -> None:
        """Clear the last line of the terminal for other output; the progress bar is redrawn when it advances."""
        if self._bar_drawn:
            print(f"{START_OF_LINE}{ERASE_TO_END}", end="", file=sys.stderr, flush=True)
            self._bar_drawn = False

    def error(self, sentence: str) -> None:
        self.erase_bar()
        where = "" if self.rank is None else f"rank {self.rank}: "
        self._say(f"neglm: {where}{sentence}")

    def note(self, sentence: str) -> None:
        """Print a note, unless --quiet is set."""
        if not self.silent:
            self.erase_bar()
            self._say(sentence)

    def announce_standard_input(self, paths: Iterable[str]) -> None:
        """Print a note if the command waits for text from the terminal, where it would seem to hang."""
        if STANDARD_STREAM in paths and sys.stdin.isatty():
            self.note("reading standard input (Ctrl-D ends it) …")

    @property
    def silent(self) -> bool:
        """True if only errors are printed."""
        return self.quiet or bool(self.rank)

    def trace(self, text: str) -> None:
        """Print a traceback, for --debug."""
        self._say(text.rstrip("\n"))

    def _say(self, text: str) -> None:
        print(visible_lines(text), file=sys.stderr)

    def result(self, text: str) -> None:
        """Print text, at a terminal without control characters, because it may quote files."""
        self.erase_bar()
        print(visible_lines(text) if sys.stdout.isatty() else text)

    def json(self, value: Any) -> None:
        self.erase_bar()
        print(self.as_json(value))

    def json_line(self, value: Any) -> None:
        """Print one line, and flush it for the reader of a pipe."""
        self.erase_bar()
        print(self.as_json(value, indent=None), flush=True)

    def as_json(self, value: Any, indent: int | None = 2) -> str:
        ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
        return json.dumps(value, ensure_ascii=ascii_only, indent=indent).translate(JSON_ESCAPES)

    def summary(self, summary: dict[str, Any], text: str, output: str, as_json: bool) -> None:
        """Print the summary of a command that wrote `output`: to stdout, unless the output itself went there."""
        if output in STANDARD_OUTPUT:
            self.note(self.as_json(summary) if as_json else text)
        elif as_json:
            self.json(summary)
        elif not self.quiet:
            self.result(text)

    def announce_compiling(self) -> None:
        """Print a note when kernels are compiled, which takes seconds, once after an install."""
        from neglm_cli.kernels import compilers

        compilers.announce = self._compiling

    @contextmanager
    def _compiling(self, kernels: int) -> Iterator[Callable[[], None]]:
        from neglm_cli.cli.progress import Progress

        if not self._compiled:
            self._compiled = True
            self.note("compiling kernels (only at the first start after an install or an upgrade) …")
        with Progress("compiling", kernels, "") as progress:
            yield lambda: progress.advance(1)


console = Console()
