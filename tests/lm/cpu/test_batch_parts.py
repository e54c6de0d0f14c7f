"""Sums over the rows of a batch have the same bits for any number of ranks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu import gemm
from neglm_cli.lm.cpu.batch_parts import PARTS, batch_parts, part_of_rows
from neglm_cli.lm.cpu.gemm import PANEL, Columns, Extent, Panels, Reduction
from neglm_cli.scale.ranks import pairwise_sum, split_evenly

matmul_transposed = kernel(gemm.matmul_transposed)

INPUTS = 7


def summed(a: np.ndarray, b: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Multiply A (steps, batch, INPUTS), transposed, by B (steps, batch, PANEL)."""
    steps, batch = a.shape[:2]
    c, scratch = np.empty((INPUTS, PANEL), np.float32), np.empty(2 * INPUTS * PANEL, np.float32)
    matmul_transposed(
        Columns(np.ascontiguousarray(a).reshape(-1), 0, INPUTS),
        Panels(np.ascontiguousarray(b).reshape(-1), 0, PANEL, 0),
        Panels(c.reshape(-1), 0, PANEL, 0), Extent(INPUTS, batch, steps, 1, False), Reduction(parts, scratch), False,
    )  # fmt: skip
    return c


@pytest.mark.parametrize("batch", [4, 7, 20, 500])
@pytest.mark.parametrize("processes", [2, 4])
def test_one_two_and_four_ranks_get_the_same_bits(batch: int, processes: int) -> None:
    random = np.random.default_rng(batch)
    a, b = (random.standard_normal((9, batch, width)).astype(np.float32) for width in (INPUTS, PANEL))
    one = summed(a, b, batch_parts(batch, 0, 1))
    starts = split_evenly(batch, processes)
    each = [
        summed(a[:, first:last], b[:, first:last], batch_parts(batch, rank, processes))
        for rank, (first, last) in enumerate(pairwise(starts))
    ]
    np.testing.assert_array_equal(pairwise_sum(np.array(each)), one)
    assert (one != summed(a, b, np.array([0, batch]))).any()  # another order gives other bits


@given(st.integers(1, 100), st.integers(1, 9))
def test_every_row_has_a_part(batch: int, processes: int) -> None:
    starts = split_evenly(batch, processes)
    for rank in range(processes):
        parts = batch_parts(batch, rank, processes)
        assert parts[-1] == starts[rank + 1] - starts[rank]
        assert len(parts) - 1 == (PARTS // processes if PARTS % processes == 0 else 1)
        assert len(part_of_rows(parts)) == parts[-1]
        assert (np.diff(parts) >= 0).all()


@given(st.integers(1, 20))
def test_pairs_of_pairs(count: int) -> None:
    """The digits of a sum of 1, 10, 100, … show that each part counts once."""
    powers = np.array([10.0**i for i in range(count)])
    assert pairwise_sum(powers.copy()[:, None])[0] == pytest.approx(powers.sum())
