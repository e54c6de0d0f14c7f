"""What stands in for a GPU where there is none."""

from typing import Any

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.gpu import IS_SIMULATED, Gpu, Kernel, SimulatedGpu
from neglm_cli.lm.cuda.product import products
from neglm_cli.lm.cuda.sampled import PAIRS, shared_loss, token_loss

# The same kernels with fewer threads: the simulator starts one of Python's threads for each.
SMALL_PRODUCTS = products(8, 2, 4, "small_product")
SMALL_STEPS = lstm.Steps(
    lstm.step_forward_kernel(4, 2, 4, "small_step_forward"), lstm.step_backward_kernel(4, 2, 4, "small_step_backward")
)
THREADS = 8  # of kernels that work with any number
SAMPLED = (token_loss, shared_loss)


class TurnTakingGpu(SimulatedGpu):
    """Numba's simulator with few threads, and with another schedule."""

    def __init__(self) -> None:
        from tests.lm.cuda.turns import take_turns

        take_turns()
        super().__init__()
        self.launched: list[str] = []

    def launch(
        self, kernel: Kernel, blocks: int | tuple[int, ...], *arguments: Any, shared: int = 0, threads: int = 0
    ) -> None:
        self.launched.append(kernel.name)
        few = kernel.threads if kernel.tile[1] > 1 else PAIRS if kernel in SAMPLED else THREADS
        super().launch(kernel, blocks, *arguments, shared=shared, threads=threads or few)


def make_gpu() -> Gpu:
    """The simulator, or with `pytest --gpu` the first GPU of this machine."""
    return TurnTakingGpu() if IS_SIMULATED else Gpu()
