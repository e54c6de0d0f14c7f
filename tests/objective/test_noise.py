"""Noise words are drawn in proportion to count^α."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.kernels import kernel
from neglm_cli.objective.noise import alias_table, draw_word, probabilities
from neglm_cli.objective.random import draw


@kernel
def count_draws(table: np.ndarray, key: np.uint64, count: int, found: np.ndarray) -> None:
    for i in range(count):
        found[draw_word(table, draw(key, np.uint64(i)))] += 1


def histogram(table: np.ndarray, key: np.uint64, count: int) -> np.ndarray:
    found = np.zeros(table.size, np.int64)
    count_draws(table, key, count, found)
    return found


def shares(table: np.ndarray) -> np.ndarray:
    """Return the exact probability of each word in an alias table."""
    first = (table >> np.uint64(32)).astype(np.float64) / 2**32
    result = first / len(table)
    np.add.at(result, (table & np.uint64(0xFFFFFFFF)).astype(int), (1 - first) / len(table))
    return result


def test_probabilities() -> None:
    np.testing.assert_allclose(probabilities(np.array([16, 1]), 0.75), [8 / 9, 1 / 9])
    np.testing.assert_allclose(probabilities(np.array([16, 1, 5]), 0), [1 / 3] * 3)
    np.testing.assert_allclose(probabilities(np.array([3, 1]), 1), [0.75, 0.25])


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50), st.sampled_from([0.0, 0.5, 0.75, 1.0]))
def test_alias_table_has_the_exact_distribution(counts: list[int], alpha: float) -> None:
    distribution = probabilities(np.array(counts), alpha)
    np.testing.assert_allclose(shares(alias_table(distribution)), distribution, atol=2e-9)


@pytest.mark.parametrize("alpha", [0.75, 1.0])
def test_draws_follow_the_distribution(alpha: float) -> None:
    counts = np.array([100_000, 50_000, 777, 50, 1])
    distribution = probabilities(counts, alpha)
    count = 1_000_000
    found = histogram(alias_table(distribution), np.uint64(5), count)
    error = np.sqrt(count * distribution * (1 - distribution))
    assert (abs(found - count * distribution) < 5 * error + 1).all()


def test_a_single_word() -> None:
    assert histogram(alias_table(np.ones(1)), np.uint64(1), 100).tolist() == [100]
