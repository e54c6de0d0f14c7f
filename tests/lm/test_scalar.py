"""The mathematics of one unit and one parameter: compiled for float32, and the CPU's vectorized variants of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neglm_cli.kernels import kernel
from neglm_cli.lm import optimizers, scalar
from neglm_cli.lm.cpu import cell
from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.tables import Dropout, dropout
from neglm_cli.objective.noise import noise_positions
from neglm_cli.objective.random import draw

COUNT = 50
BIT_FOR_BIT: dict[str, tuple[Callable[..., Any], int]] = {  # functions of additions, multiplications, roots; arguments
    "sgd": (optimizers.sgd, 3),
    "adagrad": (optimizers.adagrad, 4),
    "adam": (optimizers.adam, 5),
    "adam_without_gradient": (optimizers.adam_without_gradient, 4),
}
CLOSE: dict[str, tuple[Callable[..., Any], int]] = {  # with exp and tanh, which libraries round differently
    "sigmoid": (scalar.sigmoid, 1),
    "cell_forward": (scalar.cell_forward, 5),
    "cell_backward": (scalar.cell_backward, 7),
}


def both(function: Callable[..., Any], arity: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute in a kernel, number by number, and with NumPy, both in float32."""
    given = np.abs(np.random.default_rng(arity).standard_normal((arity, COUNT)).astype(np.float32))
    compiled = kernel(function)
    found = np.array([compiled(*numbers) for numbers in given.T]).T
    np.testing.assert_array_equal(found, found.astype(np.float32))
    return found.astype(np.float32), np.array(function(*given))


@pytest.mark.parametrize("name", BIT_FOR_BIT)
def test_updates_in_float32(name: str) -> None:
    found, expected = both(*BIT_FOR_BIT[name])
    assert expected.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", CLOSE)
def test_cell_in_float32(name: str) -> None:
    found, expected = both(*CLOSE[name])
    assert expected.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_sigmoid_far_from_zero() -> None:
    x = np.array([-60.0, -20.0, 0.0, 20.0, 60.0])
    np.testing.assert_allclose(scalar.sigmoid(x), np.exp(-np.logaddexp(0, -x)), rtol=1e-12)


def test_zero_gradients() -> None:
    """A step without a gradient is a step whose gradient is zero."""
    p, m, v, rate = np.random.default_rng(0).random((4, COUNT)).astype(np.float32)
    for found, expected in zip(
        optimizers.adam_without_gradient(p, m, v, rate), optimizers.adam(p, m, v, np.float32(0), rate), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_moments_decay_at_once() -> None:
    m, v = np.array([2.0, -3.0]), np.array([2.0, 3.0])
    found = optimizers.decay_moments(m, v, 40)
    for _ in range(40):
        _, m, v = optimizers.adam_without_gradient(0.0, m, v, 0.0)
    np.testing.assert_allclose(found, (m, v), rtol=1e-6)


# --- vectorized variants --------------------------------------------------------------------------------


@kernel
def simd_forward(z, c, h, out, mask):  # type: ignore[no-untyped-def]
    cell.cell_forward(z, c, h, out, (0, 0, UNITS, 0, 0), mask)


@kernel
def simd_backward(z, c, d_out, d_h, d_c, mask):  # type: ignore[no-untyped-def]
    cell.cell_backward(z, c, d_out, d_h, d_c, (0, 0, 0, 0, 0), mask)


def normal(seed: int, *shape: int) -> np.ndarray:
    return 2 * np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("mask", [1.0, 0.0])
def test_simd_cell_forward(mask: float) -> None:
    z, c, (h, out) = normal(0, 4, UNITS), normal(1, 2 * UNITS), normal(2, 2, UNITS)
    wide = [array.astype(np.float64) for array in (*z, c[:UNITS])]
    *gates, cell_state, hidden = scalar.cell_forward(*wide)
    simd_forward(z, c, h, out, np.float32(mask))
    np.testing.assert_allclose(z, gates, rtol=0, atol=1e-6)
    np.testing.assert_allclose(c[UNITS:], mask * cell_state, rtol=0, atol=1e-6)
    np.testing.assert_allclose(h, mask * hidden, rtol=0, atol=1e-6)
    np.testing.assert_allclose(out, hidden, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mask", [1.0, 0.0])
def test_simd_cell_backward(mask: float) -> None:
    gates, (c, d_out, d_h, d_c) = scalar.sigmoid(normal(3, 4, UNITS)), normal(4, 4, UNITS)
    wide = [array.astype(np.float64) for array in (*gates, c, d_out + mask * d_h, mask * d_c)]
    *d_z, d_before = scalar.cell_backward(*wide)
    simd_backward(gates, c, d_out, d_h, d_c, np.float32(mask))
    np.testing.assert_allclose(gates, d_z, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(d_c, d_before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("units", [3, 4, 37])
@pytest.mark.parametrize("threshold", [0, 20_000, 65_535])
def test_vectorized_dropout(units: int, threshold: int) -> None:
    key, positions, source = np.uint64(7), np.arange(100, 106, dtype=np.uint64), normal(5, 6, units)
    found = np.empty_like(source)
    kernel(dropout)(source, found, units, Dropout(positions, key, threshold), 0, 6)
    row_keys = draw(np.full(6, key), positions)[:, None]
    masks = scalar.dropout_mask(row_keys, np.arange(units, dtype=np.uint64), threshold)
    assert masks.dtype == np.float32
    np.testing.assert_array_equal(found, source * masks)


# --- noise ----------------------------------------------------------------------------------------------


def test_positions_of_noise() -> None:
    positions = np.array([[5, 6, 7], [15, 16, 17]], np.uint64)
    assert noise_positions("token", positions, 4, 3) is positions
    assert noise_positions("step", positions, 4, 3).tolist() == [[12, 13, 14]]
    assert noise_positions("step", positions[:, :1], 4, 3).tolist() == [[12]]  # a shorter minibatch
    assert noise_positions("batch", positions, 4, 3).tolist() == [[4]]
