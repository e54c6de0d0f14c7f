"""The directory of compiled GPU kernels, so that a second start need not compile them.

Numba checks only the file of a kernel for changes. Therefore the name of the directory depends on all files whose code
is compiled into kernels, on the GPU and on the versions of the driver and of CUDA. A directory that other users can
write to is not used: it contains code.
"""

import hashlib
import os
import stat
from pathlib import Path

from neglm_cli import __version__
from neglm_cli.kernels import cache_home

PACKAGE = Path(__file__).parents[2]
SOURCES = ("lm/cuda", "lm/scalar.py", "lm/optimizers.py", "objective", "settings")


def kernel_directory(gpu: str, given: str = "") -> Path | None:
    """Create the directory for a GPU, described with its versions; None if that fails. given: NUMBA_CACHE_DIR."""
    state = hashlib.blake2b(gpu.encode(), digest_size=6)
    for source in SOURCES:
        path = PACKAGE / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            status = file.stat()
            state.update(f"{file}:{status.st_size}:{status.st_mtime_ns}\n".encode())
    name = f"kernels-gpu-{__version__}-{state.hexdigest()}"
    try:
        directory = (Path(given) if given else cache_home()) / name
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        return directory if _is_trusted(directory) else None
    except (OSError, RuntimeError):  # no home directory, or one that cannot be written to
        return None


def _is_trusted(directory: Path) -> bool:
    """Return True if no other user can write to a directory."""
    status = directory.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
