"""Exclusive locks on outputs of long jobs: a second process fails before it overwrites anything."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.atomic import close, is_same_file
from neglm_cli.store.output import is_regular_output, write_error


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Hold an exclusive lock on an output file. The system releases it when the process ends, even if it is killed."""
    if not is_regular_output(path):
        yield
        return
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    try:
        descriptor = _open_locked(lock)
    except BlockingIOError as error:
        raise NeglmError(
            f"{shown(path)} is being made by another process: wait for its end, or name another file"
        ) from error
    except OSError as error:
        raise write_error(path, error) from error
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        close(descriptor)


def _open_locked(lock: Path) -> int:
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError:
            if lock.is_symlink():
                raise _obstacle_error(lock) from None
            raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size:  # locks are empty: this is another file
            close(descriptor)
            raise _obstacle_error(lock)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            close(descriptor)
            raise
        except OSError:
            return descriptor  # a file system without locks
        if is_same_file(descriptor, lock):
            return descriptor
        close(descriptor)  # its owner has just removed it; try again


def _obstacle_error(lock: Path) -> NeglmError:
    return NeglmError(
        f"{shown(str(lock))} is in the way: it is not a lock of neglm's; remove it, or name another output"
    )
