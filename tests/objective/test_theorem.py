"""Theorem 1 holds, and blocked, sparse and sampled computations match the formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.objective import theorem
from neglm_cli.objective.theorem import Scores, exact, kept, sampled
from tests.objective.making import Dense, joint_of, random_table

seeds = st.integers(0, 10**6)


@settings(max_examples=60)
@given(
    seeds,
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(1, 20),
    st.sampled_from([0.0, 0.5, 0.75, 1.0]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.1, 3.0, 40.0]),
)
def test_the_gap_is_the_divergence(
    seed: int, words: int, contexts: int, k: int, alpha: float, empty: float, scale: float
) -> None:
    table = random_table(seed, words, contexts, empty)
    joint, dense = joint_of(table, k, alpha), Dense(table, k, alpha)
    random = np.random.default_rng(seed)
    x, y, offset = (random.normal(0, scale, shape) for shape in ((words, 3), (contexts, 3), (contexts,)))
    found = exact(joint, Scores.of(x, y, offset), top=4)
    m = x @ y.T + offset
    parts = dense.divergences(m)

    assert joint.optimum() == pytest.approx(dense.score(dense.pmi), abs=1e-10)
    assert found.score == pytest.approx(dense.score(m), rel=1e-12, abs=1e-10)
    assert joint.optimum() - found.score == pytest.approx(found.divergence, rel=1e-12, abs=1e-10)
    assert found.divergence == pytest.approx(parts.sum(), rel=1e-12, abs=1e-10)
    assert found.divergence >= 0
    assert min(found.by_word.min(), found.by_context.min()) >= 0
    np.testing.assert_allclose(found.by_word, parts.sum(1), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.by_context, parts.sum(0), rtol=1e-9, atol=1e-10)
    largest = np.sort(parts.ravel())[::-1][: len(found.parts)]
    np.testing.assert_allclose(found.parts, largest, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(parts[found.rows, found.columns], found.parts, rtol=1e-9, atol=1e-10)


@given(seeds, st.integers(1, 20), st.sampled_from([0.0, 0.75, 1.0]))
def test_independence_is_the_optimum_of_column_constants(seed: int, k: int, alpha: float) -> None:
    table = random_table(seed, 5, 4, 0.3)
    joint, dense = joint_of(table, k, alpha), Dense(table, k, alpha)
    constants = np.log(dense.p_y / dense.noise) - np.log(k)
    assert joint.independence() == pytest.approx(dense.score(np.tile(constants, (5, 1))), abs=1e-12)
    for change in (-0.01, 0.01):
        assert dense.score(np.tile(constants + change, (5, 1))) < joint.independence()


def test_kept_is_one_for_the_pmi_matrix_and_zero_for_independence() -> None:
    table = random_table(3, 6, 5)
    joint, dense = joint_of(table, 4, 0.75), Dense(table, 4, 0.75)
    whole = exact(joint, Scores.of(dense.pmi, np.eye(5), np.zeros(5)))
    assert whole.divergence < 1e-15
    assert kept(joint, whole.divergence) == pytest.approx(1)
    constants = (np.log(dense.p_y / dense.noise) - np.log(4)).ravel()
    nothing = exact(joint, Scores.of(np.zeros((6, 1)), np.zeros((5, 1)), constants))
    assert kept(joint, nothing.divergence) == pytest.approx(0, abs=1e-12)
    assert kept(joint_of(np.outer([1, 2], [3, 4]), 2, 1.0), 0.0) is None


def test_scores_for_the_conditional_objective() -> None:
    table = random_table(4, 6, 5)
    joint, dense = joint_of(table, 3, 0.75), Dense(table, 3, 0.75)
    conditional = np.log(dense.p / dense.p_x)
    assert exact(joint, Scores.of(conditional, np.eye(5), joint.score_offset("cond"))).divergence < 1e-15


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    table = random_table(5, 40, 30, 0.6)
    joint = joint_of(table, 5, 0.75)
    random = np.random.default_rng(5)
    scores = Scores.of(random.normal(size=(40, 4)), random.normal(size=(30, 4)), random.normal(size=30))
    whole = exact(joint, scores, top=7)
    monkeypatch.setattr(theorem, "BLOCK_CELLS", 100)
    pieces = exact(joint, scores, 7, threads)
    assert pieces.score == pytest.approx(whole.score, rel=1e-13)
    np.testing.assert_allclose(pieces.by_context, whole.by_context, rtol=1e-12)
    np.testing.assert_array_equal(pieces.by_word, whole.by_word)
    np.testing.assert_array_equal(pieces.rows, whole.rows)
    np.testing.assert_array_equal(pieces.columns, whole.columns)


def test_words_without_pairs_add_nothing() -> None:
    table = random_table(6, 5, 4, 0.3)
    joint = joint_of(table, 2, 1.0)
    joint.p_x[2] = 0
    keep = joint.rows != 2
    without = type(joint)(joint.rows[keep], joint.columns[keep], joint.p[keep], joint.p_x, joint.p_y, joint.noise, 2)
    assert exact(without, Scores.of(np.ones((5, 2)), np.ones((4, 2)), np.zeros(4))).by_word[2] == 0


def test_samples_agree_with_all_cells() -> None:
    table = random_table(7, 60, 50, 0.8)
    joint = joint_of(table, 5, 0.75)
    random = np.random.default_rng(7)
    scores = Scores.of(random.normal(size=(60, 4)), random.normal(size=(50, 4)), np.full(50, -1.0))
    whole = exact(joint, scores, top=3)
    errors = []
    for seed in range(20):
        estimate = sampled(joint, scores, 20_000, seed, 3, threads=2)
        assert 0 < estimate.standard_error < 0.02 * whole.divergence
        errors.append((estimate.divergence - whole.divergence) / estimate.standard_error)
        assert estimate.score == pytest.approx(joint.optimum() - estimate.divergence, abs=1e-14)
        assert estimate.by_word.sum() == pytest.approx(estimate.divergence, rel=1e-9)
        assert estimate.by_context.sum() == pytest.approx(estimate.divergence, rel=1e-9)
    assert np.abs(errors).max() < 5
    assert 0.5 < np.std(errors) < 1.6  # the standard error is neither too large nor too small
    assert sampled(joint, scores, 150_000, 1, threads=1).divergence == sampled(
        joint, scores, 150_000, 1, threads=3
    ).divergence  # fmt: skip


def test_without_empty_cells_sampling_is_exact() -> None:
    joint = joint_of(random_table(8, 6, 5), 5, 1.0)
    scores = Scores.of(np.ones((6, 2)), np.ones((5, 2)), np.zeros(5))
    estimate, whole = sampled(joint, scores, 100, 1, top=4), exact(joint, scores, top=4)
    assert estimate.standard_error == 0
    assert estimate.divergence == pytest.approx(whole.divergence, rel=1e-12)
    np.testing.assert_array_equal(estimate.rows, whole.rows)
    np.testing.assert_array_equal(estimate.columns, whole.columns)


def test_vectors_with_nan() -> None:
    with pytest.raises(NeglmError, match="NaN or infinite"):
        Scores.of(np.array([[np.nan]]), np.ones((1, 1)), np.zeros(1))
