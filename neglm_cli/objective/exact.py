"""The objective of negative sampling without the sampling: S is maximised over all cells, in float64.

    dS/dx = Σ_y g(x,y) y,   dS/dy = Σ_x g(x,y) x,   g = [ p(x,y) σ(−m) − k p(x) p_α(y) σ(m) ] / (k+1)

The gradient is followed by L-BFGS in the variables √p(x)·x and √p_α(y)·y: S weighs the errors of a word by its
frequency, and in these variables rare and frequent words have curvatures of the same size.

Where there are empty cells S has no maximum, only a supremum: their scores fall forever, and S rises less and less.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.cells import slopes
from neglm_cli.objective.joint import Joint
from neglm_cli.objective.lbfgs import climb
from neglm_cli.objective.svd import DENSE_CELLS, pmi_svd
from neglm_cli.objective.theorem import Scores, exact
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.parallel import ordered_map, usable_cores

MOST_CELLS = 25_000_000
BLOCK_CELLS = 1 << 18
WINDOW = 10  # iterations over which the rise of S is judged: a single one may be short by chance
START = 0.01  # standard deviation of what is added to the starting point, so that no dimension is zero
ROUNDING = 1e-16


@dataclass(frozen=True, eq=False)
class Result:
    vectors: np.ndarray  # float64 (V, D)
    context_vectors: np.ndarray  # float64 (C, D)
    score: float  # S
    divergence: float  # S(pmi) − S
    iterations: int
    converged: bool


def no_report(iteration: int, score: float) -> None:
    pass


def maximise(
    pairs: Pairs,
    size: int,
    k: int,
    noise_alpha: float = 1.0,
    objective: str = "pmi",
    seed: int = 1,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    report: Callable[[int, float], None] = no_report,
) -> Result:
    """The vectors of this size that maximise S, for the objective `pmi` or `cond`.

    They have converged when an iteration raises S, on average over some, by less than `tolerance` times
    S(pmi) − S(independence), which is all that there is to gain. `report` gets each iteration and its S.
    """
    if len(pairs.words) * len(pairs.contexts) > MOST_CELLS:
        raise NeglmError(
            f"{len(pairs.words):,} × {len(pairs.contexts):,} cells are too many to go over all of them (at most "
            f"{MOST_CELLS:,}): leave out --exact, or give a higher --min-count"
        )
    joint = Joint.of(pairs, k, noise_alpha)
    return improve(joint, start(joint, size, objective, seed), tolerance, max_iterations, report)


def start(joint: Joint, size: int, objective: str, seed: int) -> Scores:
    """The scores of truncated SVD (see `svd`). With no empty cells and full rank that is the optimum already.

    What SVD has as an offset must be in the vectors here: a small matrix is decomposed with it inside, for a large
    one it takes a dimension of its own.
    """
    offset = joint.score_offset(objective)
    inside = -np.log(joint.k) - offset
    random = np.random.Generator(np.random.Philox(key=seed))
    if joint.cells <= DENSE_CELLS:
        matrix = np.tile(inside, (joint.shape[0], 1))
        matrix[joint.rows, joint.columns] = joint.pmi - offset[joint.columns]
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        found = left[:, :size] * np.sqrt(values[:size]), right[:size].T * np.sqrt(values[:size])
    else:
        guess = pmi_svd(joint, max(1, size - 1), seed)
        ones = np.ones((joint.shape[0], 1))
        found = np.hstack([ones, guess.vectors]), np.hstack([inside[:, None], guess.context_vectors])
    vectors, contexts = (np.pad(side[:, :size], ((0, 0), (0, max(0, size - side.shape[1])))) for side in found)
    if size < min(joint.shape):
        vectors = vectors + random.normal(0, START, vectors.shape)
    return Scores.of(vectors, contexts, offset)


def improve(
    joint: Joint,
    scores: Scores,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, float], None] = no_report,
) -> Result:
    """L-BFGS, from these scores on."""
    words, contexts = joint.shape
    size = scores.vectors.shape[1]
    scale = np.sqrt(np.concatenate([np.where(joint.p_x > 0, joint.p_x, 1), joint.noise]))[:, None]
    enough = max(tolerance * (joint.optimum() - joint.independence()), ROUNDING)
    values: list[float] = []

    def vectors_at(point: np.ndarray) -> Scores:
        both = point.reshape(words + contexts, size) / scale
        return Scores(both[:words], both[words:], scores.offset)

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, x_slopes, y_slopes = score_and_slopes(joint, vectors_at(point))
        return value, (np.vstack([x_slopes, y_slopes]) / scale).ravel()

    def done(iteration: int, before: float, value: float) -> bool:
        report(iteration, value)
        values.append(value)
        return len(values) > WINDOW and value - values[-1 - WINDOW] <= WINDOW * enough

    beginning = (np.vstack([scores.vectors, scores.context_vectors]) * scale).ravel()
    point, iterations, converged = climb(function, beginning, done, max_iterations)
    found = vectors_at(point)
    reached = exact(joint, found)
    return Result(
        found.vectors, found.context_vectors, reached.score, reached.divergence, iterations, converged
    )  # fmt: skip


def score_and_slopes(joint: Joint, scores: Scores) -> tuple[float, np.ndarray, np.ndarray]:
    """S, dS/dX (V, D) and dS/dY (C, D), a block of rows at a time."""
    words, contexts = joint.shape
    height = max(1, BLOCK_CELLS // contexts)
    firsts = range(0, words, height)

    def work(first: int) -> tuple[float, int, np.ndarray]:
        block_scores = scores.rows(first, first + height)
        part = slopes(
            block_scores, first, joint.starts, joint.columns, joint.observed, joint.noise_x, joint.noise
        )  # fmt: skip
        return part, first, block_scores

    total = 0.0
    x_slopes, y_slopes = np.empty_like(scores.vectors), np.zeros_like(scores.context_vectors)
    results = ordered_map(work, firsts, usable_cores()) if len(firsts) > 1 else map(work, firsts)
    for part, first, g in results:
        total += part
        x_slopes[first : first + height] = g @ scores.context_vectors
        y_slopes += g.T @ scores.vectors[first : first + height]
    return total, x_slopes, y_slopes
