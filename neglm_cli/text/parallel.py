"""Threads for kernels that release the interpreter's lock."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Like `map`, on threads that start at once: results come in order, no more than a few items ahead of their use."""
    remaining = iter(items)
    pool = ThreadPoolExecutor(threads)
    pending = deque(pool.submit(function, item) for item in islice(remaining, 4 * threads))

    def results() -> Iterator[Result]:
        try:
            while pending:
                result = pending.popleft().result()
                pending.extend(pool.submit(function, item) for item in islice(remaining, 1))
                yield result
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return results()
