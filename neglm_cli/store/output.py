"""Atomic output files: written to a temporary file in the same directory, fsynced, then renamed."""

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import BinaryIO

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.atomic import NamedFile, Replacement, commit
from neglm_cli.store.terminal import standard_output

STANDARD_STREAM = "-"
STANDARD_OUTPUT = (STANDARD_STREAM, "/dev/stdout", "/dev/fd/1")


def write_error(name: str, error: OSError) -> NeglmError:
    """Return the error for an output that could not be written."""
    return NeglmError(f"cannot write {shown(name)}: {error.strerror or error}; nothing was changed")


def is_regular_output(path: str) -> bool:
    """Return True if the output is a regular file, existing or new, not a device, a pipe or an open descriptor."""
    if path in STANDARD_OUTPUT or path.startswith(("/dev/fd/", "/proc/")):
        return False
    return os.path.isfile(path) or not os.path.exists(path)


def check_writable(path: str) -> None:
    """Raise early, before a long job, if its output cannot be written."""
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
    """An output that is written in place: standard output, a device, a pipe or an open descriptor."""

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
    """Open an output file, which is renamed to its path only if the block succeeds. `-` is standard output."""
    with _writing([os.fspath(path)], binary) as (file,):
        yield file


@contextmanager
def writing_both(path: str, other: str, binary: bool = True) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open two output files, which are renamed to their paths both or not at all."""
    with _writing([path, other], binary) as (first, second):
        yield first, second


@contextmanager
def writing_all(paths: Sequence[str]) -> Iterator[list[BinaryIO]]:
    """Open several output files, which are renamed to their paths all or not at all."""
    with _writing(list(paths), binary=True) as files:
        yield files


@contextmanager
def writing_folder(folder: str, names: Sequence[str]) -> Iterator[list[BinaryIO]]:
    """Open files in a folder, which are renamed to these names all or not at all. Creates missing folders; other files
    in them stay."""
    paths = [os.path.join(folder, name) for name in names]
    created: list[str] = []
    try:
        _create_folders(folder, {os.path.dirname(path) for path in paths}, created)
        with writing_all(paths) as files:
            yield files
    except BaseException:
        for path in reversed(created):
            with suppress(OSError):
                os.rmdir(path)
        raise


def _create_folders(folder: str, folders: Iterable[str], created: list[str]) -> None:
    """Create a folder, whose parent must exist, and folders inside. Append the ones that were missing to `created`."""
    for path in sorted({folder, *folders}):
        if os.path.isdir(path):
            continue
        try:
            os.mkdir(path)
        except OSError as error:
            raise write_error(path, error) from error
        created.append(path)


@contextmanager
def _writing(names: list[str], binary: bool) -> Iterator[list[BinaryIO]]:
    try:
        with ExitStack() as stack:
            outputs = [stack.enter_context(closing(_open(name, binary))) for name in names]
            yield [output.file for output in outputs]
            for output in outputs:
                output.finish()
            commit([output for output in outputs if isinstance(output, Replacement)])
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename == "standard output":  # see cli.streams
            raise
        raise write_error(error.filename if error.filename in names else names[0], error) from error


def _open(name: str, binary: bool) -> _Stream | Replacement:
    if name in STANDARD_OUTPUT:
        if binary and sys.stdout.isatty():
            raise NeglmError(
                "refusing to write a binary file to the terminal: redirect it, or name a file with --output"
            )
        return _Stream(standard_output(), owned=False)
    try:
        if not name or os.path.isdir(name) or name.endswith(os.sep):
            raise NeglmError(f"cannot write {shown(name)}: that is not the name of a file")
        if is_regular_output(name):
            return Replacement(name)
        descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        return _Stream(io.BufferedWriter(NamedFile(descriptor, "w", name)), owned=True)
    except OSError as error:
        raise write_error(name, error) from error
