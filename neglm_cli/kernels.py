"""Compilation of kernels, and their cache on disk.

    @kernel    called from Python; compiled once, then loaded from disk
    @inlined   called from kernels only; a call would cost more than the work
    @outlined  called from kernels only, and too rarely to be inlined into a hot loop
    @unchecked like @outlined, without checks for division by zero, which keep LLVM from vectorizing a loop
    @summed    like @outlined, for sums whose terms may be reordered, so that LLVM vectorizes them

Functions loaded from disk cannot be inlined, so only kernels are cached. Numba checks only the file of a kernel for
changes, not the files of functions inlined into it. Therefore the name of the cache directory depends on the state of
all files that may contain kernels. A directory that other users can write to is not used: it contains code.
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
WITHOUT_KERNELS = ("api", "cli", "interop", "runs")  # packages
MAX_AGE = 60 * 86_400  # seconds since the last use
MIN_FREE = 4 << 20  # bytes for compiled kernels


def cache_home() -> Path:
    """Return the directory of neglm's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neglm"


def _kernel_directory(given: str = "") -> str:
    """Return the directory of this version's kernels, in the one that NUMBA_CACHE_DIR gives or in the user's cache."""
    state = hashlib.blake2b(digest_size=6)
    without = {path for package in WITHOUT_KERNELS for path in (PACKAGE / package).rglob("*.py")}
    for path in sorted(set(PACKAGE.rglob("*.py")) - without):
        status = path.stat()
        state.update(f"{path}:{status.st_size}:{status.st_mtime_ns}\n".encode())
    name = f"kernels-{__version__}-{state.hexdigest()}"
    if given:
        with suppress(OSError):  # Numba reports it
            os.makedirs(os.path.join(given, name), exist_ok=True)
        return os.path.join(given, name)
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
            probe.write_bytes(bytes(MIN_FREE))
            probe.unlink(missing_ok=True)  # another process may do the same
        return str(directory)
    except (OSError, RuntimeError):  # no home directory, or a full disk
        return _temporary_directory()


def _is_trusted(directory: Path) -> bool:
    """Return True if no other user can write to a directory."""
    status, parent = directory.stat(), directory.parent.stat()
    writable = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return status.st_uid == os.geteuid() and not writable and parent.st_uid in (os.geteuid(), 0)


def _temporary_directory() -> str:
    """Create a directory for this run only: the next run compiles again."""
    directory = tempfile.mkdtemp(prefix="neglm-kernels-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _remove_unused(home: Path) -> None:
    """Remove the kernels of versions that were not used for a while."""
    for directory in home.glob("kernels-*"):
        with suppress(FileNotFoundError):  # another process may do the same
            if time.time() - directory.stat().st_atime > MAX_AGE:
                shutil.rmtree(directory, ignore_errors=True)


config.CACHE_DIR = _kernel_directory(config.CACHE_DIR)  # type: ignore[attr-defined]


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _compiled_once(decorate: Callable[[Any], Any]) -> Decorator:
    """Compile a function for the types of its arguments, not for their values.

    Numba would compile another copy for every constant (0, False, PANEL) that a caller passes.
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
