"""The barrier, on a quiet machine and on a loaded one."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

from neglm_cli.barrier import allocate_barrier, barrier_wait
from neglm_cli.kernels import kernel


class Worker(NamedTuple):
    thread: int
    threads: int
    barrier: np.ndarray


@kernel
def count_rounds(worker: Worker, counts: np.ndarray, rounds: int) -> int:
    """Add 1 to counts[thread] in each round; return how often another thread was behind or ahead."""
    failures = 0
    for number in range(rounds):
        counts[worker.thread] += 1
        barrier_wait(worker)
        for thread in range(worker.threads):
            if counts[thread] != number + 1:
                failures += 1
        barrier_wait(worker)
    return failures


@pytest.mark.parametrize("contended", [False, True], ids=["yielding", "sleeping"])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_no_thread_passes_before_the_last_has_arrived(threads: int, contended: bool) -> None:
    barrier, counts, rounds = allocate_barrier(), np.zeros(threads, np.int64), 50

    def run(thread: int) -> int:
        time.sleep(0.05 * thread)  # longer than the others spin
        return count_rounds(Worker(thread, threads, barrier), counts, rounds)

    if contended:
        barrier[1] = time.monotonic_ns() + 10**12
    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(run, range(threads))) == [0] * threads
    assert barrier[0] == 2 * rounds * threads
