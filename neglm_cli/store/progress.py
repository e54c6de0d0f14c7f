"""A hook for progress while reading large files; the command line shows a bar."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Progress(Protocol):
    """A progress display, advanced by the number of bytes read since the last call."""

    def advance(self, amount: int) -> None: ...


class _NoProgress:
    def advance(self, amount: int) -> None:
        pass


MakeProgress = Callable[[str, int], AbstractContextManager[Progress]]  # called with a description and the total bytes

_make_progress: MakeProgress = lambda what, total: nullcontext(_NoProgress())  # noqa: E731


def set_progress(make_progress: MakeProgress) -> None:
    """Set the function that creates progress displays."""
    global _make_progress
    _make_progress = make_progress


def track(what: str, total: int) -> AbstractContextManager[Progress]:
    """Create a progress display."""
    return _make_progress(what, total)
