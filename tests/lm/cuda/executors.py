"""What stands in for a GPU where there is none."""

from typing import Any

import numpy as np

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.gpu import IS_SIMULATED, Gpu, Kernel
from neglm_cli.lm.cuda.product import products

# The same kernels with fewer threads: the simulator starts one of Python's threads for each.
SMALL_PRODUCTS = products(8, 2, 4, "small_product")
SMALL_STEPS = lstm.Steps(
    lstm.step_forward_kernel(4, 2, 4, "small_step_forward"), lstm.step_backward_kernel(4, 2, 4, "small_step_backward")
)
THREADS = 32  # enough for all kernels whose work does not depend on them


class SimulatedGpu(Gpu):
    """Numba's simulator. Its grids are not in step, so kernels that wait for each other have one block only."""

    def __init__(self) -> None:
        from tests.lm.cuda.turns import take_turns

        take_turns()
        super().__init__()
        self.launched: list[str] = []

    @property
    def processors(self) -> int:
        return 1

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        return 1

    def launch(
        self, kernel: Kernel, blocks: int | tuple[int, ...], *arguments: Any, shared: int = 0, threads: int = 0
    ) -> None:
        self.launched.append(kernel.name)
        fixed = kernel.threads if kernel.tile[1] > 1 else THREADS
        super().launch(kernel, blocks, *arguments, shared=shared, threads=threads or fixed)

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        return np.zeros(size, dtype)


def make_gpu() -> Gpu:
    """The simulator, or with `pytest --gpu` the first GPU of this machine."""
    return SimulatedGpu() if IS_SIMULATED else Gpu()
