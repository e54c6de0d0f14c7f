"""SIGINT, SIGTERM and SIGHUP as an exception, so that temporary files are removed before the process exits.

Only the first signal raises: a second one during the cleanup would abort it and end in a traceback.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from neglm_cli.runs.interrupts import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128  # plus the number of the signal: the exit code
SOON, TRY_AGAIN = 0.02, 5.0  # seconds
WAKE_UP = signal.SIGURG  # ignored by default, so that no one else sends it with a purpose
WAKE_EVERY = 0.05  # seconds

_raised = 0  # the signal that was raised, if any
_awake = True  # set by the handler of WAKE_UP


class Terminated(BaseException):
    """A signal that asks the process to end; its argument is the number."""


def outcome(number: int) -> tuple[int, str]:
    """Return the exit code and the message of a process ended by a signal."""
    return SIGNALLED + number, "interrupted" if number == signal.SIGINT else "terminated"


def watch() -> None:
    """Raise `Terminated` on signals from now on."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # a job in the background has it ignored
        signal.signal(signal.SIGINT, _terminate)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has SIGHUP ignored
            signal.signal(number, _terminate)


def keep_main_thread_awake() -> None:
    """Interrupt the main thread after each signal, until it has run the handlers.

    Python runs handlers in the main thread, between two bytecodes. A signal that arrives just before the thread blocks
    on a lock, or that the system delivers to another thread, would not be noticed until the wait ends."""
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    signal.signal(WAKE_UP, _woken)
    signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    threading.Thread(target=_wake, args=(receiver, threading.get_ident()), daemon=True).start()


def _wake(receiver: int, main: int) -> None:
    global _awake
    while number := os.read(receiver, 1):
        if number[0] != WAKE_UP:
            _awake = False
            while not _awake:
                signal.pthread_kill(main, WAKE_UP)
                time.sleep(WAKE_EVERY)


def _woken(number: int, frame: FrameType | None) -> None:
    """Note that handlers run: those of all signals that came before run, too."""
    global _awake
    _awake = True


def raised() -> int:
    """Return the number of the signal that was raised, or 0. Errors after it are consequences: C code, for instance,
    turns an unexpected exception into a SystemError."""
    return _raised


def ignore() -> None:
    """Ignore signals from now on: the process is exiting.

    (With SIG_IGN, Python would report a signal that has arrived but was not yet handled as an error.)"""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (*SIGNALS, signal.SIGALRM):
        if callable(signal.getsignal(number)):
            signal.signal(number, _nothing)


@contextmanager
def noted(stop: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Defer signals to the end of the block: call `stop` and list their numbers. A run that was `Interrupted` raises
    `Terminated`. After the first signal the process is exiting, and further ones are ignored."""
    seen: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        stop()

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield seen
    except Interrupted as interrupted:
        raise Terminated(interrupted.number) from None
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
    """Raise where it is safe. Raise again after a while, in case the exception was lost in a finalizer or callback."""
    unsafe = _in_llvmlite(frame)
    signal.setitimer(signal.ITIMER_REAL, SOON if unsafe else TRY_AGAIN)
    if not (unsafe or _is_handled()):
        raise Terminated(_raised)


def _in_llvmlite(frame: FrameType | None) -> bool:
    """Return True inside a call of llvmlite, which frees memory twice if an exception interrupts it."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("llvmlite."):
            return True
        frame = frame.f_back
    return False


def _is_handled() -> bool:
    """Return True while the exception is being handled: the cleanup may take long."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, Terminated):
            return True
        error = error.__context__
    return False


def _nothing(*arguments: object) -> None:
    pass
