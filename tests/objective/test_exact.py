"""Full-batch training: the gradient, and the maximum of the theorem."""

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.objective import exact as exact_module
from neglm_cli.objective.exact import lbfgs, maximize, optimize, score_and_gradients
from neglm_cli.objective.svd import pmi_svd
from neglm_cli.objective.theorem import Scores, exact
from tests.objective.making import Dense, joint_of, pairs_of_table, random_table


@pytest.mark.parametrize("objective", ["pmi", "cond"])
@pytest.mark.parametrize("block", [5, 1000])
def test_the_gradient(monkeypatch: pytest.MonkeyPatch, objective: str, block: int) -> None:
    monkeypatch.setattr(exact_module, "BLOCK_CELLS", block)
    joint = joint_of(random_table(1, 6, 5, 0.4), 3, 0.75)
    random = np.random.default_rng(1)
    x, y, offset = random.normal(size=(6, 2)), random.normal(size=(5, 2)), joint.score_offset(objective)
    value, x_gradient, y_gradient = score_and_gradients(joint, Scores.of(x, y, offset))
    assert value == pytest.approx(exact(joint, Scores.of(x, y, offset)).score, abs=1e-14)
    for matrix, gradient in ((x, x_gradient), (y, y_gradient)):
        for i in np.ndindex(matrix.shape):
            here = matrix[i]
            sides = []
            for change in (1e-5, -1e-5):
                matrix[i] = here + change
                sides.append(exact(joint, Scores.of(x, y, offset)).score)
            matrix[i] = here
            assert gradient[i] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-9)


@pytest.mark.parametrize("shape", [(6, 5), (5, 8), (20, 15)])
@pytest.mark.parametrize("alpha", [0.75, 1.0])
def test_full_rank_reaches_the_pmi_matrix(shape: tuple[int, int], alpha: float) -> None:
    table = random_table(2, *shape)
    dense = Dense(table, 5, alpha)
    found = maximize(pairs_of_table(table), min(shape), 5, alpha)
    assert found.converged
    assert 0 <= found.divergence < 1e-6
    assert found.score == pytest.approx(dense.score(dense.pmi), abs=1e-6)
    np.testing.assert_allclose(found.vectors @ found.context_vectors.T, dense.pmi, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.75, 1.0])
def test_the_conditional_objective_reaches_log_p_y_given_x(alpha: float) -> None:
    table = random_table(3, 8, 6)
    dense = Dense(table, 4, alpha)
    found = maximize(pairs_of_table(table), 6, 4, alpha, "cond")
    np.testing.assert_allclose(found.vectors @ found.context_vectors.T, np.log(dense.p / dense.p_x), atol=1e-6)


@pytest.mark.parametrize("objective", ["pmi", "cond"])
def test_full_rank_optimum_is_reached_from_any_start(objective: str) -> None:
    """Not only from the SVD, which starts at the optimum."""
    table = random_table(4, 8, 6)
    joint, dense = joint_of(table, 3, 0.75), Dense(table, 3, 0.75)
    random = np.random.default_rng(4)
    offset = joint.score_offset(objective)
    start = Scores.of(random.normal(0, 0.3, (8, 6)), random.normal(0, 0.3, (6, 6)), offset)
    found = optimize(joint, start, 2000, tolerance=1e-11)
    assert found.converged
    assert found.divergence < 1e-8
    np.testing.assert_allclose(found.vectors @ found.context_vectors.T + offset, dense.pmi, atol=1e-2)


@pytest.mark.parametrize("empty", [0.0, 0.5])
def test_low_rank_beats_svd_and_every_iteration_increases_s(empty: float) -> None:
    table = random_table(5, 40, 30, empty)
    joint = joint_of(table, 5, 1.0)
    values: list[float] = []
    most = 10_000  # the number of iterations depends on the CPU's rounding
    found = maximize(
        pairs_of_table(table), 4, 5, max_iterations=most, report=lambda iteration, score: values.append(score)
    )
    assert found.converged
    assert len(values) == found.iterations
    assert (np.diff(values) >= 0).all()
    assert found.divergence < 0.95 * exact(joint, pmi_svd(joint, 4, 1)).divergence
    assert joint.optimum() - found.score == pytest.approx(found.divergence, abs=1e-10)
    _, x_gradient, y_gradient = score_and_gradients(
        joint, Scores.of(found.vectors, found.context_vectors, joint.score_offset("pmi"))
    )
    assert max(np.abs(x_gradient).max(), np.abs(y_gradient).max()) < 1e-3
    again = maximize(pairs_of_table(table), 4, 5, max_iterations=most)
    np.testing.assert_array_equal(again.vectors, found.vectors)


def test_too_few_iterations_are_not_convergence() -> None:
    found = maximize(pairs_of_table(random_table(6, 20, 15, 0.5)), 3, 5, max_iterations=5)
    assert (found.iterations, found.converged) == (5, False)


@pytest.mark.parametrize("size", [1, 3, 40])
def test_a_large_matrix_starts_from_the_sparse_svd(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(exact_module, "DENSE_CELLS", 0)
    table = random_table(7, 12, 10, 0.3)
    found = maximize(pairs_of_table(table), size, 5)
    assert found.vectors.shape == (12, size)
    assert found.score > joint_of(table, 5, 1.0).independence()


def test_too_many_cells() -> None:
    pairs = pairs_of_table(np.eye(5001, dtype=np.int64))
    with pytest.raises(NeglmError, match="leave out --full-batch"):
        maximize(pairs, 2, 5)


def test_lbfgs_on_a_parabola() -> None:
    scale = np.array([1.0, 10, 100, 1000])

    def parabola(point: np.ndarray) -> tuple[float, np.ndarray]:
        return -float(scale @ (point - 3) ** 2), -2 * scale * (point - 3)

    point, iterations, _ = lbfgs(parabola, np.zeros(4), lambda iteration, before, value: value > -1e-16, 100)
    assert iterations < 40
    np.testing.assert_allclose(point, 3, atol=1e-6)
