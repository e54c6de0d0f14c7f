"""Histogram of pairs by PMI and learned score, for `neglm plot`.

Observed pairs are weighted by p(x,y). Pairs that never occur have a PMI of −∞: their scores have a separate histogram,
weighted by the noise, p(x) p_α(y).
"""

from dataclasses import dataclass

import numpy as np

from neglm_cli.kernels.compilers import usable_cores
from neglm_cli.objective.joint import Joint
from neglm_cli.objective.theorem import Progress, Scores, no_progress
from neglm_cli.text.parallel import ordered_map

BLOCK = 1 << 16  # pairs at a time
GROUPS = 32  # of words, for the error of the correlation
CUT_OFF = 0.0005  # fraction of pairs clipped at each end of an axis: outliers would shrink the rest


@dataclass(frozen=True, eq=False)
class Density:
    pmi_edges: np.ndarray  # float64 (P+1,)
    score_edges: np.ndarray  # float64 (M+1,)
    observed: np.ndarray  # float64 (P, M): fractions of the observed pairs
    empty: np.ndarray  # float64 (M,): fractions of the noise pairs that never occur
    empty_share: float  # fraction of noise pairs that never occur
    median: np.ndarray  # float64 (P,): of the scores at a PMI; NaN if there are no pairs
    correlation: float | None  # of PMI and score over the observed pairs; None if one of them is constant
    correlation_error: float  # its standard error, if the words are a sample


def density(
    joint: Joint, scores: Scores, bins: int, samples: int, seed: int, threads: int | None = None,
    progress: Progress = no_progress,
) -> Density:  # fmt: skip
    """Compute the histograms. bins: about as many on the longer axis; samples: draws of noise."""
    pmi, weights = joint.pmi, joint.p
    learned = scores_at(scores, joint.rows, joint.columns, threads, progress)
    never = _scores_of_empty_cells(joint, scores, samples, seed, threads)
    progress(samples)
    pmi_ends = _ends(pmi, weights)
    score_ends = _ends(learned, weights)
    if len(never):
        low, high = _ends(never, np.ones(len(never)))
        score_ends = min(low, score_ends[0]), max(high, score_ends[1])
    width = max(pmi_ends[1] - pmi_ends[0], score_ends[1] - score_ends[0]) / bins
    pmi_edges, score_edges = (_edges(*ends, width) for ends in (pmi_ends, score_ends))
    observed, _, _ = np.histogram2d(pmi, learned, (pmi_edges, score_edges), weights=weights)
    empty, _ = np.histogram(never, score_edges)
    return Density(
        pmi_edges, score_edges, observed, empty / max(1, len(never)), len(never) / samples,
        _medians(observed, score_edges), *_correlation(pmi, learned, weights, joint.rows),
    )  # fmt: skip


def scores_at(
    scores: Scores, rows: np.ndarray, columns: np.ndarray, threads: int | None = None, progress: Progress = no_progress
) -> np.ndarray:
    """Compute m(x,y) at these cells, float64 (N,)."""
    found = np.empty(len(rows))

    def work(first: int) -> int:
        xs, ys = rows[first : first + BLOCK], columns[first : first + BLOCK]
        products = np.einsum("nd,nd->n", scores.vectors[xs], scores.context_vectors[ys])
        found[first : first + BLOCK] = products + scores.offset[ys]
        return len(products)

    for count in ordered_map(work, range(0, len(rows), BLOCK), threads or usable_cores()):
        progress(count)
    return found


def _scores_of_empty_cells(
    joint: Joint, scores: Scores, samples: int, seed: int, threads: int | None
) -> np.ndarray:  # fmt: skip
    """Draw noise pairs, and compute the scores of those that never occur."""
    random = np.random.Generator(np.random.Philox(key=seed))
    xs, ys = (
        np.minimum(np.searchsorted(sums, random.random(samples) * sums[-1], "right"), len(sums) - 1)
        for sums in (np.cumsum(joint.p_x), np.cumsum(joint.noise))
    )
    contexts = joint.shape[1]
    occurring = joint.rows.astype(np.int64) * contexts + joint.columns  # ascending, like the cells
    drawn = xs.astype(np.int64) * contexts + ys
    indices = np.minimum(np.searchsorted(occurring, drawn), len(occurring) - 1)
    empty = occurring[indices] != drawn
    return scores_at(scores, xs[empty], ys[empty], threads)


def _ends(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the range of the values, without outliers."""
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    first, last = np.searchsorted(sums, (CUT_OFF * sums[-1], (1 - CUT_OFF) * sums[-1]))
    return float(values[order[first]]), float(values[order[min(last, len(order) - 1)]])


def _edges(low: float, high: float, width: float) -> np.ndarray:
    """Return the edges of bins of this width, centered on the range."""
    if width <= 0:
        return np.array([low - 0.5, low + 0.5])
    count = max(1, int(np.ceil((high - low) / width + 1e-9)))
    start = (low + high) / 2 - count * width / 2
    return start + width * np.arange(count + 1)


def _medians(observed: np.ndarray, edges: np.ndarray) -> np.ndarray:
    sums = np.cumsum(observed, axis=1)
    middle = (edges[:-1] + edges[1:]) / 2
    medians = np.full(len(observed), np.nan)
    for i in np.flatnonzero(sums[:, -1] > 0):
        medians[i] = middle[np.searchsorted(sums[i], sums[i, -1] / 2)]
    return medians


def _correlation(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, rows: np.ndarray
) -> tuple[float | None, float]:  # fmt: skip
    """Return the correlation, None if x or y is constant, and its standard error for words that are a sample: the
    jackknife, with rows in GROUPS groups."""
    weights = weights / weights.sum()
    x, y = x - weights @ x, y - weights @ y
    group_of = (rows.astype(np.int64) * 0x9E3779B1 >> 16) % GROUPS
    moments = np.stack([  # of each group: float64 (6, GROUPS)
        np.bincount(group_of, weights * values, GROUPS) for values in (1, x, y, x * x, y * y, x * y)
    ])  # fmt: skip
    every = moments.sum(axis=1)
    whole = _of_moments(every)
    without = [_of_moments(every - group) for group in moments.T if group[0] > 0]
    known = np.array([each for each in without if each is not None])
    if whole is None or len(known) < 2:
        return whole, 0.0
    return whole, float(np.sqrt((len(known) - 1) * known.var()))


def _of_moments(moments: np.ndarray) -> float | None:
    """Return the correlation, from the weighted sums of 1, x, y, x², y² and xy; None if x or y is constant."""
    if moments[0] <= 0:
        return None
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = moments[1:] / moments[0]
    both = np.sqrt(max(mean_xx - mean_x**2, 0) * max(mean_yy - mean_y**2, 0))
    return float((mean_xy - mean_x * mean_y) / both) if both > 1e-12 else None
