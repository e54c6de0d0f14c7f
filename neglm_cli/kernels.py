"""How kernels are compiled, and where they are kept, so that only the first start compiles.

    @kernel    called from Python: compiled once, then loaded from the disk
    @inlined   called from kernels only, where a call would cost more than the work
    @outlined  called from kernels only, and so rarely that it would be in the way of a hot loop

A function loaded from the disk cannot be inlined into another, so only kernels are kept.
Numba looks only at the file that holds a kernel, not at those whose functions it inlines; the directory is
therefore named after the state of all files: a changed one, or an upgrade, gets kernels of its own.
"""

import hashlib
import os
import tempfile
from pathlib import Path

import numba
from numba.core import config

from neglm_cli import __version__

PACKAGE = Path(__file__).parent


def cache_home() -> Path:
    """Where caches belong on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neglm"


def _kernel_directory() -> str:
    state = hashlib.blake2b(digest_size=6)
    for path in sorted(PACKAGE.rglob("*.py")):
        status = path.stat()
        state.update(f"{path}:{status.st_size}:{status.st_mtime_ns}\n".encode())
    name = f"kernels-{__version__}-{state.hexdigest()}"
    try:
        directory = cache_home() / name
        directory.mkdir(parents=True, exist_ok=True)
        return str(directory)
    except (OSError, RuntimeError):  # no home, or none that can be written to
        return tempfile.mkdtemp(prefix=f"neglm-{name}-")


if not config.CACHE_DIR:  # type: ignore[attr-defined]
    config.CACHE_DIR = _kernel_directory()  # type: ignore[attr-defined]

kernel = numba.njit(cache=True, nogil=True)
inlined = numba.njit(nogil=True, forceinline=True)
outlined = numba.njit(nogil=True)
