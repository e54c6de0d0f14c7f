"""Signals during a run: it stops after the current step, writes a checkpoint, and then the program gets the signal."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):  # noqa: N818
    """A run has stopped early. `number` is the signal that this rank, or another one, received."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def defer_keyboard_interrupt(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Defer Ctrl-C to the end of the block: call `stop`, and raise KeyboardInterrupt when the block is left.

    Changes the handler only on the main thread, only if it is Python's own, and restores it."""
    received: list[int] = []
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not on_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield received
        return

    def handler(number: int, frame: object) -> None:
        received.append(number)
        stop()

    signal.signal(signal.SIGINT, handler)
    try:
        yield received
    except Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if received:
        raise KeyboardInterrupt
