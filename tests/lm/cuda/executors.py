"""Substitutes for a GPU."""

from dataclasses import replace
from typing import Any

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.gemm import gemm_kernels
from neglm_cli.lm.cuda.gpu import IS_SIMULATED, Gpu, Grid, Kernel, SimulatedGpu
from neglm_cli.lm.cuda.sampled import CHUNK_WORDS, token_loss

# The same kernels with fewer threads: the simulator starts a Python thread for each.
SMALL_GEMMS = gemm_kernels(8, 2, 4, "small_gemm")
SMALL_STEPS = lstm.StepKernels(
    lstm.step_forward_kernel(4, 2, 4, "small_step_forward"), lstm.step_backward_kernel(4, 2, 4, "small_step_backward")
)
THREADS = 8  # of kernels that support any block size


class TurnTakingGpu(SimulatedGpu):
    """Numba's simulator with few threads and a random schedule."""

    def __init__(self) -> None:
        from tests.lm.cuda.turns import take_turns

        take_turns()
        super().__init__()
        self.launched: list[str] = []

    def launch(self, kernel: Kernel, grid: Grid | int | tuple[int, ...], /, **arguments: Any) -> None:
        self.launched.append(kernel.name)
        few = kernel.threads if kernel.tile[1] > 1 else CHUNK_WORDS if kernel is token_loss else THREADS
        grid = grid if isinstance(grid, Grid) else Grid(grid)
        super().launch(kernel, replace(grid, threads=grid.threads or few), **arguments)


def make_gpu() -> Gpu:
    """Return the simulator or, with `pytest --gpu`, the first GPU of this machine."""
    return TurnTakingGpu() if IS_SIMULATED else Gpu()
