"""CPU affinity of tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def keep_to_one_core() -> None:
    """Pin this thread, and all that it starts, to one core; xdist workers get one each. Threads that constantly hand
    over to each other, like the simulator's, take three times as long on two cores."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
        os.sched_setaffinity(0, {cores[worker % len(cores)]})


@contextmanager
def one_core() -> Iterator[None]:
    """Pin this thread to one core inside the block."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    keep_to_one_core()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
