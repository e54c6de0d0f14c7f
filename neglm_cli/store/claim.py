"""A file that takes long to make has one maker: a second process is refused before it overwrites anything."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import is_place_for_file, write_error
from neglm_cli.store.replacing import close, is_at


@contextmanager
def claimed(path: str) -> Iterator[None]:
    """Keep others from making this file. The system forgets a claim when its process ends, however it ends."""
    if not is_place_for_file(path):
        yield
        return
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    try:
        descriptor = _locked(lock)
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


def _locked(lock: Path) -> int:
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError:
            if lock.is_symlink():
                raise _in_the_way(lock) from None
            raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size:  # a lock is empty: this is somebody's file
            close(descriptor)
            raise _in_the_way(lock)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            close(descriptor)
            raise
        except OSError:
            return descriptor  # a file system without locks: nobody is refused
        if is_at(descriptor, lock):
            return descriptor
        close(descriptor)  # its owner has just removed it


def _in_the_way(lock: Path) -> NeglmError:
    return NeglmError(
        f"{shown(str(lock))} is in the way: it is not a lock of neglm's; remove it, or name another output"
    )
