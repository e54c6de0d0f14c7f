"""Signals reach who waits."""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from neglm_cli.cli.signals import Terminated, calm, result_of, watch


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    watch()
    yield
    calm()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_that_another_thread_gets_ends_the_waiting() -> None:
    interrupted = threading.Event()

    def work() -> bool:
        time.sleep(0.5)  # until the others wait
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return interrupted.wait(20)

    with ThreadPoolExecutor(1) as worker:
        working = worker.submit(work)
        with pytest.raises(Terminated):
            result_of(working)
        assert not working.done()
        interrupted.set()
        assert working.result()


def test_results_and_failures_are_those_of_the_work() -> None:
    with ThreadPoolExecutor(1) as worker:
        assert result_of(worker.submit(lambda: 3)) == 3
        with pytest.raises(ZeroDivisionError):
            result_of(worker.submit(lambda: 1 // 0))
