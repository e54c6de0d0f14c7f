"""Plans of the kernels that run all time steps in one launch."""

from typing import Any

import pytest

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.gpu import SHARED_BYTES, Kernel
from neglm_cli.lm.cuda.network import persistent_plan

A100_SHARED = 163 << 10


class Paper:
    """A GPU on paper, on which each multiprocessor has room for a block."""

    multiprocessors = 108

    def __init__(self, shared_bytes: int, grants: bool = True) -> None:
        self.shared_bytes, self._grants = shared_bytes, grants

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        return self.multiprocessors if self._grants or shared <= SHARED_BYTES else 0


def backward_plan(gpu: Any) -> Any:
    return persistent_plan(gpu, lstm.backward, 300, 1200, 20, 1)


def test_more_shared_memory_holds_the_whole_state() -> None:
    plan = backward_plan(Paper(A100_SHARED))
    assert SHARED_BYTES < plan.grid.shared <= A100_SHARED
    assert plan.tiling.depth == 1200
    assert plan.grid.blocks == backward_plan(Paper(SHARED_BYTES)).grid.blocks == 100


@pytest.mark.parametrize("gpu", [Paper(SHARED_BYTES), Paper(A100_SHARED, grants=False)], ids=["none", "refused"])
def test_without_more_shared_memory(gpu: Any) -> None:
    plan = backward_plan(gpu)
    assert plan.grid.shared <= SHARED_BYTES
    assert plan.tiling.depth < 1200


def test_a_gpu_with_few_multiprocessors() -> None:
    """On a T4, the recurrent weights of the forward pass fit in 64 KB only."""
    few, most = Paper(SHARED_BYTES), Paper(64 << 10)
    few.multiprocessors = most.multiprocessors = 40
    plans: list[Any] = [persistent_plan(gpu, lstm.forward, 300, 300, 20, 4) for gpu in (few, most)]  # type: ignore[arg-type]
    assert plans[0] is None
    assert plans[1].tiling.block_units == 8
