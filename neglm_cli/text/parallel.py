"""Background threads, for kernels and reads that release the GIL."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Map a function over items on threads, which start at once. Yield results in order, a few items ahead of use."""
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


def read_ahead(items: Iterator[Item], queued: int) -> Iterator[Item]:
    """Yield items produced by a background thread, which runs up to `queued` items ahead."""
    ready: queue.Queue[Item | BaseException | None] = queue.Queue(queued)
    abandoned = threading.Event()

    def put(item: Item | BaseException | None) -> None:
        while not abandoned.is_set():
            with suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                put(item)
                if abandoned.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        abandoned.set()
