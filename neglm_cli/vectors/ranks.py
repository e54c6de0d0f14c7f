"""Correlation of two rankings of the same things."""

import numpy as np


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value, from 1; equal values share the average of the ranks that they take up."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return (last - (sizes - 1) / 2)[group]


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Spearman's rank correlation: Pearson's, of the ranks."""
    return pearson(ranks(x), ranks(y))


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Pearson's correlation; None where there is none: fewer than two values, or all the same."""
    if len(x) < 2 or (x == x[0]).all() or (y == y[0]).all():
        return None
    x, y = _standard(x), _standard(y)
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def _standard(values: np.ndarray) -> np.ndarray:
    """Around 0 and of the order of 1, so that squares neither overflow nor vanish."""
    values = values.astype(np.float64)
    values = values / np.abs(values).max()
    values = values - values.mean()
    return values / np.abs(values).max()
