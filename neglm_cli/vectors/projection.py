"""Projection of vectors to two dimensions."""

from typing import Literal, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError

Method = Literal["pca", "tsne"]
MANY = 1000  # words for which t-SNE takes several threads; with fewer, threads mostly wait, and busily


class Projection(NamedTuple):
    points: np.ndarray  # float64 (N, 2)
    explained_variance: float | None  # fraction of the total; None for t-SNE


def project(units: np.ndarray, method: Method, seed: int) -> Projection:
    """Project vectors to a plane, preserving proximity."""
    return pca(units) if method == "pca" else Projection(tsne(units, seed), None)


def pca(units: np.ndarray) -> Projection:
    """Project onto the first two principal components. The largest entry of each is made positive, so that the
    figure is the same on every machine."""
    centered = units.astype(np.float64) - units.mean(axis=0, dtype=np.float64)
    _, values, directions = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(units), 2))
    for i, direction in enumerate(directions[:2]):
        points[:, i] = centered @ direction * np.sign(direction[np.abs(direction).argmax()])
    total = float((values**2).sum())
    return Projection(points, float((values[:2] ** 2).sum()) / total if total > 0 else 1.0)


def tsne(units: np.ndarray, seed: int) -> np.ndarray:
    """Project with t-SNE, which shows clusters; distances between clusters mean little."""
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits  # which scikit-learn requires
    except ImportError as error:
        raise NeglmError("--projection tsne needs scikit-learn: pip install scikit-learn, or use pca") from error
    start = pca(units).points
    if len(units) < 3:  # too few neighbors for t-SNE
        return start
    start *= 1e-4 / max(start[:, 0].std(), 1e-12)
    perplexity = min(30.0, max(1.0, (len(units) - 1) / 3))
    model = TSNE(init=start, perplexity=perplexity, metric="cosine", random_state=seed, n_jobs=1)
    with threadpool_limits(None if len(units) >= MANY else 1, "openmp"):
        return np.asarray(model.fit_transform(units.astype(np.float64)), np.float64)
