"""A file that takes long to make has one maker: a second process is refused before it overwrites anything."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import is_place_for_file, write_error


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
        os.close(descriptor)


def _locked(lock: Path) -> int:
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise
        except OSError:
            return descriptor  # a file system without locks: nobody is refused
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(lock), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)  # who had it has just removed it
