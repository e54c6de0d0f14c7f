"""Pseudo-terminals of any width, and their contents."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pyte

from tests.conftest import users_environment

ROWS = 50
ERASED = b"\r"  # progress bars return to the start of the line

# A clock that advances on every read, so that bars are drawn on a machine of any speed.
CLOCK = "import itertools, time; ticks = itertools.count(); time.monotonic = lambda: next(ticks) * {tick}\n"
MAIN = "import sys; sys.argv[0] = 'neglm'; from neglm_cli.__main__ import main; main()"


class Terminal:
    """The master side, which collects output."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:  # the other side was closed
                return
            if not data:
                return
            self._written += data

    def close(self) -> None:
        os.close(self.slave)
        self._reader.join()
        os.close(self.master)

    def frames(self) -> list[list[str]]:
        """Return the nonempty lines of the screen at each moment that a user could have seen."""
        screen = pyte.Screen(self.columns, ROWS)
        stream = pyte.ByteStream(screen)
        found: list[list[str]] = []
        for part in bytes(self._written).split(ERASED):
            stream.feed(part)
            found.append([line.rstrip() for line in screen.display if line.strip()])
            stream.feed(ERASED)
        return found

    def lines_with(self, text: str) -> list[str]:
        """Return all lines with this text that were on the screen at some moment."""
        return list(dict.fromkeys(line for frame in self.frames() for line in frame if text in line))


@contextmanager
def terminal(columns: int) -> Iterator[tuple[Terminal, TextIO]]:
    """Open a terminal. Yield it with a stream to write to; all output has been read at the end of the block."""
    made = Terminal(columns)
    try:
        with open(os.dup(made.slave), "w", encoding="utf-8", buffering=1) as stream:
            yield made, stream
    finally:
        made.close()


def run_in_terminal(
    arguments: list[str], directory: Path, columns: int, stdout: int | None = None, tick: float = 0.2,
    **environment: str,
) -> Terminal:  # fmt: skip
    """Run neglm in a terminal, with stdout there or elsewhere. Each read of the clock advances it by `tick` seconds."""
    made = Terminal(columns)
    try:
        subprocess.run(
            [sys.executable, "-c", CLOCK.format(tick=tick) + MAIN, *arguments], cwd=directory, check=True, timeout=600,
            stdin=made.slave, stdout=made.slave if stdout is None else stdout,
            stderr=made.slave, env=users_environment() | {"TERM": "xterm", "PYTHONUTF8": "1"} | environment,
        )  # fmt: skip
    finally:
        made.close()
    return made
