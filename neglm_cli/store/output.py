"""Output files are there whole or not at all: written beside their place, fsynced, then renamed."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import BinaryIO

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.replacing import NamedFile, Replacement, place
from neglm_cli.store.terminal import standard_output

STANDARD_STREAM = "-"
STANDARD_OUTPUT = (STANDARD_STREAM, "/dev/stdout", "/dev/fd/1")


def write_error(name: str, error: OSError) -> NeglmError:
    """The sentence for an output that could not be written."""
    return NeglmError(f"cannot write {shown(name)}: {error.strerror or error}; nothing was changed")


def is_place_for_file(path: str) -> bool:
    """Whether a file can take this name; not so a device, a pipe, or another's open file: these are written to."""
    if path in STANDARD_OUTPUT or path.startswith(("/dev/fd/", "/proc/")):
        return False
    return os.path.isfile(path) or not os.path.exists(path)


def check_writable(path: str) -> None:
    """Say before a long work what could only go wrong at its end."""
    if path in STANDARD_OUTPUT:
        return
    directory = os.path.dirname(os.path.realpath(path))
    if not path or os.path.isdir(path) or path.endswith(os.sep):
        raise NeglmError(f"cannot write {shown(path)}: that is not the name of a file")
    if not os.path.isdir(directory):
        raise write_error(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if not os.access(directory, os.W_OK):
        raise write_error(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


class _Stream:
    """Standard output, a device, a pipe or another program's open file: written to, with nothing to rename."""

    def __init__(self, file: BinaryIO, owned: bool) -> None:
        self.file = file
        self._owned = owned

    def finish(self) -> None:
        self.file.flush()

    def close(self) -> None:
        if self._owned:
            with suppress(OSError):
                self.file.close()


@contextmanager
def writing(path: str | os.PathLike[str], binary: bool = True) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name only when all has gone well. `-` is standard output."""
    with _writing([os.fspath(path)], binary) as (file,):
        yield file


@contextmanager
def writing_both(path: str, other: str, binary: bool = True) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Two files that belong together: both take their names, or neither."""
    with _writing([path, other], binary) as (first, second):
        yield first, second


@contextmanager
def _writing(names: list[str], binary: bool) -> Iterator[list[BinaryIO]]:
    try:
        with ExitStack() as stack:
            outputs = [stack.enter_context(closing(_opened(name, binary))) for name in names]
            yield [output.file for output in outputs]
            for output in outputs:
                output.finish()
            place([output for output in outputs if isinstance(output, Replacement)])
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename == "standard output":  # see cli.streams
            raise
        raise write_error(error.filename if error.filename in names else names[0], error) from error


def _opened(name: str, binary: bool) -> _Stream | Replacement:
    if name in STANDARD_OUTPUT:
        if binary and sys.stdout.isatty():
            raise NeglmError(
                "refusing to write a binary file to the terminal: redirect it, or name a file with --output"
            )
        return _Stream(standard_output(), owned=False)
    try:
        if not name or os.path.isdir(name) or name.endswith(os.sep):
            raise NeglmError(f"cannot write {shown(name)}: that is not the name of a file")
        if is_place_for_file(name):
            return Replacement(name)
        descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        return _Stream(io.BufferedWriter(NamedFile(descriptor, "w", name)), owned=True)
    except OSError as error:
        raise write_error(name, error) from error
