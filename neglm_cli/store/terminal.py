"""Standard output for results that quote files: exact bytes in a pipe or file, no control characters on a terminal.

So do ls and git: a word in somebody's model must not recolor, retitle or overwrite the screen.
"""

import codecs
import io
import sys
from typing import Any, BinaryIO, cast

from neglm_cli.errors import visible_lines


class Terminal(io.RawIOBase):
    """Standard output that is a terminal. Text may come in pieces that are cut inside a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._print(self._decoder.decode(bytes(data)))
        return len(data)

    def flush(self) -> None:
        """Print all, even the beginning of a character: nothing follows."""
        self._print(self._decoder.decode(b"", final=True))
        sys.stdout.flush()

    def _print(self, text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"  # None beneath a progress bar of Rich's
        sys.stdout.buffer.write(visible_lines(text).encode(encoding, "backslashreplace"))


def standard_output() -> BinaryIO:
    """Where commands write words and lines from files. To be flushed."""
    return cast(BinaryIO, Terminal()) if sys.stdout.isatty() else sys.stdout.buffer
