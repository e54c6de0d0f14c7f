"""New files under temporary names beside their targets, and the renames that put them in place.

A temporary file has a random name, `.NAME.TOKEN.incomplete`, is created by this process (never opened through a link),
and is locked while its writer lives. So the next writer of the same target knows what a killed one has left, and
removes it. Where the file system has no locks, nothing is removed.
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
    """An unbuffered file whose write errors carry the name that the user gave the output."""

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
    """A new file beside its target. `place` renames it; `close` removes it if it has not been renamed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.target = Path(os.path.realpath(name))  # a symbolic link stays one
        remove_abandoned(self.target.parent, INCOMPLETE, self.target.name)
        self.path, descriptor = _created(self.target)
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
        """Write everything to the disk."""
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
            self.file.close()  # after the unlink: until then the lock keeps others from removing the file


def place(replacements: Sequence[Replacement]) -> None:
    """Rename finished files to their targets: all of them, or none."""
    if len(replacements) == 1:
        replacements[0].rename()
    else:
        _place_together(replacements)
    for directory in {replacement.target.parent for replacement in replacements}:
        sync_directory(directory)
    for replacement in replacements:
        remove_abandoned(replacement.target.parent, REPLACED, replacement.target.name)


def _place_together(replacements: Sequence[Replacement]) -> None:
    """Move the old files aside, then rename the new ones; if a rename fails, undo those before it.

    Several renames cannot be atomic. In this order a process that is killed between two of them leaves a name without
    a file, which every reader notices, but never a new file beside an old one.
    """
    aside = {
        replacement: _beside(replacement.target, REPLACED)
        for replacement in replacements
        if os.path.lexists(replacement.target)
    }
    with ExitStack() as locks:
        try:
            for replacement, path in aside.items():
                _hold(replacement.target, locks)
                replacement.move_old(path)
            for replacement in replacements:
                replacement.rename()
        except BaseException as error:
            _undo(replacements, aside, error)
            raise
        for path in aside.values():
            with suppress(OSError):
                os.unlink(path)


def _undo(replacements: Sequence[Replacement], aside: dict[Replacement, Path], cause: BaseException) -> None:
    """Put the old files back. What was done is read from the disk: a signal may have come right after a rename."""
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


def remove_abandoned(directory: Path, ending: str, name: str | None = None) -> None:
    """Remove the temporary files of writers that are gone: those of one target, or all in the directory."""
    target = ".+" if name is None else re.escape(name)
    pattern = re.compile(rf"\.{target}\.[0-9a-f]{{{2 * TOKEN_BYTES}}}\.{ending}", re.DOTALL)
    with suppress(OSError):
        for found in os.listdir(directory):
            if pattern.fullmatch(found):
                remove_unlocked(directory / found)


def remove_unlocked(path: Path) -> bool:
    """Remove a regular file that no process has locked. Returns whether it was removed."""
    try:
        descriptor = _opened_for_lock(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not is_at(descriptor, path):
            return False
        os.unlink(path)
        return True
    except OSError:
        return False
    finally:
        close(descriptor)


def _opened_for_lock(path: Path) -> int:
    """Some file systems lock exclusively only what is open for writing; a read-only file is not."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one of this name."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    return False


def close(descriptor: int) -> None:
    """Close a file that nothing depends on any more."""
    with suppress(OSError):
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make renames durable; not every system can open a directory."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            close(descriptor)


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{os.urandom(TOKEN_BYTES).hex()}.{ending}")


def _created(target: Path) -> tuple[Path, int]:
    """A new, locked, empty file beside the target."""
    while True:
        path = _beside(target, INCOMPLETE)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process took it for abandoned before it was locked
                close(descriptor)
                continue
        if is_at(descriptor, path):
            return path, descriptor
        close(descriptor)


def _hold(path: Path, locks: ExitStack) -> None:
    """Lock a file that is to be moved aside, so that nobody takes it for abandoned."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        locks.callback(close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
