"""A joint distribution p(x,y), its noise distribution, and the objective S.

For scores m(x,y), with k noise contexts for each pair, drawn from p_α(y) ∝ count(y)^α:

    S(m) = 1/(k+1) Σ_xy [ p(x,y) log σ(m(x,y)) + k p(x) p_α(y) log σ(−m(x,y)) ]

Its maximum is at pmi(x,y) = log p(x,y) / (p(x) p_α(y)) − log k. S is the expected log-likelihood, in nats per pair, of
classifying pairs of the mixture q = (p(x,y) + k p(x) p_α(y)) / (k+1) as observed or noise. Times k+1, it is per
observed pair and its k noise pairs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neglm_cli.objective.cells import Cells
from neglm_cli.objective.losses import score_offsets
from neglm_cli.objective.noise import probabilities
from neglm_cli.text.pairs import Pairs


@dataclass(frozen=True, eq=False)
class Joint:
    """Cells with p(x,y) > 0, sorted by row and column; all other cells are empty."""

    rows: np.ndarray  # int32 (N,)
    columns: np.ndarray  # int32 (N,)
    p: np.ndarray  # float64 (N,): p(x,y)
    p_x: np.ndarray  # float64 (V,)
    p_y: np.ndarray  # float64 (C,)
    noise: np.ndarray  # float64 (C,): p_α(y)
    k: int

    @staticmethod
    def of(pairs: Pairs, k: int, noise_alpha: float) -> "Joint":
        """Estimate the distribution from counts. As in training, noise follows the counts of all contexts."""
        total = pairs.counts.sum(dtype=np.float64)
        return Joint(
            pairs.rows,
            pairs.columns,
            pairs.counts / total,
            pairs.row_totals / total,
            pairs.column_totals / total,
            probabilities(pairs.contexts.counts, noise_alpha),
            k,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """V and C."""
        return len(self.p_x), len(self.p_y)

    @property
    def cells(self) -> int:
        """V·C."""
        return len(self.p_x) * len(self.p_y)

    @cached_property
    def starts(self) -> np.ndarray:
        """int64 (V+1,): row x has the cells starts[x] to starts[x+1]."""
        return np.concatenate(([0], np.cumsum(np.bincount(self.rows, minlength=len(self.p_x)))))

    @cached_property
    def observed(self) -> np.ndarray:
        """p(x,y) / (k+1), the observed part of q at each cell."""
        return self.p / (self.k + 1)

    @cached_property
    def noise_x(self) -> np.ndarray:
        """k p(x) / (k+1), which times p_α(y) is the noise part of q."""
        return self.k * self.p_x / (self.k + 1)

    @cached_property
    def arrays(self) -> Cells:
        """The arrays for kernels."""
        return Cells(self.starts, self.columns, self.observed, self.noise_x, self.noise)

    @cached_property
    def pmi(self) -> np.ndarray:
        """log p(x,y) / (p(x) p_α(y)) − log k at each cell; −∞ at empty cells."""
        return np.log(self.p / (self.p_x[self.rows] * self.noise[self.columns])) - np.log(self.k)

    def pmi_at(self, row: int, column: int) -> float | None:
        """Return the PMI of one cell; None if it is empty."""
        first, last = self.starts[row], self.starts[row + 1]
        cell = first + np.searchsorted(self.columns[first:last], column)
        return float(self.pmi[cell]) if cell < last and self.columns[cell] == column else None

    def score_offset(self, objective: str) -> np.ndarray:
        """Return the offsets added to x·y to get scores, by context: 0 for `pmi`, −log(k p_α(y)) for `cond`."""
        return score_offsets(objective, self.noise, self.k)

    def optimum(self) -> float:
        """Compute S(pmi), the maximum. Empty cells contribute 0: they are always noise, and σ(−∞) = 0."""
        return _best(self.observed, self.noise_x[self.rows] * self.noise[self.columns])

    def independence(self) -> float:
        """Compute S at m(x,y) = log p(y) / p_α(y) − log k: the maximum for scores independent of x."""
        return _best(self.p_y / (self.k + 1), self.k * self.noise / (self.k + 1))


def _best(observed: np.ndarray, noise: np.ndarray) -> float:
    """Compute Σ a log a/(a+b) + b log b/(a+b): the log-likelihood of the optimal classifier, with a observed, b
    noise."""
    both = observed + noise
    terms = np.zeros_like(both)
    for part in (observed, noise):
        positive = part > 0
        terms[positive] += part[positive] * np.log(part[positive] / both[positive])
    return float(terms.sum())
