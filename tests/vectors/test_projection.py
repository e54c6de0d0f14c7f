"""Projection to a plane."""

from typing import Any

import numpy as np
import pytest

from neglm_cli.vectors.projection import project


def distances(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points, axis=2)


def test_points_in_a_plane_keep_their_distances() -> None:
    random = np.random.default_rng(1)
    flat = random.standard_normal((30, 2)) * (5, 2)
    axes, _ = np.linalg.qr(random.standard_normal((7, 7)))
    vectors = (flat @ axes[:2] + axes[2]).astype(np.float32)
    found = project(vectors, "pca", 1)
    np.testing.assert_allclose(distances(found.points), distances(flat), atol=1e-5)
    assert found.explained_variance is not None
    assert abs(found.explained_variance - 1) < 1e-6
    assert found.points[:, 0].std() > found.points[:, 1].std()


def test_explained_variance() -> None:
    vectors = np.array([[3, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]], np.float32)
    variance = project(vectors, "pca", 1).explained_variance
    assert variance is not None
    assert abs(variance - 13 / 14) < 1e-6


def test_signs_are_fixed() -> None:
    vectors = np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32)
    points = project(vectors, "pca", 1).points
    np.testing.assert_allclose(project(vectors[::-1], "pca", 1).points[::-1], points, atol=1e-6)


def test_few_words_and_dimensions() -> None:
    assert project(np.ones((1, 5), np.float32), "pca", 1).points.tolist() == [[0, 0]]
    assert project(np.ones((1, 5), np.float32), "tsne", 1).points.tolist() == [[0, 0]]
    assert np.isfinite(project(np.eye(3, 5, dtype=np.float32), "tsne", 1).points).all()
    line = project(np.array([[1], [2], [4]], np.float32), "pca", 1).points
    np.testing.assert_allclose(line, [[-4 / 3, 0], [-1 / 3, 0], [5 / 3, 0]], atol=1e-6)


def test_tsne_clusters() -> None:
    """Nearest neighbors in the plane are in the same cluster; the same seed gives the same points."""
    random = np.random.default_rng(3)
    groups = np.repeat(np.eye(3, 8), 15, axis=0)
    vectors = (groups + 0.05 * random.standard_normal(groups.shape)).astype(np.float32)
    found = project(vectors, "tsne", 4)
    assert found.explained_variance is None
    near = np.argsort(distances(found.points), axis=1)[:, 1:6]
    assert (near // 15 == np.arange(45)[:, None] // 15).all()
    np.testing.assert_array_equal(project(vectors, "tsne", 4).points, found.points)


def test_tsne_of_few_words_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_info, threadpool_limits

    found: list[int] = []
    fit = TSNE.fit_transform

    def noted(*given: Any) -> Any:
        found.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return fit(*given)

    monkeypatch.setattr(TSNE, "fit_transform", noted)
    with threadpool_limits(2, "openmp"):  # as on a machine with two cores
        project(np.eye(3, 5, dtype=np.float32), "tsne", 1)
    assert set(found) == {1}
