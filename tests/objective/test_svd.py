import numpy as np
import pytest

from neglm_cli.objective import svd
from neglm_cli.objective.svd import Sparse, pmi_svd, truncated_svd
from neglm_cli.objective.theorem import exact
from tests.objective.making import joint_of, random_table


def sparse_of(matrix: np.ndarray) -> Sparse:
    rows, columns = np.nonzero(matrix)
    starts = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(matrix)))))
    return Sparse(starts, columns.astype(np.int32), matrix[rows, columns], matrix.shape[1])


def random_sparse(seed: int, rows: int, columns: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, columns)) * (random.random((rows, columns)) < 0.2)


def test_products() -> None:
    matrix = random_sparse(1, 30, 20)
    other = np.random.default_rng(2).normal(size=(20, 4))
    np.testing.assert_allclose(sparse_of(matrix).matmul(other, 2), matrix @ other, atol=1e-13)
    np.testing.assert_array_equal(sparse_of(matrix).transposed().dense(), matrix.T)


@pytest.mark.parametrize("shape", [(300, 200), (150, 400)])
def test_as_good_as_lapack(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    signal = random.normal(size=(shape[0], 12)) * 0.8 ** np.arange(12) @ random.normal(size=(12, shape[1]))
    matrix = np.where(random.random(shape) < 0.3, 5 * signal + random.normal(size=shape), 0)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    monkeypatch.setattr(svd, "DENSE_CELLS", 0)
    u, s, v = truncated_svd(sparse_of(matrix), 10, 1, 2)
    np.testing.assert_allclose(s, values[:10], rtol=1e-3)
    np.testing.assert_allclose(u.T @ u, np.eye(10), atol=1e-9)
    np.testing.assert_allclose(v.T @ v, np.eye(10), atol=1e-6)
    best = np.linalg.norm(matrix - left[:, :10] * values[:10] @ right[:10])
    assert np.linalg.norm(matrix - u * s @ v.T) < best * (1 + 1e-4)
    again = truncated_svd(sparse_of(matrix), 10, 1, 1)
    np.testing.assert_array_equal(again[1], s)


def test_a_matrix_of_lower_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svd, "DENSE_CELLS", 0)
    matrix = np.outer(np.arange(1, 101), np.ones(80)) + np.outer(np.ones(100), np.arange(80.0))
    u, s, v = truncated_svd(sparse_of(matrix), 6, 1, 1)
    assert np.isfinite(v).all()
    np.testing.assert_allclose(u * s @ v.T, matrix, rtol=1e-4, atol=1e-3)


def test_full_rank_is_the_pmi_matrix() -> None:
    joint = joint_of(random_table(4, 8, 6), 5, 0.75)
    assert exact(joint, pmi_svd(joint, 6, 1)).divergence < 1e-14
    losses = [exact(joint, pmi_svd(joint, size, 1)).divergence for size in (1, 3, 5)]
    assert losses[0] > losses[1] > losses[2] > 1e-9
