"""Standard output for text from files: exact bytes to a pipe or file, but no control characters to a terminal.

As in ls and git: a word in an untrusted model must not recolor, retitle or overwrite the screen.
"""

import codecs
import io
import sys
from typing import Any, BinaryIO, cast

from neglm_cli.errors import visible_lines


class Terminal(io.RawIOBase):
    """Standard output on a terminal. Writes may end inside a multi-byte character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._print(self._decoder.decode(bytes(data)))
        return len(data)

    def flush(self) -> None:
        """Print everything, even an incomplete character."""
        self._print(self._decoder.decode(b"", final=True))
        sys.stdout.flush()

    def _print(self, text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"  # None under a Rich progress bar
        sys.stdout.buffer.write(visible_lines(text).encode(encoding, "backslashreplace"))


def standard_output() -> BinaryIO:
    """Return the stream for words and lines from files. The caller must flush it."""
    return cast(BinaryIO, Terminal()) if sys.stdout.isatty() else sys.stdout.buffer
