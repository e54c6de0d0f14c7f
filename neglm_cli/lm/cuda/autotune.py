"""Choice of the matrix products: cuBLAS if it is installed, correct and not slow on this GPU, else our kernels."""

import time
from collections.abc import Callable

import numpy as np

from neglm_cli.lm.checks import described
from neglm_cli.lm.cuda.blas import cublas_of
from neglm_cli.lm.cuda.gemm import Extent, Gemm, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.devices import PrecisionError

REPEATS = 5
SLOWER = 2  # times: cuBLAS is used unless it is that slow. Between equals, each start might choose differently
TOLERANCES = {"fp32": 1e-4, "tf32": 2e-3, "bf16": 2e-2}  # relative to the largest value
TENSOR_CORES = (8, 0)  # compute capability from which on they take tf32 and bf16


def choose_gemm(gpu: Gpu, extent: Extent, note: Callable[[str], None]) -> Gemm:
    """Return cuBLAS unless it is much slower for products of this size. If it fails or is wrong, use ours, with a
    note."""
    ours = TiledGemm(gpu)
    try:
        theirs = cublas_of(gpu)
        if theirs is None:
            return ours
        trial = Trial(gpu, extent)
        if not trial.agree(ours, theirs):
            note("not using cuBLAS: its products differ from those of neglm's kernels on this GPU")
            return ours
    except Exception as error:  # anything a broken installation may raise: training works without it
        note(f"not using cuBLAS, which does not work: {type(error).__name__}: {error}")
        return ours
    return theirs if trial.seconds(theirs) < SLOWER * trial.seconds(ours) else ours


def rounded_gemm(gpu: Gpu, extent: Extent, precision: str) -> Gemm:
    """Return cuBLAS, with inputs of products rounded to tf32 or bf16. Raise PrecisionError if that does not work."""
    if gpu.capability < TENSOR_CORES:
        raise PrecisionError(
            f"--precision {precision} needs a GPU of compute capability 8.0, but {gpu.name} has "
            "{}.{}: use --precision fp32".format(*gpu.capability)
        )
    try:
        theirs = cublas_of(gpu, precision)
        if theirs is not None and Trial(gpu, extent).agree(TiledGemm(gpu), theirs, precision):
            return theirs
    except Exception as error:  # anything a broken installation may raise
        raise PrecisionError(
            f"--precision {precision} needs cuBLAS, which does not work: {described(error)}"
        ) from error
    if theirs is None:
        raise PrecisionError(f"--precision {precision} needs cuBLAS: install it with pip install 'neglm[cublas]'")
    raise PrecisionError(f"--precision {precision} gives wrong products on this GPU: use --precision fp32")


class Trial:
    """Products of random matrices, in all three forms."""

    def __init__(self, gpu: Gpu, extent: Extent) -> None:
        random = np.random.default_rng(1)
        self._gpu, self._extent = gpu, extent
        m, n, k = extent
        shapes = {"nn": ((m, k), (k, n)), "tn": ((k, m), (k, n)), "nt": ((m, k), (n, k))}
        self._operands = {
            form: tuple(MatrixView(gpu.upload(random.standard_normal(shape, np.float32))) for shape in pair)
            for form, pair in shapes.items()
        }
        self._result = MatrixView(gpu.zeros((m, n)))

    def agree(self, one: Gemm, other: Gemm, precision: str = "fp32") -> bool:
        return self.difference(one, other) <= TOLERANCES[precision]

    def difference(self, one: Gemm, other: Gemm) -> float:
        """Return the largest difference in any form, relative to the product's largest value."""
        shares = []
        for form in self._operands:
            first, second = self._product(one, form), self._product(other, form)
            shares.append(np.abs(first - second).max() / np.abs(first).max())
        return float(np.max(shares))  # NaN if any of them is

    def _product(self, gemm: Gemm, form: str) -> np.ndarray:
        a, b = self._operands[form]
        gemm.matmul(form, a, b, self._result, self._extent)
        return self._gpu.download(self._result.array)

    def rate(self, gemm: Gemm) -> float:
        """Return FLOP/s."""
        m, n, k = self._extent
        return 2 * m * n * k * len(self._operands) / self.seconds(gemm)

    def seconds(self, gemm: Gemm) -> float:
        """Return the best time of several runs. Kernels must have been compiled, by `difference`."""
        return min(self._round(gemm) for _ in range(REPEATS))

    def _round(self, gemm: Gemm) -> float:
        self._gpu.synchronize()
        start = time.perf_counter()
        for form, (a, b) in self._operands.items():
            gemm.matmul(form, a, b, self._result, self._extent)
        self._gpu.synchronize()
        return time.perf_counter() - start
