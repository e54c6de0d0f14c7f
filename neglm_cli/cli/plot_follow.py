"""`neglm plot --follow`: the learning curve of a running training, in the terminal."""

import os
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from neglm_cli.cli.console import console
from neglm_cli.errors import NeglmError, shown

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.text import Text

    from neglm_cli.pictures.log import By, TrainingLog

LOOK_EVERY = 0.5  # seconds
STYLES = {"title": ("bold", "bold"), "curve": ("dim", "cyan"), "axis": ("dim", "dim")}


def follow(path: str, by: "By", reports: bool) -> None:
    """Redraw when the log grows, until the training ends. If stdout is not a terminal, draw once at the end."""
    from rich.console import Console as RichConsole
    from rich.live import Live
    from rich.text import Text

    from neglm_cli.pictures.log import TrainingLog

    name = shown(path)
    terminal = RichConsole(highlight=False)
    seen: object = None
    live = Live(console=terminal, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with ExitStack() as stack:
        if not terminal.is_terminal:
            stack.callback(print)  # the end of the last line
        stack.enter_context(live)
        while True:
            now = _state(path), terminal.size
            if now != seen and now[0] is None:
                _check_directory(path, name)
                waiting = f"waiting for {name}, which does not exist yet"
                live.update(Text(waiting, style="dim"), refresh=True)
                if not terminal.is_terminal:
                    console.note(waiting)
                seen = now
            elif now != seen:
                seen = now
                log = TrainingLog.parse(_read(path, name), name)
                live.update(_drawn(log, by, reports, terminal), refresh=True)
                if log.finished:
                    return
            time.sleep(LOOK_EVERY)


def _check_directory(path: str, name: str) -> None:
    """Refuse to wait for a log that no training can write."""
    directory = os.path.dirname(path) or "."
    if not path or not os.path.isdir(directory):
        raise NeglmError(f"{name} does not exist, and there is no directory {shown(directory)} for it: check the name")


def _state(path: str) -> tuple[int, ...] | None:
    """Return values that change when the log is written or replaced; None if there is no log yet."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read(path: str, name: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise NeglmError(f"cannot read {name}: {error.strerror or error}") from error


def _drawn(log: "TrainingLog", by: "By", reports: bool, terminal: "RichConsole") -> "Text":
    from rich.text import Text

    from neglm_cli.pictures.terminal import picture

    if not log.loss(by, reports):
        return Text(f"{log.name} has no report yet: the first comes after ten seconds, or an epoch", style="dim")
    braille = "utf" in (sys.stdout.encoding or "").lower()
    rows = picture(log, by, terminal.width, terminal.height - 1, braille, reports)
    lines = [Text.assemble((row.left, STYLES[row.kind][0]), (row.right, STYLES[row.kind][1])) for row in rows]
    return Text("\n", no_wrap=True, overflow="crop").join(lines)
