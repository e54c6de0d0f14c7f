"""Histograms of PMI and scores against dense arithmetic."""

import numpy as np
import pytest

from neglm_cli.objective.density import density, scores_at
from neglm_cli.objective.theorem import Scores
from tests.objective.making import Dense, joint_of, random_table

SAMPLES = 40_000


def case(empty: float) -> tuple[np.ndarray, Dense, np.ndarray, Scores]:
    table = random_table(5, 12, 9, empty)
    random = np.random.default_rng(6)
    vectors, contexts, offset = (random.standard_normal(shape) for shape in ((12, 3), (9, 3), (9,)))
    return table, Dense(table, 4, 0.75), vectors @ contexts.T + offset, Scores.of(vectors, contexts, offset)


def test_scores() -> None:
    table, _, m, scores = case(0.5)
    rows, columns = np.nonzero(table)
    np.testing.assert_allclose(scores_at(scores, rows, columns), m[rows, columns])


def test_the_histogram() -> None:
    table, dense, m, scores = case(0.5)
    found = density(joint_of(table, 4, 0.75), scores, 40, SAMPLES, 1)
    rows, columns = np.nonzero(table)
    pmi, learned, p = dense.pmi[rows, columns], m[rows, columns], dense.p[rows, columns]
    inside = (pmi >= found.pmi_edges[0]) & (pmi <= found.pmi_edges[-1])
    inside &= (learned >= found.score_edges[0]) & (learned <= found.score_edges[-1])
    assert found.observed.sum() == pytest.approx(p[inside].sum())
    assert found.observed.sum() > 0.997
    middle = (found.pmi_edges[:-1] + found.pmi_edges[1:]) / 2
    width = found.pmi_edges[1] - found.pmi_edges[0]
    assert found.observed.sum(axis=1) @ middle == pytest.approx(p @ pmi, abs=width)
    centre = (found.score_edges[:-1] + found.score_edges[1:]) / 2
    assert found.observed.sum(axis=0) @ centre == pytest.approx(p @ learned, abs=width)
    expected = np.cov(pmi, learned, aweights=p, ddof=0)
    assert found.correlation == pytest.approx(expected[0, 1] / np.sqrt(expected[0, 0] * expected[1, 1]))


def test_pairs_that_never_occur() -> None:
    table, dense, m, scores = case(0.5)
    found = density(joint_of(table, 4, 0.75), scores, 40, SAMPLES, 1)
    noise = np.where(table == 0, dense.p_x * dense.noise, 0)
    assert found.empty_share == pytest.approx(noise.sum(), abs=0.02)
    centre = (found.score_edges[:-1] + found.score_edges[1:]) / 2
    assert found.empty @ centre == pytest.approx((noise * m).sum() / noise.sum(), abs=0.2)
    full = density(joint_of(case(0)[0], 4, 0.75), scores, 40, SAMPLES, 1)
    assert full.empty_share == 0
    assert full.empty.sum() == 0


def test_medians_follow_a_perfect_approximation() -> None:
    table = random_table(7, 12, 9)
    dense = Dense(table, 4, 0.75)
    left, values, right = np.linalg.svd(dense.pmi, full_matrices=False)
    joint = joint_of(table, 4, 0.75)
    perfect = density(joint, Scores.of(left * values, right.T, np.zeros(9)), 50, 100, 1)
    middle = (perfect.pmi_edges[:-1] + perfect.pmi_edges[1:]) / 2
    valid = ~np.isnan(perfect.median)
    assert valid.any()
    width = perfect.pmi_edges[1] - perfect.pmi_edges[0]
    np.testing.assert_allclose(perfect.median[valid], middle[valid], atol=1.01 * width)
    assert perfect.correlation == pytest.approx(1)


def test_constant_scores() -> None:
    table = random_table(7, 4, 4)
    found = density(joint_of(table, 4, 0.75), Scores.of(np.zeros((4, 2)), np.zeros((4, 2)), np.zeros(4)), 50, 100, 1)
    assert found.correlation is None
    assert found.observed.sum() > 0.997


def test_the_error_of_a_sample_of_words() -> None:
    """The jackknife's error, averaged over samples, is the spread of the correlation between them."""
    table = random_table(8, 1200, 9, 0.2)
    random = np.random.default_rng(9)
    vectors, contexts = random.standard_normal((1200, 3)), random.standard_normal((9, 3))
    found = []
    for first in range(12):
        rows = np.arange(first, 1200, 12)
        scores = Scores.of(vectors[rows], contexts, np.zeros(9))
        found.append(density(joint_of(table[rows], 4, 0.75), scores, 40, 100, 1))
    spread = np.std([each.correlation or 0 for each in found], ddof=1)
    assert 0.5 * spread < np.mean([each.correlation_error for each in found]) < 2 * spread
