"""How kernels are compiled, and where they are kept, so that only the first start compiles.

    @kernel    called from Python: compiled once, then loaded from the disk
    @inlined   called from kernels only, where a call would cost more than the work
    @outlined  called from kernels only, and so rarely that it would be in the way of a hot loop
    @unchecked the same without checks for division by zero, which keep LLVM from vectorizing a loop
    @summed    the same for sums, whose terms may be added in another order: LLVM makes vectors of these only

A function loaded from the disk cannot be inlined into another, so only kernels are kept.
Numba looks only at the file that holds a kernel, not at those whose functions it inlines; the directory is
therefore named after the state of all files that may hold kernels: a changed one, or an upgrade, gets its own.
A directory that others can write to is not used, because what is loaded from it is code.
"""

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import config

from neglm_cli import __version__

PACKAGE = Path(__file__).parent
UNUSED = 60 * 86_400  # seconds
ROOM = 4 << 20  # bytes that compiled kernels may take


def cache_home() -> Path:
    """Where caches belong on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neglm"


def _kernel_directory() -> str:
    state = hashlib.blake2b(digest_size=6)
    for path in sorted(set(PACKAGE.rglob("*.py")) - set((PACKAGE / "cli").iterdir())):
        status = path.stat()
        state.update(f"{path}:{status.st_size}:{status.st_mtime_ns}\n".encode())
    name = f"kernels-{__version__}-{state.hexdigest()}"
    try:
        directory = cache_home() / name
        if not directory.exists():
            directory.parent.parent.mkdir(parents=True, exist_ok=True)
            directory.parent.mkdir(mode=0o700, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
            _remove_unused(directory.parent)
        if not _is_trusted(directory):
            return _temporary_directory()
        if not any(directory.iterdir()):
            probe = directory / "probe"
            probe.write_bytes(bytes(ROOM))
            probe.unlink(missing_ok=True)  # another process may try at the same time
        return str(directory)
    except (OSError, RuntimeError):  # no home, or none with room in it
        return _temporary_directory()


def _is_trusted(directory: Path) -> bool:
    """True if nobody else can write to a directory: what is loaded from it is code."""
    status, parent = directory.stat(), directory.parent.stat()
    writable = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return status.st_uid == os.geteuid() and not writable and parent.st_uid in (os.geteuid(), 0)


def _temporary_directory() -> str:
    """A place for this run only: kernels are compiled at every start."""
    directory = tempfile.mkdtemp(prefix="neglm-kernels-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _remove_unused(home: Path) -> None:
    """Kernels of versions that have not been started for a while."""
    for directory in home.glob("kernels-*"):
        with suppress(FileNotFoundError):  # another process removes them, too
            if time.time() - directory.stat().st_atime > UNUSED:
                shutil.rmtree(directory, ignore_errors=True)


if not config.CACHE_DIR:  # type: ignore[attr-defined]
    config.CACHE_DIR = _kernel_directory()  # type: ignore[attr-defined]


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _compiled_once(decorate: Callable[[Any], Any]) -> Decorator:
    """Compile a function for the types of its arguments, not for their values.

    Numba would make another copy for every constant (0, False, PANEL) that a caller passes.
    """

    def decorator(function: Any) -> Any:
        dispatcher = decorate(function)
        template = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template(
            tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()}
        )
        return dispatcher

    return decorator


kernel: Decorator = _compiled_once(numba.njit(cache=True, nogil=True))
inlined: Decorator = numba.njit(nogil=True, forceinline=True)
outlined: Decorator = _compiled_once(numba.njit(nogil=True))
unchecked: Decorator = _compiled_once(numba.njit(nogil=True, error_model="numpy"))
summed: Decorator = _compiled_once(numba.njit(nogil=True, fastmath={"reassoc", "nsz", "contract"}))
