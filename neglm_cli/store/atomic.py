"""Atomic replacement of files: temporary files in the directories of their targets, and the renames that commit them.

A temporary file has a random name, `.NAME.TOKEN.incomplete`, is created by this process (never opened through a link),
and is locked while its writer lives. The next writer of the same target removes unlocked ones, which killed processes
have left. On file systems without locks, nothing is removed.
"""

import fcntl
import io
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from neglm_cli.errors import NeglmError, shown

INCOMPLETE, REPLACED = "incomplete", "replaced"
TOKEN_BYTES = 8


class NamedFile(io.FileIO):
    """An unbuffered file whose write errors carry the path that the user gave."""

    def __init__(self, descriptor: int, mode: str, label: str) -> None:
        super().__init__(descriptor, mode)
        self._label = label

    def write(self, data: Any) -> int:
        with _blamed_on(self._label):
            return super().write(data)


@contextmanager
def _blamed_on(name: str) -> Iterator[None]:
    """Give errors the name that the user knows."""
    try:
        yield
    except OSError as error:
        error.filename = name
        raise


class Replacement:
    """A temporary file in the directory of its target. `commit` renames it; `close` removes it otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.target = Path(os.path.realpath(name))  # symbolic links are kept
        remove_stale(self.target.parent, INCOMPLETE, self.target.name)
        self.path, descriptor = _create_locked(self.target)
        raw = NamedFile(descriptor, "w", name)
        try:
            self.file = io.BufferedWriter(raw)
            if self.target.exists():
                os.fchmod(descriptor, stat.S_IMODE(self.target.stat().st_mode))
        except BaseException:
            with suppress(OSError):
                os.unlink(self.path)
            with suppress(OSError):
                raw.close()
            raise

    def finish(self) -> None:
        """Flush to disk."""
        self.file.flush()
        with _blamed_on(self.name):
            os.fsync(self.file.fileno())

    def rename(self) -> None:
        with _blamed_on(self.name):
            os.rename(self.path, self.target)

    def move_old(self, aside: Path) -> None:
        with _blamed_on(self.name):
            os.rename(self.target, aside)

    def close(self) -> None:
        with suppress(OSError):
            os.unlink(self.path)
        with suppress(OSError):
            self.file.close()  # after the unlink: the lock protects the file until then


def commit(replacements: Sequence[Replacement]) -> None:
    """Rename finished files to their targets, all or none."""
    if len(replacements) == 1:
        replacements[0].rename()
    else:
        _commit_all(replacements)
    for directory in {replacement.target.parent for replacement in replacements}:
        fsync_directory(directory)
    for replacement in replacements:
        remove_stale(replacement.target.parent, REPLACED, replacement.target.name)


def _commit_all(replacements: Sequence[Replacement]) -> None:
    """Move the old files aside, then rename the new ones; roll back if a rename fails.

    Several renames cannot be atomic. In this order, a process killed between two of them leaves a missing file, which
    every reader notices, but never a mix of new and old files.
    """
    aside = {
        replacement: _temporary_path(replacement.target, REPLACED)
        for replacement in replacements
        if os.path.lexists(replacement.target)
    }
    with ExitStack() as locks:
        try:
            for replacement, path in aside.items():
                _lock_shared(replacement.target, locks)
                replacement.move_old(path)
            for replacement in replacements:
                replacement.rename()
        except BaseException as error:
            _roll_back(replacements, aside, error)
            raise
        for path in aside.values():
            with suppress(OSError):
                os.unlink(path)


def _roll_back(replacements: Sequence[Replacement], aside: dict[Replacement, Path], cause: BaseException) -> None:
    """Restore the old files. The disk tells which renames were done: a signal may have come right after one."""
    left = []
    for replacement in replacements:
        old = aside.get(replacement)
        try:
            if old is None and not os.path.lexists(replacement.path):
                os.unlink(replacement.target)
            elif old is not None and os.path.lexists(old):
                os.replace(old, replacement.target)
        except OSError:
            name = shown(replacement.name)
            left.append(f"the old {name} is now {shown(str(old))}" if old else f"{name} is new, the other is missing")
    if left:
        reason = getattr(cause, "strerror", None) or cause
        name = shown(replacements[0].name)
        raise NeglmError(f"cannot write {name}: {reason}; and undoing it failed: {', '.join(left)}") from cause


def remove_stale(directory: Path, ending: str, name: str | None = None) -> None:
    """Remove the temporary files of dead writers, for one target or all in the directory."""
    target = ".+" if name is None else re.escape(name)
    pattern = re.compile(rf"\.{target}\.[0-9a-f]{{{2 * TOKEN_BYTES}}}\.{ending}", re.DOTALL)
    with suppress(OSError):
        for found in os.listdir(directory):
            if pattern.fullmatch(found):
                remove_unlocked(directory / found)


def remove_unlocked(path: Path) -> bool:
    """Remove a regular file unless a process has locked it. Return True if it was removed."""
    try:
        descriptor = _open_for_lock(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not is_same_file(descriptor, path):
            return False
        os.unlink(path)
        return True
    except OSError:
        return False
    finally:
        close(descriptor)


def _open_for_lock(path: Path) -> int:
    """Open a file to lock it: for writing if possible, which some file systems require for exclusive locks."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def is_same_file(descriptor: int, path: Path) -> bool:
    """Return True if the path still refers to the open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    return False


def close(descriptor: int) -> None:
    """Close a descriptor, ignoring errors."""
    with suppress(OSError):
        os.close(descriptor)


def fsync_directory(directory: Path) -> None:
    """Make renames durable, where the system can open directories."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            close(descriptor)


def _temporary_path(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{os.urandom(TOKEN_BYTES).hex()}.{ending}")


def _create_locked(target: Path) -> tuple[Path, int]:
    """Create and lock an empty temporary file for the target."""
    while True:
        path = _temporary_path(target, INCOMPLETE)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process considered it stale before it was locked
                close(descriptor)
                continue
        if is_same_file(descriptor, path):
            return path, descriptor
        close(descriptor)


def _lock_shared(path: Path, locks: ExitStack) -> None:
    """Lock a file before it is moved aside, so that no process considers it stale."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        locks.callback(close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
