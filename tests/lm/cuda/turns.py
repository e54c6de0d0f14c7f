"""A schedule for Numba's simulator: the threads of a block take turns, from barrier to barrier, in a random order.

So a missing barrier gives wrong results, reproducibly. A barrier that not all threads reach is an error. A thread is a
greenlet, to which a switch takes a tenth of the time that it takes to one of the operating system's, the simulator's.
"""

import random
import sys
import threading
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet
from numba.cuda.np.numpy_support import as_dtype
from numba.cuda.simulator import kernel as simulator
from numba.cuda.simulator import kernelapi
from numba.cuda.types import Type  # type: ignore[attr-defined]

END = -1


class Turn(greenlet):  # type: ignore[misc]
    """A thread that runs until it reaches a barrier, and then waits. After its end, it can begin again."""

    syncthreads_count = simulator.BlockThread.syncthreads_count
    syncthreads_and = simulator.BlockThread.syncthreads_and
    syncthreads_or = simulator.BlockThread.syncthreads_or

    def begin(
        self, work: Callable[[], None], manager: "TurnTaking", block: tuple[int, ...], thread: tuple[int, ...]
    ) -> None:
        self.work, self._manager = work, manager
        self.line = 0  # of the barrier that it has reached
        self.blockIdx, self.threadIdx = kernelapi.Dim3(*block), kernelapi.Dim3(*thread)
        (x, y, z), (width, height, _) = thread, manager.block_dim
        self.thread_id = x + width * (y + height * z)

    def run(self) -> None:
        with np.errstate(over="ignore"):  # hashes overflow
            while True:
                self.work()
                del self.work
                self.line = END
                self.parent.switch()

    def syncthreads(self) -> None:
        self.line = sys._getframe(2).f_lineno  # of the kernel
        self.parent.switch()


class Idle(threading.local):
    """Threads that have ended, of this thread of the operating system."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []


_idle = Idle()


class TurnTaking(simulator.BlockManager):
    @property
    def block_dim(self) -> tuple[int, int, int]:
        return tuple(self._block_dim)

    def run(self, block: tuple[int, ...], *arguments: Any) -> None:
        def work() -> None:
            self._f(*arguments)

        simulator._get_kernel_context().shared.renew()
        order, turns = random.Random(repr(block)), []
        for thread in product(*map(range, self.block_dim)):
            turns.append(_idle.turns.pop() if _idle.turns else Turn())
            turns[-1].begin(work, self, block, thread)
        while turns[0].line != END:
            order.shuffle(turns)
            for turn in turns:
                turn.switch()
            lines = {turn.line for turn in turns}
            if len(lines) > 1:
                raise RuntimeError(f"threads of one block are at different barriers, in lines {sorted(lines)}")
        _idle.turns += turns


class Shared(kernelapi.FakeCUDAShared):
    """Shared arrays, one for each line, that are NaN or -1 when a block starts. The simulator's have what another block
    has left, often the right values; and it reads the source files of the whole stack for each."""

    def renew(self) -> None:
        self._allocations.clear()
        self._dynshared.view(np.uint8).fill(0xFF)

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> np.ndarray:
        if shape == 0 or alignment is not None:
            return super().array(shape, dtype, alignment)  # type: ignore[call-arg]
        caller = sys._getframe(1)
        line = caller.f_code, caller.f_lineno
        if line not in self._allocations:
            made = np.empty(shape, as_dtype(dtype) if isinstance(dtype, Type) else dtype)
            made.view(np.uint8).fill(0xFF)
            self._allocations[line] = made
        return self._allocations[line]


def take_turns() -> None:
    """Install the schedule for all later launches of this process."""
    simulator.BlockManager = TurnTaking  # type: ignore[misc]
    kernelapi.FakeCUDAShared = Shared  # type: ignore[misc]
    kernelapi.threading = SimpleNamespace(current_thread=getcurrent)  # type: ignore[assignment, attr-defined]
