"""Output compression, chosen by file extension."""

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_LEVEL = 6  # as gzip(1); Python's default, 9, is half as fast and hardly smaller
ENDINGS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0),  # no name, no time: reproducible bytes
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".zst": partial(zstd.ZstdFile, mode="wb"),
}


@contextmanager
def compressing(file: BinaryIO, path: str) -> Iterator[BinaryIO]:
    """Wrap an output file with the compression of its extension, if it has one."""
    compressed = next((opener for ending, opener in ENDINGS.items() if path.endswith(ending)), None)
    if compressed is None:
        yield file
        return
    with compressed(file) as wrapped:
        yield wrapped
