"""Activation functions agree with NumPy in float64, over their whole input range."""

import numpy as np
import pytest

from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu import functions

NUMBERS = np.concatenate([
    np.linspace(-100, 100, 400_001), np.linspace(-1, 1, 100_001), [0.0, -0.0, 1e-30, -1e-30],
]).astype(np.float32)  # fmt: skip


@kernel
def compute_exp(numbers: np.ndarray, results: np.ndarray) -> None:
    for i in range(numbers.size):
        results[i] = functions.exp(numbers[i])


@kernel
def compute_both(numbers: np.ndarray, results: np.ndarray) -> None:
    for i in range(numbers.size):
        results[0, i], results[1, i] = functions.sigmoid_and_softplus(numbers[i])


dot, sum_of_squares, add_row = (kernel(each) for each in (functions.dot, functions.sum_of_squares, functions.add_row))


def exp(numbers: np.ndarray) -> np.ndarray:
    results = np.empty_like(numbers)
    compute_exp(numbers, results)
    return results


def sigmoid_and_softplus(numbers: np.ndarray) -> np.ndarray:
    results = np.empty((2, numbers.size), np.float32)
    compute_both(numbers, results)
    return results


def test_exp() -> None:
    inside = NUMBERS[(NUMBERS >= functions.LOWEST) & (NUMBERS <= functions.HIGHEST)]
    expected = np.exp(inside.astype(np.float64))
    np.testing.assert_allclose(exp(inside), expected, rtol=3e-7, atol=0)
    assert exp(np.zeros(1, np.float32))[0] == 1


def test_exp_neither_overflows_nor_vanishes() -> None:
    below, above = exp(np.array([-1e30, -100, -88], np.float32)), exp(np.array([89, 100, 1e30], np.float32))
    np.testing.assert_allclose(below, np.exp(-87.0), rtol=3e-7)
    np.testing.assert_allclose(above, np.exp(88.0), rtol=3e-7)


def test_sigmoid() -> None:
    x = NUMBERS.astype(np.float64)
    found = sigmoid_and_softplus(NUMBERS)[0]
    np.testing.assert_allclose(found, np.exp(-np.logaddexp(0, -x)), rtol=0, atol=2e-7)
    np.testing.assert_array_equal(found[NUMBERS > 20], 1)
    small = (x < -1) & (x > -87)
    np.testing.assert_allclose(found[small], np.exp(-np.logaddexp(0, -x[small])), rtol=5e-7)


def test_softplus() -> None:
    x = NUMBERS.astype(np.float64)
    found = sigmoid_and_softplus(NUMBERS)[1]
    np.testing.assert_allclose(found, np.logaddexp(0, x), rtol=2e-7, atol=2e-7)
    np.testing.assert_array_equal(found[NUMBERS > 20], NUMBERS[NUMBERS > 20])


@pytest.mark.parametrize("lane", range(5))
def test_nan_stays_nan(lane: int) -> None:
    """In any lane of a vector of ordinary values."""
    numbers = np.linspace(-3, 3, 37).astype(np.float32)
    numbers[lane::5] = np.nan
    for found in (exp(numbers), *sigmoid_and_softplus(numbers)):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(numbers))


def test_products_and_sums_of_rows() -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-5, 6, (4, 37)).astype(np.float32) for _ in range(2))
    assert dot(a, 1, b, 2, 35) == a[1, :35] @ b[2, :35]
    assert sum_of_squares(a, 3) == (a[3] ** 2).sum()
    expected = b.copy()
    expected[2, :35] += 3 * a[1, :35]
    add_row(np.float32(3), a, 1, b, 2, 35)
    np.testing.assert_array_equal(b, expected)
