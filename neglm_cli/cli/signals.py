"""SIGINT, SIGTERM and SIGHUP as an exception, so that unfinished files are removed on the way out.

Only the first signal raises: another one while files are being removed would stop that, and end in a traceback.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128  # plus the number of the signal: the exit code
SOON, TRY_AGAIN = 0.02, 5.0  # seconds

_raised = 0  # the signal that was raised, if there was one


class Terminated(BaseException):
    """A signal that asks the process to end; its argument is the number."""


def outcome(number: int) -> tuple[int, str]:
    """Exit code and message of a process that a signal has ended."""
    return SIGNALLED + number, "interrupted" if number == signal.SIGINT else "terminated"


def watch() -> None:
    """Raise `Terminated` on signals from now on."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # a job in the background has it ignored
        signal.signal(signal.SIGINT, _terminate)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has SIGHUP ignored
            signal.signal(number, _terminate)


def raised() -> int:
    """Number of the signal that was raised, or 0. An error that follows it is a consequence: C code, for instance,
    turns any exception that it does not expect into a SystemError."""
    return _raised


def ignore() -> None:
    """Ignore signals from now on: the process is on its way out.

    (With SIG_IGN, Python would report a signal that has arrived but was not yet handled as an error.)"""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (*SIGNALS, signal.SIGALRM):
        if callable(signal.getsignal(number)):
            signal.signal(number, _nothing)


@contextmanager
def noted() -> Iterator[list[int]]:
    """Only note signals: their numbers are in the list. After the first one the process is on its way out, and
    further ones are ignored."""
    seen: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, _nothing if seen else handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    global _raised
    if not _raised:
        _raised = number
        sys.excepthook = sys.unraisablehook = _nothing  # a finalizer, or C code, that gets the exception may print it
        signal.signal(signal.SIGALRM, _raise)
        _raise(number, frame)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise where that does no harm; and again after a while, in case that was where exceptions get lost (a finalizer,
    a callback)."""
    unsafe = _in_llvmlite(frame)
    signal.setitimer(signal.ITIMER_REAL, SOON if unsafe else TRY_AGAIN)
    if not (unsafe or _on_its_way()):
        raise Terminated(_raised)


def _in_llvmlite(frame: FrameType | None) -> bool:
    """Whether this is in the middle of a call of llvmlite, which frees memory twice if an exception hits it."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("llvmlite."):
            return True
        frame = frame.f_back
    return False


def _on_its_way() -> bool:
    """Whether the exception is being handled: cleaning up may take long."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, Terminated):
            return True
        error = error.__context__
    return False


def _nothing(*arguments: object) -> None:
    pass
