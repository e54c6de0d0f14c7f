"""Kernels as PTX, compiled where there is no GPU."""

from functools import cache
from typing import Any

from numba import cuda, void

from neglm_cli.lm.cuda.gpu import KERNELS, Kernel


class _Device:
    compute_capability = (8, 0)


def compile_ptx(kernel: Kernel, capability: tuple[int, int] = (8, 0)) -> str:
    """Numba asks the current GPU what it can do, if a kernel waits for all blocks: it is told."""
    import numba.cuda.compiler
    import numba.cuda.dispatcher

    _Device.compute_capability = capability
    for module in (numba.cuda.dispatcher, numba.cuda.compiler):
        module.get_current_device = lambda: _Device
    ptx, _ = cuda.compile_ptx(kernel.function, void(*kernel.types), cc=capability)
    return str(ptx)


@cache
def ptx_of(name: str) -> str:
    return compile_ptx(KERNELS[name])


class PtxGpu:
    """Runs the compiled code of kernels by an interpreter, `ptxsim`; arrays are NumPy's."""
