"""Products of submatrices.

Values are small integers, so that sums are exact in any order. A and B are surrounded by NaN, C by a marker: nothing
else may be read or written.
"""

from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cuda.gemm import LARGE, SMALL, Extent, GemmKernels, Groups, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import Gpu, Kernel
from tests.lm.cuda.executors import SMALL_GEMMS

MARK = -7777.0
FORMS = GemmKernels._fields
SHAPES = [(1, 1, 1), (5, 3, 7), (9, 17, 4), (8, 8, 8), (16, 7, 13)]  # m, n, k; tiles are of 8, and 4 deep


class Case:
    """Stacked groups of A, B and C, separated and surrounded by other values."""

    def __init__(self, form: str, m: int, n: int, k: int, groups: int = 1) -> None:
        random = np.random.default_rng(m * n * k)
        self.form, self.extent = form, Extent(m, n, k)
        self.a, self.b, self.c = (
            random.integers(-3, 4, (groups, *shape)).astype(np.float32) for shape in ((m, k), (k, n), (m, n))
        )
        stored = (
            self.a.swapaxes(1, 2) if form == "tn" else self.a,
            self.b.swapaxes(1, 2) if form == "nt" else self.b,
            self.c,
        )
        self.arrays = [laid_out(x, around) for x, around in zip(stored, (np.nan, np.nan, MARK), strict=True)]
        self.groups = Groups(groups, *(x.shape[1] + 1 for x in stored))

    def check(self, gpu: Gpu, gemm: Any, accumulate: bool) -> None:
        a, b, c = (MatrixView(gpu.upload(array), 2, 3) for array in self.arrays)
        gemm.matmul(self.form, a, b, c, self.extent, accumulate, self.groups)
        np.testing.assert_array_equal(gpu.download(c.array), laid_out(self.a @ self.b + accumulate * self.c, MARK))


def laid_out(groups: np.ndarray, around: float) -> np.ndarray:
    count, height, width = groups.shape
    memory = np.full((2 + count * (height + 1), 3 + width + 2), around, np.float32)
    for group, matrix in enumerate(groups):
        top = 2 + group * (height + 1)
        memory[top : top + height, 3 : 3 + width] = matrix
    return memory


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_odd_shapes(gpu: Gpu, form: str, shape: tuple[int, int, int]) -> None:
    Case(form, *shape).check(gpu, TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS), accumulate=False)


@pytest.mark.parametrize("form", FORMS)
def test_groups_and_sums(gpu: Gpu, form: str) -> None:
    Case(form, 5, 9, 6, groups=3).check(gpu, TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS), accumulate=True)


@pytest.mark.parametrize("kernels", [SMALL, LARGE])
@pytest.mark.parametrize("form", FORMS)
def test_real_tile_sizes(gpu: Gpu, form: str, kernels: GemmKernels) -> None:
    tile = kernels.nn.tile[0]
    Case(form, tile // 2 + 1, tile + 3, 19).check(gpu, TiledGemm(gpu, kernels, kernels), accumulate=False)


def test_large_tiles_if_there_are_enough() -> None:
    class Recording:
        multiprocessors = 4
        used: tuple[Kernel, tuple[int, ...]]

        def launch(self, kernel: Kernel, blocks: tuple[int, ...], **arguments: Any) -> None:
            self.used = kernel, blocks

    gpu: Any = Recording()
    view = MatrixView(None)
    for m, n, groups, expected in [
        (200, 200, 1, (LARGE.tn, (2, 2, 1))),
        (128, 384, 1, (SMALL.tn, (6, 2, 1))),
        (1, 1, 4, (LARGE.tn, (1, 1, 4))),
        (65, 64, 3, (SMALL.tn, (1, 2, 3))),
    ]:
        TiledGemm(gpu).matmul("tn", view, view, view, Extent(m, n, 7), groups=Groups(groups))
        assert gpu.used == expected
