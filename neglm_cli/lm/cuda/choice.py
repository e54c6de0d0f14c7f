"""Who multiplies: our kernels, or cuBLAS, where it is installed, right and faster on this very GPU."""

import time
from collections.abc import Callable

import numpy as np

from neglm_cli.lm.cuda.blas import cublas_of
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.cuda.product import Multiplier, Part, Tiled

REPEATS = 5
TOLERANCE = 1e-4  # of the largest number


def multiplier_for(gpu: Gpu, m: int, n: int, k: int, note: Callable[[str], None]) -> Multiplier:
    """The better one for products of this size. cuBLAS that fails or is wrong is not used, with a note."""
    ours = Tiled(gpu)
    try:
        theirs = cublas_of(gpu)
        if theirs is None:
            return ours
        trial = Trial(gpu, m, n, k)
        if not trial.agree(ours, theirs):
            note("cuBLAS and neglm's own kernels give different products on this GPU: cuBLAS is not used")
            return ours
    except Exception as error:  # whatever a broken installation raises: training can do without it
        note(f"cuBLAS does not work and is not used: {type(error).__name__}: {error}")
        return ours
    return theirs if trial.seconds(theirs) < trial.seconds(ours) else ours


class Trial:
    """Products of random matrices, in all three forms."""

    def __init__(self, gpu: Gpu, m: int, n: int, k: int) -> None:
        random = np.random.default_rng(1)
        self._gpu = gpu
        self._sizes = m, n, k
        shapes = {"inner": ((m, k), (k, n)), "outer": ((k, m), (k, n)), "transposed": ((m, k), (n, k))}
        self._operands = {
            form: tuple(Part(gpu.upload(random.standard_normal(shape, np.float32))) for shape in pair)
            for form, pair in shapes.items()
        }
        self._result = Part(gpu.zeros((m, n)))

    def agree(self, one: Multiplier, other: Multiplier) -> bool:
        return self.difference(one, other) <= TOLERANCE

    def difference(self, one: Multiplier, other: Multiplier) -> float:
        """The largest of all forms, as a share of the product's largest number."""
        shares = []
        for form in self._operands:
            first, second = self._product(one, form), self._product(other, form)
            shares.append(np.abs(first - second).max() / np.abs(first).max())
        return float(np.max(shares))  # which is no number if one of them is none

    def _product(self, multiplier: Multiplier, form: str) -> np.ndarray:
        a, b = self._operands[form]
        multiplier.multiply(form, a, b, self._result, *self._sizes)
        return self._gpu.download(self._result.array)

    def rate(self, multiplier: Multiplier) -> float:
        """FLOP/s."""
        m, n, k = self._sizes
        return 2 * m * n * k * len(self._operands) / self.seconds(multiplier)

    def seconds(self, multiplier: Multiplier) -> float:
        """The best of some rounds; each has been run once before, to be compiled."""
        return min(self._round(multiplier) for _ in range(REPEATS))

    def _round(self, multiplier: Multiplier) -> float:
        self._gpu.synchronize()
        begun = time.perf_counter()
        for form, (a, b) in self._operands.items():
            multiplier.multiply(form, a, b, self._result, *self._sizes)
        self._gpu.synchronize()
        return time.perf_counter() - begun
