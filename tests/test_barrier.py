"""The barrier, on a quiet machine, on a loaded one, and with fewer cores than threads."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

from neglm_cli.barrier import SPINS, allocate_barrier, barrier_wait
from neglm_cli.kernels import kernel
from neglm_cli.kernels.compilers import usable_cores
from tests.cores import one_core


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


@pytest.mark.parametrize(
    ("spins", "contended"),
    [(SPINS, False), (0, False), (SPINS, True), (0, True)],
    ids=["spinning", "yielding", "spinning, contended", "sleeping"],
)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_no_thread_passes_before_the_last_has_arrived(threads: int, spins: int, contended: bool) -> None:
    barrier, counts, rounds = allocate_barrier(threads), np.zeros(threads, np.int64), 50

    def run(thread: int) -> int:
        time.sleep(0.05 * thread)  # longer than the others spin
        return count_rounds(Worker(thread, threads, barrier), counts, rounds)

    barrier[2] = spins
    if contended:
        barrier[1] = time.monotonic_ns() + 10**12
    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(run, range(threads))) == [0] * threads
    assert barrier[0] == 2 * rounds * threads


def test_threads_that_share_cores_do_not_spin() -> None:
    with one_core():
        assert [allocate_barrier(threads)[2] for threads in (1, 2)] == [SPINS, 0]
    assert allocate_barrier(usable_cores() + 1)[2] == 0
