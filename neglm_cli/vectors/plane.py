"""Vectors in a plane: many dimensions as two, for looking at them."""

from typing import Literal, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError

Method = Literal["pca", "tsne"]


class Plane(NamedTuple):
    points: np.ndarray  # float64 (N, 2)
    share: float | None  # of the variance that is in it; None where that has no meaning


def in_a_plane(units: np.ndarray, method: Method, seed: int) -> Plane:
    """A point for each vector: near ones near to each other, as far as a plane can have it."""
    return principal_components(units) if method == "pca" else Plane(stochastic_neighbours(units, seed), None)


def principal_components(units: np.ndarray) -> Plane:
    """The two directions in which the vectors differ most. A direction's sign is arbitrary: here its largest part
    is positive, so that the picture is the same on every machine."""
    centred = units.astype(np.float64) - units.mean(axis=0, dtype=np.float64)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(units), 2))
    for i, direction in enumerate(directions[:2]):
        points[:, i] = centred @ direction * np.sign(direction[np.abs(direction).argmax()])
    total = float((values**2).sum())
    return Plane(points, float((values[:2] ** 2).sum()) / total if total > 0 else 1.0)


def stochastic_neighbours(units: np.ndarray, seed: int) -> np.ndarray:
    """t-SNE: only who is near whom counts, so that groups show, and distances between groups mean little."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise NeglmError("--method tsne needs scikit-learn: pip install scikit-learn, or take pca") from error
    start = principal_components(units).points
    if len(units) < 3:  # there are no neighbours to choose between
        return start
    start *= 1e-4 / max(start[:, 0].std(), 1e-12)
    perplexity = min(30.0, max(1.0, (len(units) - 1) / 3))
    tsne = TSNE(init=start, perplexity=perplexity, metric="cosine", random_state=seed, n_jobs=1)
    return np.asarray(tsne.fit_transform(units.astype(np.float64)), np.float64)
