"""Compressed files: recognized by magic bytes, decompressed as streams in bounded memory.

A file declares the memory its decoder needs, as a window (zstd) or dictionary (xz) of up to 4 GB. The limit is
that of the zstd command, 128 MB; xz -9 has 64 MB, bzip2 and gzip less than 1 MB.
"""

import bz2
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WINDOW_LOG = 27
WINDOW = 1 << WINDOW_LOG  # bytes
XZ_MAGIC = b"\xfd7zXZ\x00"
XZ_OVERHEAD = 1 << 20  # bytes liblzma needs beyond its dictionary, at most
XZ_INPUT = 1 << 13  # bytes per read; unused ones are copied at the end of each stream
BROKEN = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstd.ZstdError)


class Compression(NamedTuple):
    name: str
    magic: "re.Pattern[bytes]"
    open: Callable[[Any], Any]


class XzReader(io.RawIOBase):
    """An xz reader like `lzma.open`, with a memory limit. Ignores bytes after the last stream."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = _xz_decoder()
        self._eof = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = b""
        while not data and not self._eof:
            data = self._next_stream(len(view)) if self._decoder.eof else self._more(len(view))
        view[: len(data)] = data
        return len(data)

    def _more(self, size: int) -> bytes:
        given = self._file.read(XZ_INPUT) if self._decoder.needs_input else b""
        if not given and self._decoder.needs_input:
            raise EOFError
        return self._decoder.decompress(given, size)

    def _next_stream(self, size: int) -> bytes:
        given = self._decoder.unused_data.lstrip(b"\0")  # stream padding
        while len(given) < len(XZ_MAGIC) and (read := self._file.read(XZ_INPUT)):
            given = (given + read).lstrip(b"\0")
        self._decoder = _xz_decoder()
        self._eof = not given.startswith(XZ_MAGIC)
        return b"" if self._eof else self._decoder.decompress(given, size)


def _xz_decoder() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, WINDOW + XZ_OVERHEAD)


def _open_zstd(file: BinaryIO) -> Any:
    return zstd.open(file, options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG})


COMPRESSIONS = (
    Compression("gzip", re.compile(rb"\x1f\x8b\x08"), gzip.open),
    Compression("bzip2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.open),
    Compression("xz", re.compile(XZ_MAGIC), XzReader),
    Compression("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), _open_zstd),
)


def compression_of(start: bytes) -> Compression | None:
    """Return the compression of a file that starts with these bytes."""
    return next((compression for compression in COMPRESSIONS if compression.magic.match(start)), None)


def exceeds_memory_limit(error: Exception) -> bool:
    """Return True if the decoder failed because of the memory limit."""
    return isinstance(error, (lzma.LZMAError, zstd.ZstdError)) and "memory" in str(error).lower()
