"""Matrix products in all the memory layouts that the kernels use.

Values are small integers, so that sums are exact in any order. A and B are surrounded by NaN, C by a marker: nothing
else may be read or written.
"""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu import gemm
from neglm_cli.lm.cpu.batch_parts import batch_parts
from neglm_cli.lm.cpu.gemm import (
    L1_ROWS,
    L2_VALUES,
    MAX_ROWS,
    PANEL,
    Columns,
    Extent,
    Panels,
    Reduction,
    Rows,
)
from neglm_cli.simd import LANES

matmul, matmul_transposed = kernel(gemm.matmul), kernel(gemm.matmul_transposed)

MARK = -7777.0
MARGIN = 3  # values before and after a matrix


@dataclass(frozen=True)
class Case:
    rows: int
    steps: int
    panels: int
    narrow: bool = False
    accumulate: bool = False
    b_packed: bool = True
    c_packed: bool = True
    gap: int = 0  # values between rows, or between panels
    blocks: int = 1
    a_packed: bool = False  # consecutive blocks, not interleaved ones

    @property
    def columns(self) -> int:
        return self.panels * PANEL - (LANES if self.narrow else 0)


cases = st.builds(
    Case, st.integers(1, 25), st.integers(1, 210), st.integers(1, 3), *[st.booleans()] * 4, st.integers(0, 2 * LANES)
)  # fmt: skip
cases_with_blocks = st.builds(
    lambda case, blocks, packed: replace(case, blocks=blocks, a_packed=packed), cases, st.integers(1, 4), st.booleans()
)


def panel_strides(rows: int, columns: int, packed: bool, gap: int) -> tuple[int, int]:
    """Return the strides of rows and of panels."""
    return (PANEL, rows * PANEL + gap) if packed else (columns + gap, PANEL)


def panel_indices(rows: int, columns: int, strides: tuple[int, int]) -> np.ndarray:
    i, j = np.arange(rows)[:, None], np.arange(columns)
    return MARGIN + j // PANEL * strides[1] + i * strides[0] + j % PANEL


def laid_out(matrix: np.ndarray, indices: np.ndarray, around: float) -> np.ndarray:
    memory = np.full(indices.max() + 1 + MARGIN + PANEL, around, np.float32)
    memory[indices] = matrix
    return memory


class Product:
    """B and C of a case, the same for both kernels."""

    def __init__(self, case: Case) -> None:
        random = np.random.default_rng(case.steps)
        length = case.steps * case.blocks
        self.case = case
        self.a = random.integers(-3, 4, (case.rows, length))
        b = random.integers(-3, 4, (length, case.columns))
        c = random.integers(-99, 100, (case.rows, case.columns))
        self.expected = self.a @ b + case.accumulate * c
        b_strides = panel_strides(length, case.columns, case.b_packed, case.gap)
        c_strides = panel_strides(case.rows, case.columns, case.c_packed, case.gap)
        self.b = laid_out(b, panel_indices(length, case.columns, b_strides), np.nan)
        self.c_indices = panel_indices(case.rows, case.columns, c_strides)
        self.c = laid_out(c if case.accumulate else np.full_like(c, 12345), self.c_indices, MARK)
        self.b_panels, self.c_panels = Panels(self.b, MARGIN, *b_strides), Panels(self.c, MARGIN, *c_strides)

    def check(self) -> None:
        np.testing.assert_array_equal(self.c[self.c_indices], self.expected)
        around = np.ones(self.c.shape, bool)
        around[self.c_indices] = False
        assert (self.c[around] == MARK).all()


def check_matmul(case: Case) -> None:
    it = Product(case)
    stride = case.steps + case.gap if case.a_packed else case.steps * case.blocks + case.gap
    block = case.rows * stride + case.gap if case.a_packed else case.steps
    i, k = np.arange(case.rows)[:, None], np.arange(case.steps * case.blocks)
    a = laid_out(it.a, MARGIN + i * stride + k // case.steps * block + k % case.steps, np.nan)
    extent = Extent(case.rows, case.steps, case.blocks, case.panels, case.narrow)
    matmul(Rows(a, MARGIN, stride, block), it.b_panels, it.c_panels, extent, case.accumulate)
    it.check()


def check_matmul_transposed(case: Case, processes: int = 1) -> None:
    """The inner dimension is a batch, divided evenly among ranks; this is the first rank."""
    it = Product(case)
    stride = case.rows + case.gap
    a = laid_out(it.a, MARGIN + np.arange(it.a.shape[1]) * stride + np.arange(case.rows)[:, None], np.nan)
    parts = batch_parts(case.steps * processes, 0, processes)
    reduction = Reduction(parts, np.full(2 * case.rows * PANEL, np.nan, np.float32))
    extent = Extent(case.rows, case.steps, case.blocks, case.panels, case.narrow)
    matmul_transposed(Columns(a, MARGIN, stride), it.b_panels, it.c_panels, extent, reduction, case.accumulate)
    it.check()


@given(cases_with_blocks)
@example(Case(1, 1, 1))
@example(Case(MAX_ROWS + 1, 7, 2, narrow=True, b_packed=False, c_packed=False, blocks=3))
def test_matmul(case: Case) -> None:
    check_matmul(case)


@given(cases_with_blocks, st.sampled_from([1, 2, 3, 4]))
@example(Case(1, 1, 1), 1)
@example(Case(MAX_ROWS, L1_ROWS, 1), 4)
@example(Case(MAX_ROWS + 1, L1_ROWS + 1, 2, narrow=True, b_packed=False, c_packed=False), 4)
@example(Case(3, 5, 1, blocks=L1_ROWS // 5 + 1), 4)
def test_matmul_transposed(case: Case, processes: int) -> None:
    check_matmul_transposed(case, processes)


def test_more_rows_than_fit_in_a_cache() -> None:
    """Rows are processed in several blocks, the last of which is partial."""
    case = Case(2 * MAX_ROWS + 3, L2_VALUES // MAX_ROWS, 2, gap=1)
    check_matmul(case)
    check_matmul(replace(case, accumulate=True))


def test_every_number_of_rows() -> None:
    """All tile sizes occur."""
    for rows in range(1, 3 * MAX_ROWS + 1):
        check_matmul(Case(rows, 5, 1, gap=2))
        check_matmul_transposed(Case(rows, 5, 1, gap=2))


def test_no_steps() -> None:
    """An empty sum is zero and adds nothing: a thread may own no words."""
    a, b = np.zeros((2, 1), np.float32)
    for accumulate in (False, True):
        c = np.ones((2, 3, PANEL), np.float32)
        extent, empty = Extent(3, 0, 1, 1, False), Panels(b, 0, 0, 0)
        matmul(Rows(a, 0, 0, 0), empty, Panels(c[0].reshape(-1), 0, PANEL, PANEL), extent, accumulate)
        reduction = Reduction(batch_parts(0, 0, 1), np.zeros(2 * 3 * PANEL, np.float32))
        target = Panels(c[1].reshape(-1), 0, PANEL, PANEL)
        matmul_transposed(Columns(a, 0, 0), empty, target, extent, reduction, accumulate)
        assert (c == accumulate).all()
