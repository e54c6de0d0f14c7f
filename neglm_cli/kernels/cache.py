"""The cache of object code on disk: a directory for each state of the sources, of the compiler and of the CPU.

A file has the object code of one kernel for one signature. Functions of many files are inlined into a kernel, and so
the name of the directory depends on the state of all files that may contain some. A directory that other users can
write to is not used: it contains code. Without a directory, every run compiles its kernels.
"""

import os
import re
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from neglm_cli import __version__

PACKAGE = Path(__file__).parent.parent
WITHOUT_KERNELS = ("api", "cli", "interop", "runs", "completions", "__pycache__")  # directories
COMPILERS = ("numba", "llvmlite")
MAX_AGE = 60 * 86_400  # seconds since the last use
SUFFIX = ".kernel"
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
OURS = re.compile(r"kernels-(gpu-)?\d[\w.]*-[0-9a-f]{12,16}")  # names of directories


def cache_home() -> Path:
    """Return the directory of neglm's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neglm"


def read(kernel: str, signature: str) -> bytes | None:
    """Return the object code of a kernel for a signature, or None if there is none, or it is damaged."""
    try:
        found = (Path(kernel_directory() or os.devnull) / _file_name(kernel, signature)).read_bytes()
    except OSError:
        return None
    contents = _verified(found)
    return contents[2] if contents and contents[:2] == (kernel, signature) else None


def has(kernel: str, signature: str) -> bool:
    """Return True if there is object code of a kernel for a signature."""
    return (Path(kernel_directory() or os.devnull) / _file_name(kernel, signature)).exists()


def write(kernel: str, signature: str, compiled: bytes) -> None:
    """Store object code, if that is possible."""
    from xxhash import xxh3_128_digest

    directory = kernel_directory()
    if directory is None:
        return
    contents = b"\n".join((kernel.encode(), signature.encode(), compiled))
    path = Path(directory) / _file_name(kernel, signature)
    temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        temporary.write_bytes(xxh3_128_digest(contents) + contents)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()


def compiled() -> Iterator[tuple[str, str, bytes]]:
    """Return kernels, signatures and object code of all files."""
    for path in sorted(Path(kernel_directory() or os.devnull).glob(f"*{SUFFIX}")):
        with suppress(OSError):
            contents = _verified(path.read_bytes())
            if contents:
                yield contents


def _verified(found: bytes) -> tuple[str, str, bytes] | None:
    """Return a kernel, its signature and its object code; None if the checksum does not agree."""
    from xxhash import xxh3_128_digest

    if found[:16] != xxh3_128_digest(found[16:]):
        return None
    kernel, signature, code = found[16:].split(b"\n", 2)
    return kernel.decode(), signature.decode(), code


def _file_name(kernel: str, signature: str) -> str:
    from xxhash import xxh3_64_hexdigest

    return f"{kernel.replace(':', '.')}-{xxh3_64_hexdigest(signature.encode())}{SUFFIX}"


@lru_cache(maxsize=1)
def kernel_directory() -> str | None:
    """Return the directory of kernels; None if there is none to trust."""
    return private_directory("kernels", _state())


def private_directory(kind: str, state: str) -> str | None:
    """Create a directory for code, below NUMBA_CACHE_DIR or in the user's cache; None if there is none to trust."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    try:
        directory = (Path(given) if given else cache_home()) / f"{kind}-{__version__}-{state}"
        if not directory.exists():
            directory.parent.parent.mkdir(parents=True, exist_ok=True)
            directory.parent.mkdir(mode=0o700, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
            _remove_unused(directory.parent)
        with suppress(OSError):  # the directory may belong to root
            os.utime(directory)  # it is in use, see `_remove_unused`
        return str(directory) if _is_trusted(directory) else None
    except (OSError, RuntimeError):  # no home directory, or a full disk
        return None


def _state() -> str:
    """Return a digest of everything that object code depends on."""
    from importlib.util import find_spec

    from llvmlite import binding

    machine = (sys.version, binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    compilers = (spec.origin for spec in map(find_spec, COMPILERS) if spec and spec.origin)
    return state_of([*sources(str(PACKAGE)), *compilers], *machine)


def state_of(files: Iterable[str], *more: str) -> str:
    """Return a digest of the contents of files, and of more text. (An image may change the times of files.)"""
    from xxhash import xxh3_64

    state = xxh3_64("\n".join(more).encode())
    for path in sorted(files):
        with open(path, "rb") as file:
            state.update(file.read())
    return state.hexdigest()


def sources(directory: str) -> Iterator[str]:
    """Return files that may contain kernels, or functions that are inlined into them."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in WITHOUT_KERNELS:
                    yield from sources(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path


def _is_trusted(directory: Path) -> bool:
    """Return True if only this user or root can write to a directory or replace it."""
    return all(
        status.st_uid in (os.geteuid(), 0) and not (status.st_mode & OTHERS_WRITE and not sticky)
        for status, sticky in (
            (directory.stat(), False),
            (directory.parent.stat(), bool(directory.parent.stat().st_mode & stat.S_ISVTX)),
        )
    )


def _remove_unused(home: Path) -> None:
    """Remove the kernels of versions that were not used for a while."""
    for directory in home.glob("kernels-*"):
        with suppress(FileNotFoundError):  # another process may do the same
            if OURS.fullmatch(directory.name) and time.time() - directory.stat().st_mtime > MAX_AGE:
                shutil.rmtree(directory, ignore_errors=True)
