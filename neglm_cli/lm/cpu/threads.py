"""Teams of threads, their shares of the work, and their synchronization."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import kernel, outlined


class PanelRange(NamedTuple):
    """The panels of a layer that a thread owns."""

    first: int
    last: int
    first_transposed: int  # first panel of the transposed recurrent weights


class BlockRange(NamedTuple):
    """The blocks of the vocabulary that a thread owns."""

    thread: int
    first: int
    last: int


class Worker(NamedTuple):
    """One thread of a team, and its share of the work."""

    thread: int
    threads: int
    barrier: np.ndarray  # of allocate_barrier
    panels: PanelRange
    blocks: BlockRange


class Team:
    """Threads that run the same function concurrently, each with its `Worker`. Every thread has its own queue: tasks
    submitted while they work start without waking other threads."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self._pool = [ThreadPoolExecutor(1) for _ in workers]
        self._submitting = Lock()  # threads meet at barriers: all take the tasks of several callers in the same order

    def start(self, function: Callable[..., Any], *arguments: Any) -> list[Future[Any]]:
        """Call function(*arguments, worker) on all threads."""
        with self._submitting:
            return [
                thread.submit(function, *arguments, worker)
                for thread, worker in zip(self._pool, self.workers, strict=True)
            ]

    def results(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return the results of function(*arguments, worker) on all threads."""
        return [future.result() for future in self.start(function, *arguments)]

    def close(self) -> None:
        for thread in self._pool:
            thread.shutdown()


class CallingThread(Team):
    """A team of one worker, which works in the thread that calls it."""

    def start(self, function: Callable[..., Any], *arguments: Any) -> list[Future[Any]]:
        (worker,) = self.workers
        done: Future[Any] = Future()
        done.set_result(function(*arguments, worker))
        return [done]


@outlined
def rows_of(total, worker):
    """Return the first and end rows of the thread's share of `total` rows."""
    return total * worker.thread // worker.threads, total * (worker.thread + 1) // worker.threads


@kernel
def synchronize(worker):
    """Wait for the other threads."""
    barrier_wait(worker)
