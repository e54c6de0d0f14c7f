"""A schedule for Numba's simulator: the threads of a block take turns, from barrier to barrier, in a random order.

So a missing barrier gives wrong results, reproducibly. A barrier that not all threads reach is an error. Threads do not
poll, which takes a tenth of the simulator's time.
"""

import random
import sys
import threading
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel as simulator

END = -1


class Turn(simulator.BlockThread):
    """A thread that runs alone until it reaches a barrier, and then waits."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.line = 0  # of the barrier that it has reached
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()

    def advance(self) -> None:
        if self.line:
            self._go.release()
        else:
            self.start()
        self._done.acquire()

    def run(self) -> None:
        with np.errstate(over="ignore"):  # hashes overflow
            super().run()
        self.line = END
        self._done.release()

    def syncthreads(self) -> None:
        self.line = sys._getframe(2).f_lineno  # of the kernel
        self._done.release()
        self._go.acquire()
        if self.abort:
            raise RuntimeError("another thread failed")


class TurnTaking(simulator.BlockManager):
    def run(self, block: tuple[int, ...], *arguments: Any) -> None:
        order = random.Random(repr(block))
        threads = [
            Turn(lambda: self._f(*arguments), self, block, thread, self._debug)
            for thread in np.ndindex(*self._block_dim)
        ]
        while threads[0].line != END:
            order.shuffle(threads)
            for thread in threads:
                thread.advance()
                if thread.exception:
                    self._end(threads)
                    raise thread.exception[0].with_traceback(thread.exception[1])
            lines = {thread.line for thread in threads}
            if len(lines) > 1:
                self._end(threads)
                raise RuntimeError(f"threads of one block are at different barriers, in lines {sorted(lines)}")

    @staticmethod
    def _end(threads: list[Turn]) -> None:
        for thread in threads:
            thread.abort = True
            while thread.line > 0:
                thread.advance()


def take_turns() -> None:
    """Install the schedule for all later launches of this process."""
    simulator.BlockManager = TurnTaking  # type: ignore[misc]
