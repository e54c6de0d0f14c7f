"""Products of parts of matrices.

Their numbers are small and whole, so that sums are exact in any order. Around A and B lies what is not a number, and
around C a mark: nothing else may be read or written.
"""

from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cuda.gpu import Gpu, Kernel
from neglm_cli.lm.cuda.product import LARGE, SMALL, Part, Products, Tiled
from tests.lm.cuda.executors import SMALL_PRODUCTS

MARK = -7777.0
FORMS = Products._fields
SHAPES = [(1, 1, 1), (5, 3, 7), (9, 17, 4), (8, 8, 8), (16, 7, 13)]  # m, n, k; tiles are of 8, and 4 deep


class Case:
    """Groups of A, B and C below each other, with a row of something else between them, and all around."""

    def __init__(self, form: str, m: int, n: int, k: int, groups: int = 1) -> None:
        random = np.random.default_rng(m * n * k)
        self.form, self.sizes = form, (m, n, k)
        self.a, self.b, self.c = (
            random.integers(-3, 4, (groups, *shape)).astype(np.float32) for shape in ((m, k), (k, n), (m, n))
        )
        lying = (
            self.a.swapaxes(1, 2) if form == "outer" else self.a,
            self.b.swapaxes(1, 2) if form == "transposed" else self.b,
            self.c,
        )
        self.arrays = [laid_out(x, around) for x, around in zip(lying, (np.nan, np.nan, MARK), strict=True)]
        self.next_rows: Any = tuple(x.shape[1] + 1 for x in lying)

    def check(self, gpu: Gpu, multiplier: Any, add: bool) -> None:
        a, b, c = (Part(gpu.upload(array), 2, 3) for array in self.arrays)
        multiplier.multiply(self.form, a, b, c, *self.sizes, add, len(self.a), self.next_rows)
        np.testing.assert_array_equal(gpu.download(c.array), laid_out(self.a @ self.b + add * self.c, MARK))


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
    Case(form, *shape).check(gpu, Tiled(gpu, SMALL_PRODUCTS, SMALL_PRODUCTS), add=False)


@pytest.mark.parametrize("form", FORMS)
def test_groups_and_sums(gpu: Gpu, form: str) -> None:
    Case(form, 5, 9, 6, groups=3).check(gpu, Tiled(gpu, SMALL_PRODUCTS, SMALL_PRODUCTS), add=True)


@pytest.mark.parametrize("kernels", [SMALL, LARGE])
@pytest.mark.parametrize("form", FORMS)
def test_tiles_as_they_are_used(gpu: Gpu, form: str, kernels: Products) -> None:
    tile = kernels.inner.tile[0]
    Case(form, tile // 2 + 1, tile + 3, 19).check(gpu, Tiled(gpu, kernels, kernels), add=False)


def test_large_tiles_where_there_are_enough() -> None:
    class Recording:
        processors = 4
        used: tuple[Kernel, tuple[int, ...]]

        def launch(self, kernel: Kernel, blocks: tuple[int, ...], *arguments: Any) -> None:
            self.used = kernel, blocks

    gpu: Any = Recording()
    part = Part(None)
    for m, n, groups, expected in [
        (200, 200, 1, (LARGE.outer, (2, 2, 1))),
        (128, 384, 1, (SMALL.outer, (6, 2, 1))),
        (1, 1, 4, (LARGE.outer, (1, 1, 4))),
        (65, 64, 3, (SMALL.outer, (1, 2, 3))),
    ]:
        Tiled(gpu).multiply("outer", part, part, part, m, n, 7, groups=groups)
        assert gpu.used == expected
