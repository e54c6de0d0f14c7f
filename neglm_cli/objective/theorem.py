"""Theorem 1: the divergence of scores of rank d from the PMI matrix.

For any scores m,  S(pmi) − S(m) = KL(p_pmi(z|x,y) ‖ p_m(z|x,y)) ≥ 0,  where z distinguishes observed pairs from noise,
and the expectation is over q (see `joint`). The divergence is a sum over cells of terms ≥ 0; S(m) is computed
independently, as a check of the theorem.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.kernels.compilers import usable_cores
from neglm_cli.objective.cells import Largest, all_cells, empty_cells, no_cells, observed_cells
from neglm_cli.objective.joint import Joint
from neglm_cli.text.parallel import ordered_map

BLOCK_CELLS = 1 << 20  # scores computed at a time
BLOCK_SAMPLES = 1 << 16
EXACT_CELLS = 400_000_000  # up to this size all cells are computed by default: 20,000 words and contexts

Progress = Callable[[int], None]  # called with the number of cells or samples done since the last call


def no_progress(count: int) -> None:
    pass


class Scores(NamedTuple):
    """m(x,y) = x·y + offset(y)."""

    vectors: np.ndarray  # float64 (V, D)
    context_vectors: np.ndarray  # float64 (C, D)
    offset: np.ndarray  # float64 (C,)

    @staticmethod
    def of(vectors: np.ndarray, context_vectors: np.ndarray, offset: np.ndarray) -> "Scores":
        if not (np.isfinite(vectors).all() and np.isfinite(context_vectors).all()):
            raise NeglmError("the vectors contain NaN or infinite values; train them again with a smaller --lr")
        return Scores(*(np.ascontiguousarray(array, np.float64) for array in (vectors, context_vectors, offset)))

    def rows(self, first: int, last: int) -> np.ndarray:
        """Compute the scores of rows first to last with all contexts."""
        return self.vectors[first:last] @ self.context_vectors.T + self.offset

    def at(self, row: int, column: int) -> float:
        return float(self.vectors[row] @ self.context_vectors[column] + self.offset[column])


@dataclass(frozen=True, eq=False)
class Approximation:
    """The quality of scores as an approximation of the PMI matrix, in nats per pair of q."""

    score: float  # S(m)
    divergence: float  # KL(p_pmi ‖ p_m) = S(pmi) − S(m)
    standard_error: float  # of both; 0 if all cells were computed
    by_word: np.ndarray  # float64 (V,): the divergence of each x
    by_context: np.ndarray  # float64 (C,)
    rows: np.ndarray  # cells with the largest terms, descending; only observed ones, if sampled
    columns: np.ndarray
    parts: np.ndarray  # their terms


def approximate(
    joint: Joint, scores: Scores, samples: int | None, seed: int, top: int = 0, threads: int | None = None,
    progress: Progress = no_progress,
) -> Approximation:  # fmt: skip
    """Compare scores with the PMI matrix, by sampling, or exactly if `samples` is None."""
    if samples is None:
        return exact(joint, scores, top, threads, progress)
    return sampled(joint, scores, samples, seed, top, threads, progress)


def cells_to_compute(joint: Joint, samples: int | None) -> int:
    """Return the number of cells that `approximate` computes, for progress."""
    return joint.cells if samples is None else len(joint.p) + samples


def exact(
    joint: Joint, scores: Scores, top: int = 0, threads: int | None = None, progress: Progress = no_progress
) -> Approximation:
    """Compute all cells, by blocks of rows."""
    words, contexts = joint.shape
    by_word = np.zeros(words)
    height = max(1, BLOCK_CELLS // contexts)

    def work(first: int) -> tuple[float, np.ndarray, Largest, int]:
        block_scores = scores.rows(first, first + height)
        by_context, largest = np.zeros(contexts), no_cells(top)
        total = all_cells(block_scores, first, joint.arrays, by_word, by_context, largest)
        return total, by_context, largest, block_scores.size

    score, by_context = 0.0, np.zeros(contexts)
    parts, cells = no_cells(0)
    for total, block_by_context, largest, size in ordered_map(
        work, range(0, words, height), threads or usable_cores()
    ):  # fmt: skip
        score += total
        by_context += block_by_context
        parts, cells = _largest(np.concatenate([parts, largest.values]), np.concatenate([cells, largest.cells]), top)
        progress(size)
    rows, columns = np.divmod(cells, contexts)
    return Approximation(score, float(by_word.sum()), 0.0, by_word, by_context, rows, columns, parts)


def sampled(
    joint: Joint,
    scores: Scores,
    samples: int,
    seed: int,
    top: int = 0,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> Approximation:
    """Compute all observed cells, and a sample of the empty ones.

    The term of an empty cell is k/(k+1) p(x) p_α(y) · −log σ(−m). So their sum is k/(k+1) times the expectation, over
    x ~ p(x) and y ~ p_α(y), of −log σ(−m) where the cell is empty and 0 elsewhere.
    """
    threads = threads or usable_cores()
    words, contexts = joint.shape
    observed = _observed(joint, scores, threads, progress)
    by_word: np.ndarray = np.bincount(joint.rows, observed, words)
    by_context: np.ndarray = np.bincount(joint.columns, observed, contexts)

    work = partial(_sample, joint, scores, np.cumsum(joint.p_x), np.cumsum(joint.noise), seed)
    share = joint.k / (joint.k + 1)
    total = squares = 0.0
    for xs, ys, terms in ordered_map(work, _blocks(samples, BLOCK_SAMPLES), threads):
        total += terms.sum()
        squares += np.square(terms).sum()
        by_word += np.bincount(xs, terms, words) * (share / samples)
        by_context += np.bincount(ys, terms, contexts) * (share / samples)
        progress(len(xs))
    mean = total / samples
    variance = max(0.0, squares / samples - mean * mean) * samples / max(1, samples - 1)
    divergence = float(observed.sum() + share * mean)
    parts, cells = _largest(observed, np.arange(len(observed)), top)
    return Approximation(
        joint.optimum() - divergence, divergence, float(share * np.sqrt(variance / samples)), by_word, by_context,
        joint.rows[cells], joint.columns[cells], parts,
    )  # fmt: skip


def kept(joint: Joint, divergence: float) -> float | None:
    """Return the fraction of the gain over independence that scores keep: 1 is the PMI matrix, 0 is independence.

    It can be negative. None if x and y are independent.
    """
    gain = joint.optimum() - joint.independence()
    return 1 - divergence / gain if gain > 1e-12 else None


def _observed(joint: Joint, scores: Scores, threads: int, progress: Progress) -> np.ndarray:
    """Compute the divergence of every observed cell, float64 (N,)."""
    divergences = np.empty(len(joint.p))

    def work(block: tuple[int, int]) -> int:
        observed_cells(*block, joint.rows, joint.arrays, scores, divergences)
        return block[1] - block[0]

    for count in ordered_map(work, _blocks(len(joint.p), BLOCK_SAMPLES), threads):
        progress(count)
    return divergences


def _sample(
    joint: Joint, scores: Scores, x_sums: np.ndarray, y_sums: np.ndarray, seed: int, block: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a block of cells, with its own seed, and compute −log σ(−m) at the empty ones."""
    first, last = block
    random = np.random.Generator(np.random.Philox(key=[seed, first]))
    xs, ys = (
        np.minimum(np.searchsorted(sums, random.random(last - first) * sums[-1], "right"), len(sums) - 1)
        for sums in (x_sums, y_sums)
    )
    terms = np.empty(last - first)
    empty_cells(xs, ys, joint.arrays, scores, terms)
    return xs, ys, terms


def _blocks(length: int, size: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + size, length)) for first in range(0, length, size))


def _largest(values: np.ndarray, cells: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest positive values, descending, and their cells; ties in their original order."""
    order = np.argsort(-values, kind="stable")[:count]
    order = order[values[order] > 0]
    return values[order], cells[order]
