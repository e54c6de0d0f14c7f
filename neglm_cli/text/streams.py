"""Byte streams of corpus files: opened unbuffered, counted, hashed and decompressed."""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from neglm_cli.store.output import STANDARD_STREAM
from neglm_cli.text.compression import compression_of
from neglm_cli.text.fingerprint import BlockDigests

NEWLINE = ord("\n")
MAGIC_SIZE = 10
DECODER_BUFFER = 1 << 18  # bytes

Advance = Callable[[int], None]  # progress callback, called with the number of bytes read since the last call


def no_progress(count: int) -> None:
    """Ignore progress."""


def open_raw(path: str) -> BinaryIO:
    """Open a file or standard input unbuffered: a thread blocked in a read must not hold a lock that the interpreter
    needs to exit."""
    if path == STANDARD_STREAM:
        return open(0, "rb", buffering=0, closefd=False)
    return open(path, "rb", buffering=0)


class RawReader(io.RawIOBase):
    """A raw file that counts and hashes the bytes read, and lets the caller peek at the first ones.

    It does not read past end-of-file: at a terminal the user would have to type Ctrl-D again."""

    def __init__(self, file: BinaryIO, advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self._eof = False
        self.count = 0
        self.digests = BlockDigests()
        self.magic = _first_bytes(file)
        self._peeked = self.magic

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._peeked:
            length = min(len(view), len(self._peeked))
            view[:length] = self._peeked[:length]
            self._peeked = self._peeked[length:]
        elif self._eof:
            return 0
        else:
            length = cast(io.RawIOBase, self._file).readinto(view) or 0
            self._eof = not length and bool(view)
        self.count += length
        self._advance(length)
        self.digests.update(view[:length])
        return length


def _first_bytes(file: BinaryIO) -> bytes:
    """Read enough to recognize a compression, but not past the first line: its writer may be waiting for an answer."""
    start = b""
    while len(start) < MAGIC_SIZE and NEWLINE not in start:
        data = file.read(MAGIC_SIZE - len(start))
        if not data:
            break
        start += data
    return start


def decompressing(raw: RawReader) -> tuple[str, BinaryIO]:
    """Return the name of a file's compression (`plain` without one), and a stream of its decompressed bytes."""
    found = compression_of(raw.magic)
    if found is None:
        return "plain", cast(BinaryIO, raw)
    return found.name, found.open(io.BufferedReader(raw, DECODER_BUFFER))


def read_all(file: Any, buffer: memoryview) -> int:
    """Fill the buffer, with as many reads as it takes. Return the number of bytes, fewer only at end-of-file."""
    length = 0
    while length < len(buffer):
        count = file.readinto(buffer[length:])
        if not count:
            break
        length += count
    return length
