"""Theorem 1: how far scores of rank d are from the PMI matrix.

For any scores m,  S(pmi) − S(m) = KL(p_pmi(z|x,y) ‖ p_m(z|x,y)) ≥ 0,  where z tells observed pairs from noise, and
the expectation is over q (see `joint`). The divergence is summed cell by cell here, each cell ≥ 0, and S(m) on
its own, so that the theorem can be seen to hold.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.cells import all_cells, empty_cells, no_cells, observed_cells
from neglm_cli.objective.joint import Joint
from neglm_cli.text.parallel import ordered_map, usable_cores

BLOCK_CELLS = 1 << 20  # scores that are computed at a time
BLOCK_SAMPLES = 1 << 16
EXACT_CELLS = 400_000_000  # up to here all cells are the default: 20,000 words and as many contexts

Progress = Callable[[int], None]  # called with the cells or samples that were done since the last call


def no_progress(count: int) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Scores:
    """m(x,y) = x·y + offset(y)."""

    vectors: np.ndarray  # float64 (V, D)
    context_vectors: np.ndarray  # float64 (C, D)
    offset: np.ndarray  # float64 (C,)

    @staticmethod
    def of(vectors: np.ndarray, context_vectors: np.ndarray, offset: np.ndarray) -> "Scores":
        if not (np.isfinite(vectors).all() and np.isfinite(context_vectors).all()):
            raise NeglmError("some of the vectors are not finite numbers: train them again with a smaller --lr")
        return Scores(*(np.ascontiguousarray(array, np.float64) for array in (vectors, context_vectors, offset)))

    def rows(self, first: int, last: int) -> np.ndarray:
        """The scores of rows first to last with all contexts."""
        return self.vectors[first:last] @ self.context_vectors.T + self.offset

    def at(self, row: int, column: int) -> float:
        return float(self.vectors[row] @ self.context_vectors[column] + self.offset[column])


@dataclass(frozen=True, eq=False)
class Approximation:
    """What scores keep of the PMI matrix, in nats per pair of q."""

    score: float  # S(m)
    divergence: float  # KL(p_pmi ‖ p_m) = S(pmi) − S(m)
    standard_error: float  # of both; 0 if no cell was left out
    by_word: np.ndarray  # float64 (V,): the part of the divergence that each x adds
    by_context: np.ndarray  # float64 (C,)
    rows: np.ndarray  # the cells that add most, falling; of the observed ones only, if there is a standard error
    columns: np.ndarray
    parts: np.ndarray  # what they add


def approximate(
    joint: Joint, scores: Scores, samples: int | None, seed: int, top: int = 0, threads: int | None = None,
    progress: Progress = no_progress,
) -> Approximation:  # fmt: skip
    """What these scores keep of the PMI matrix: from so many samples, or exactly if that is None."""
    if samples is None:
        return exact(joint, scores, top, threads, progress)
    return sampled(joint, scores, samples, seed, top, threads, progress)


def cells_to_compute(joint: Joint, samples: int | None) -> int:
    """How many cells `approximate` computes, for its progress."""
    return joint.cells if samples is None else len(joint.p) + samples


def exact(
    joint: Joint, scores: Scores, top: int = 0, threads: int | None = None, progress: Progress = no_progress
) -> Approximation:
    """All cells, a block of rows at a time."""
    words, contexts = joint.shape
    by_word = np.zeros(words)
    height = max(1, BLOCK_CELLS // contexts)

    def work(first: int) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, int]:
        block_scores = scores.rows(first, first + height)
        by_context = np.zeros(contexts)
        block_parts, block_cells = no_cells(top)
        total = all_cells(
            block_scores, first, joint.starts, joint.columns, joint.observed, joint.noise_x, joint.noise,
            by_word, by_context, block_parts, block_cells,
        )  # fmt: skip
        return total, by_context, block_parts, block_cells, block_scores.size

    score, by_context = 0.0, np.zeros(contexts)
    parts, cells = no_cells(0)
    for total, block_by_context, block_parts, block_cells, size in ordered_map(
        work, range(0, words, height), threads or usable_cores()
    ):
        score += total
        by_context += block_by_context
        parts, cells = _largest(np.concatenate([parts, block_parts]), np.concatenate([cells, block_cells]), top)
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
    """All observed cells, and a sample of the empty ones.

    An empty cell adds k/(k+1) p(x) p_α(y) · −log σ(−m). So the empty ones together add k/(k+1) times the
    expectation, over x ~ p(x) and y ~ p_α(y), of −log σ(−m) where the cell is empty and 0 elsewhere.
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
    """How much of what there is to know about y from x is kept: 1 is all, 0 is no more than independence has.

    It can be negative. None if x and y are independent, so that there is nothing to keep.
    """
    gain = joint.optimum() - joint.independence()
    return 1 - divergence / gain if gain > 1e-12 else None


def _observed(joint: Joint, scores: Scores, threads: int, progress: Progress) -> np.ndarray:
    """The divergence of every observed cell, float64 (N,)."""
    divergences = np.empty(len(joint.p))

    def work(block: tuple[int, int]) -> int:
        observed_cells(
            *block, joint.rows, joint.columns, joint.observed, joint.noise_x, joint.noise,
            scores.vectors, scores.context_vectors, scores.offset, divergences,
        )  # fmt: skip
        return block[1] - block[0]

    for count in ordered_map(work, _blocks(len(joint.p), BLOCK_SAMPLES), threads):
        progress(count)
    return divergences


def _sample(
    joint: Joint, scores: Scores, x_sums: np.ndarray, y_sums: np.ndarray, seed: int, block: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells drawn for samples first to last, and −log σ(−m) at the empty ones. Each block has its own numbers."""
    first, last = block
    random = np.random.Generator(np.random.Philox(key=[seed, first]))
    xs, ys = (
        np.minimum(np.searchsorted(sums, random.random(last - first) * sums[-1], "right"), len(sums) - 1)
        for sums in (x_sums, y_sums)
    )
    terms = np.empty(last - first)
    empty_cells(
        xs, ys, joint.starts, joint.columns, scores.vectors, scores.context_vectors, scores.offset, terms
    )  # fmt: skip
    return xs, ys, terms


def _blocks(length: int, size: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + size, length)) for first in range(0, length, size))


def _largest(values: np.ndarray, cells: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest positive values, falling, and their cells; equal ones in the order they came."""
    order = np.argsort(-values, kind="stable")[:count]
    order = order[values[order] > 0]
    return values[order], cells[order]
