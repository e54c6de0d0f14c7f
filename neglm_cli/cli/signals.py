"""SIGINT, SIGTERM and SIGHUP as exceptions, so that unfinished files are removed on the way out."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

TRY_AGAIN = 5.0  # seconds; cleaning up takes less


class Terminated(BaseException):
    """SIGTERM or SIGHUP; its argument is the number."""


def _terminate(number: int, frame: object) -> None:
    """Raise; and again after a while, in case that was where exceptions get lost (a finalizer, a callback)."""
    signal.signal(signal.SIGALRM, lambda alarm, frame: _terminate(number, frame))
    signal.setitimer(signal.ITIMER_REAL, TRY_AGAIN)
    raise as_exception(number)


def as_exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


def watch() -> None:
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # a job in the background has it ignored
        signal.signal(signal.SIGINT, _terminate)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has SIGHUP ignored
            signal.signal(number, _terminate)


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
    """Signals are only noted: their numbers are in the list. After the first one the process is on its way out, and
    further ones are ignored."""
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
            signal.signal(number, signal.SIG_IGN if seen else handler)
