"""Noise words follow p_α, and are a function of their position."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu import sampled
from neglm_cli.objective.noise import alias_table, probabilities

draw_noise = kernel(sampled.draw_noise)

COUNTS = (10_000 / np.arange(1, 61)).astype(np.int64)
KEY = np.uint64(77)


def drawn(positions: np.ndarray, k: int, alpha: float = 1.0, key: np.uint64 = KEY) -> np.ndarray:
    words = np.full((len(positions), k + 1), -1, np.int32)
    table = alias_table(probabilities(COUNTS, alpha))
    draw_noise(table, key, positions.astype(np.uint64), words[:, :k], 0, len(positions))
    assert (words[:, k] == -1).all()  # the column of the target
    return words[:, :k]


@pytest.mark.parametrize("alpha", [0.75, 1.0])
def test_words_follow_the_distribution(alpha: float) -> None:
    """Overall, for each of the k draws, and at large positions."""
    expected = probabilities(COUNTS, alpha)
    near, far = drawn(np.arange(20_000), 10, alpha), drawn(np.arange(20_000) + 2**40, 10, alpha)
    for words in (near, far, *near.T):
        found = np.bincount(words.reshape(-1), minlength=len(COUNTS))
        assert chisquare(found, expected * words.size).pvalue > 1e-4


@pytest.mark.parametrize("indices", [(0, 0, 0, 1), (0, 0, 1, 0), (0, 3, 1, 2)])
def test_words_are_independent(indices: tuple[int, int, int, int]) -> None:
    """Noise words of one position, and of neighboring positions."""
    row, i, other_row, other_i = indices
    words = np.minimum(drawn(np.arange(50_000), 5), 7)  # rare words as one class
    pairs = np.zeros((8, 8), np.int64)
    np.add.at(pairs, (words[row:-1, i], words[other_row : len(words) - 1 + other_row - row, other_i]), 1)
    assert chi2_contingency(pairs).pvalue > 1e-4


def test_the_same_position_and_key_give_the_same_words() -> None:
    """Regardless of the row, its neighbors, and k."""
    words = drawn(np.arange(100), 12)
    order = np.random.default_rng(0).permutation(100)
    np.testing.assert_array_equal(drawn(order, 12), words[order])
    np.testing.assert_array_equal(drawn(np.arange(100), 5), words[:, :5])
    np.testing.assert_array_equal(drawn(np.array([8, 8]), 12), words[[8, 8]])


def test_other_positions_and_keys_give_other_words() -> None:
    words = drawn(np.arange(100), 20)
    assert len(np.unique(words, axis=0)) == 100
    assert not (drawn(np.arange(100), 20, key=np.uint64(78)) == words).all(axis=1).any()


def test_only_the_given_rows_are_written() -> None:
    words = np.full((10, 4), -1, np.int32)
    table = alias_table(probabilities(COUNTS, 1.0))
    draw_noise(table, KEY, np.arange(10, dtype=np.uint64), words, 3, 6)
    np.testing.assert_array_equal(words[3:6], drawn(np.arange(3, 6), 4))
    assert (words[[0, 1, 2, 6, 7, 8, 9]] == -1).all()
