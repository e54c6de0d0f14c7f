"""Progress of the reading of large files, for whoever shows it: the command line does, with a bar."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Watched(Protocol):
    """Told how many bytes were read since the last call."""

    def advance(self, amount: int) -> None: ...


class _Unwatched:
    def advance(self, amount: int) -> None:
        pass


Watch = Callable[[str, int], AbstractContextManager[Watched]]  # called with what is done, and its bytes

_watch: Watch = lambda what, total: nullcontext(_Unwatched())  # noqa: E731


def show_with(watch: Watch) -> None:
    global _watch
    _watch = watch


def watched(what: str, total: int) -> AbstractContextManager[Watched]:
    return _watch(what, total)
