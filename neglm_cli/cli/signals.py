"""SIGINT, SIGTERM and SIGHUP as exceptions, so that unfinished files are removed on the way out."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")

TRY_AGAIN = 5.0  # seconds; cleaning up takes less
LOOK_EVERY = 0.2  # seconds


class Terminated(BaseException):
    """SIGTERM or SIGHUP; its argument is the number."""


def _terminate(number: int, frame: object) -> None:
    """Raise; and again after a while, in case that was where exceptions get lost (a finalizer, a callback)."""
    signal.signal(signal.SIGALRM, lambda alarm, frame: _terminate(number, frame))
    signal.setitimer(signal.ITIMER_REAL, TRY_AGAIN)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)


def watch() -> None:
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # a job in the background has it ignored
        signal.signal(signal.SIGINT, _terminate)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has SIGHUP ignored
            signal.signal(number, _terminate)


def result_of(work: "Future[Result]") -> Result:
    """Wait for work in another thread, and for signals. One that the system has given to that thread wakes nobody up:
    so it may be when a process that was stopped is continued and terminated at once, as batch systems do."""
    from concurrent.futures import wait

    while not wait([work], LOOK_EVERY).done:
        pass
    return work.result()


def calm() -> None:
    """What had to be raised has arrived."""
    signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals are ignored: for the saving of what would be lost, on the way out."""
    calm()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def noted() -> Iterator[list[int]]:
    """Signals are only noted: their numbers are in the list."""
    seen: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
