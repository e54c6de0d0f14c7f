"""What stands in for a GPU where there is none."""

from typing import Any

import numpy as np

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.gpu import Gpu, Kernel
from neglm_cli.lm.cuda.product import products

# The same kernels with fewer threads: the simulator starts one of Python's threads for each.
SMALL_PRODUCTS = products(8, 2, 4)
SMALL_STEPS = lstm.Steps(
    lstm.step_forward_kernel(4, 2, 4, "small_step_forward"), lstm.step_backward_kernel(4, 2, 4, "small_step_backward")
)


class SimulatedGpu(Gpu):
    """Numba's simulator. Its grids are not in step, so kernels that wait for each other have one block only."""

    def __init__(self, threads: int = 32) -> None:
        super().__init__()
        self._threads = threads
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
        fixed = kernel.tile != (1, 1) or threads
        super().launch(
            kernel, blocks, *arguments, shared=shared, threads=threads or (kernel.threads if fixed else self._threads)
        )

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        return np.zeros(size, dtype)
