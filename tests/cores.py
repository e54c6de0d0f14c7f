"""Which cores a test may use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def keep_to_one_core() -> None:
    """From now on, in this thread and in what it starts. Workers of xdist have a core each. Threads that hand over to
    each other all the time, as the simulator's do, take three times as long on two cores as on one."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
        os.sched_setaffinity(0, {cores[worker % len(cores)]})


@contextmanager
def one_core() -> Iterator[None]:
    """For a while."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    keep_to_one_core()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
