"""The schedule of the simulator: what it must detect, and launches after an error."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cuda.gpu import IS_SIMULATED, cuda
from tests.lm.cuda.turns import take_turns

pytestmark = pytest.mark.skipif(not IS_SIMULATED, reason="of Numba's simulator")

WIDTH, HEIGHT = 8, 4


@pytest.fixture(autouse=True)
def turns() -> Iterator[None]:
    take_turns()
    yield
    assert launched(rotated)[0].tolist() == [*range(1, WIDTH * HEIGHT), 0]  # whatever the test has left behind


def rotated(result: Any) -> None:
    shared = cuda.shared.array(WIDTH * HEIGHT, np.int64)
    index = cuda.threadIdx.x + WIDTH * cuda.threadIdx.y
    shared[index] = index
    cuda.syncthreads()
    result[cuda.blockIdx.x, index] = shared[(index + 1) % (WIDTH * HEIGHT)]


def rotated_without_a_barrier(result: Any) -> None:
    shared = cuda.shared.array(WIDTH * HEIGHT, np.int64)
    index = cuda.threadIdx.x + WIDTH * cuda.threadIdx.y
    shared[index] = index
    result[cuda.blockIdx.x, index] = shared[(index + 1) % (WIDTH * HEIGHT)]


def at_different_barriers(result: Any) -> None:
    if cuda.threadIdx.x == 3:
        cuda.syncthreads()
    else:
        cuda.syncthreads()


def exit_before_a_barrier(result: Any) -> None:
    if cuda.threadIdx.x != 3:
        cuda.syncthreads()


def fails(result: Any) -> None:
    cuda.syncthreads()
    if cuda.threadIdx.x == 3:
        raise KeyError("of a kernel")
    cuda.syncthreads()


def lanes(result: Any) -> None:
    result[cuda.blockIdx.x, cuda.threadIdx.x + WIDTH * cuda.threadIdx.y] = cuda.laneid


def votes(result: Any) -> None:
    index = cuda.threadIdx.x + WIDTH * cuda.threadIdx.y
    result[cuda.blockIdx.x, index] = cuda.syncthreads_count(index < 5)


def launched(function: Any) -> np.ndarray:
    """Run a kernel in two blocks."""
    result = np.full((2, WIDTH * HEIGHT), -1)
    cuda.jit(function)[2, (WIDTH, HEIGHT)](result)
    return result


def test_results_with_barriers_are_right() -> None:
    assert (launched(rotated)[0] == launched(rotated)[1]).all()
    assert launched(lanes)[1].tolist() == list(range(WIDTH * HEIGHT))
    assert set(launched(votes).flat) == {5}


def test_a_missing_barrier_gives_wrong_results() -> None:
    """In every block: nothing that another block has left in shared memory hides it."""
    assert (launched(rotated_without_a_barrier) != launched(rotated)).any(axis=1).all()


@pytest.mark.parametrize("function", [at_different_barriers, exit_before_a_barrier])
def test_a_barrier_that_some_threads_do_not_reach_is_refused(function: Any) -> None:
    with pytest.raises(RuntimeError, match="threads of one block are at different barriers"):
        launched(function)


def test_errors_of_kernels_are_raised() -> None:
    with pytest.raises(KeyError, match="of a kernel"):
        launched(fails)
