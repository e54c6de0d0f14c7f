"""The cache directory of encoded copies, with least-recently-used eviction above a size limit.

Opening a copy sets its modification time, because many file systems don't keep access times. The mapping of a copy
holds a shared lock on it (`container.map_tensor`), so that a copy in use is never removed.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from neglm_cli.errors import NeglmError
from neglm_cli.store.atomic import INCOMPLETE, remove_stale, remove_unlocked

LIMIT_VARIABLE = "NEGLM_CACHE_LIMIT"
DEFAULT_LIMIT = "20G"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
COPY_NAME = re.compile(r".*-[0-9a-f]{16}\.ids", re.DOTALL)


class Copy(NamedTuple):
    path: Path
    size: int  # bytes
    used: float  # Unix time


def size_limit() -> int:
    """Return the size limit of the cache in bytes, from the environment."""
    text = os.environ.get(LIMIT_VARIABLE) or DEFAULT_LIMIT
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
    if not match:
        raise NeglmError(f"{LIMIT_VARIABLE}={text} is not a size such as 500M or 20G: change it, or unset it")
    return int(float(match[1]) * UNITS[match[2].upper()])


def copies(directory: Path) -> list[Copy]:
    """List the encoded copies in the directory, least recently used first."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(directory):
            if COPY_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    found.append(Copy(Path(entry.path), status.st_size, status.st_mtime))
    return sorted(found, key=lambda copy: (copy.used, copy.path))


def mark_used(path: Path) -> None:
    with suppress(OSError):  # another user's cache
        os.utime(path)


def evict(directory: Path, limit: int, keep: Path) -> list[Copy]:
    """Remove the least recently used copies until the rest fit the limit, except `keep` and copies in use.

    Return the removed copies."""
    remove_stale(directory, INCOMPLETE)
    present = copies(directory)
    excess = sum(copy.size for copy in present) - limit
    removed = []
    for copy in present:
        if excess <= 0:
            break
        if copy.path != keep and remove_unlocked(copy.path):
            removed.append(copy)
            excess -= copy.size
    return removed


def clear(directory: Path) -> list[Copy]:
    """Remove all copies not in use, and temporary files of killed processes. Return the removed copies."""
    remove_stale(directory, INCOMPLETE)
    return [copy for copy in copies(directory) if remove_unlocked(copy.path)]
