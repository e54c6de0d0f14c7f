"""Output files are there whole or not at all: written beside their place, fsynced, then renamed."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from neglm_cli.errors import NeglmError, shown
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


@contextmanager
def writing(path: str | os.PathLike[str], binary: bool = True) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name only when all has gone well. `-` is standard output."""
    name = os.fspath(path)
    if name in STANDARD_OUTPUT:
        if binary and sys.stdout.isatty():
            raise NeglmError(
                "refusing to write a binary file to the terminal: redirect it, or name a file with --output"
            )
        output = standard_output()
        yield output
        output.flush()
        return
    try:
        if not name or os.path.isdir(name) or name.endswith(os.sep):
            raise NeglmError(f"cannot write {shown(name)}: that is not the name of a file")
        if not is_place_for_file(name):
            with open(name, "ab") as device:  # /dev/null, a pipe, another's open file: nothing to rename
                yield device
        else:
            yield from _replacing(Path(os.path.realpath(name)))  # a symbolic link stays one
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error(name, error) from error


@contextmanager
def writing_both(path: str, other: str, binary: bool = True) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Two files that belong together: neither takes its name before both are safely on the disk."""
    with writing(other, binary) as second, writing(path, binary) as first:
        yield first, second
        for file, name in ((first, path), (second, other)):
            file.flush()
            if is_place_for_file(name):  # pipes and devices cannot be synced
                os.fsync(file.fileno())


def _replacing(target: Path) -> Iterator[BinaryIO]:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.incomplete")
    try:
        with open(temporary, "w+b") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_directory(target.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _sync_directory(directory: Path) -> None:
    """Make the renaming itself durable; not every system can open a directory."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
