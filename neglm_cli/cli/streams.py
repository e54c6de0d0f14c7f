"""Preparation of the standard streams."""

import io
import os
import sys
from typing import Any


class _StandardOutput(io.FileIO):
    """Standard output, named in its errors."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


def prepare_streams() -> None:
    """Open closed streams, and let output encode any bytes: words need not be UTF-8."""
    _open_missing()
    given: Any = sys.stdout
    raw = _StandardOutput(given.fileno(), "w", closefd=False)
    buffer: Any = raw if given.write_through else io.BufferedWriter(raw)
    sys.stdout = io.TextIOWrapper(
        buffer, given.encoding, "backslashreplace", line_buffering=given.line_buffering,
        write_through=given.write_through,
    )  # fmt: skip
    sys.stderr.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _open_missing() -> None:
    """Open streams that were closed (`neglm … >&-`) as /dev/null, so that no file gets their descriptors."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", closefd=False))
