"""Full-batch training: maximizes S, the objective of negative sampling, over all cells, in float64.

    dS/dx = Σ_y g(x,y) y,   dS/dy = Σ_x g(x,y) x,   g = [ p(x,y) σ(−m) − k p(x) p_α(y) σ(m) ] / (k+1)

The optimizer is L-BFGS in the variables √p(x)·x and √p_α(y)·y: S weights a word's errors by its frequency, and in
these variables rare and frequent words have similar curvature.

With empty cells S has no maximum, only a supremum: their scores decrease forever, and S increases ever more slowly.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.kernels.compilers import usable_cores
from neglm_cli.objective.cells import score_gradients
from neglm_cli.objective.joint import Joint
from neglm_cli.objective.svd import DENSE_CELLS, pmi_svd
from neglm_cli.objective.theorem import Scores, exact
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.parallel import ordered_map

MAX_CELLS = 25_000_000
BLOCK_CELLS = 1 << 18
TOLERANCE = 1e-6  # of convergence: increase of S per iteration, relative to the largest possible gain
WINDOW = 10  # iterations over which the increase of S is averaged
INITIAL_NOISE = 0.01  # standard deviation of noise added to initial values, so that no dimension is zero
ROUNDING = 1e-16
HISTORY = 20  # steps that L-BFGS keeps
MAX_HALVINGS = 40  # of the step length, in a line search
MIN_INCREASE = 1e-4  # of the linear prediction, for a step to be accepted (Armijo)
MIN_CURVATURE = 1e-12

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]  # value and gradient


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


def maximize(
    pairs: Pairs,
    size: int,
    k: int,
    noise_alpha: float = 1.0,
    objective: str = "pmi",
    seed: int = 1,
    max_iterations: int = 1000,
    report: Callable[[int, float], None] = no_report,
) -> Result:
    """Find the vectors of `size` dimensions that maximize S, for the objective `pmi` or `cond`.

    Converged when the mean increase of S per iteration is less than TOLERANCE times S(pmi) − S(independence), the
    largest possible gain. report: called with each iteration and its S.
    """
    if len(pairs.words) * len(pairs.contexts) > MAX_CELLS:
        raise NeglmError(
            f"{len(pairs.words):,} × {len(pairs.contexts):,} cells are too many for full-batch training (at most "
            f"{MAX_CELLS:,}): leave out --full-batch, or give a higher --min-count"
        )
    joint = Joint.of(pairs, k, noise_alpha)
    return optimize(joint, initial_scores(joint, size, objective, seed), max_iterations, report)


def initial_scores(joint: Joint, size: int, objective: str, seed: int) -> Scores:
    """Return the scores of a truncated SVD (see `svd`): with no empty cells and full rank, the optimum.

    Here the vectors must absorb the offset of the SVD: a small matrix is decomposed with it; for a large one it takes
    one dimension.
    """
    offset = joint.score_offset(objective)
    absorbed = -np.log(joint.k) - offset
    random = np.random.Generator(np.random.Philox(key=seed))
    if joint.cells <= DENSE_CELLS:
        matrix = np.tile(absorbed, (joint.shape[0], 1))
        matrix[joint.rows, joint.columns] = joint.pmi - offset[joint.columns]
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        found = left[:, :size] * np.sqrt(values[:size]), right[:size].T * np.sqrt(values[:size])
    else:
        guess = pmi_svd(joint, max(1, size - 1), seed)
        ones = np.ones((joint.shape[0], 1))
        found = np.hstack([ones, guess.vectors]), np.hstack([absorbed[:, None], guess.context_vectors])
    vectors, contexts = (np.pad(side[:, :size], ((0, 0), (0, max(0, size - side.shape[1])))) for side in found)
    if size < min(joint.shape):
        vectors = vectors + random.normal(0, INITIAL_NOISE, vectors.shape)
    return Scores.of(vectors, contexts, offset)


def optimize(
    joint: Joint,
    scores: Scores,
    max_iterations: int,
    report: Callable[[int, float], None] = no_report,
    tolerance: float = TOLERANCE,
) -> Result:
    """Run L-BFGS from these scores."""
    words, contexts = joint.shape
    size = scores.vectors.shape[1]
    scale = np.sqrt(np.concatenate([np.where(joint.p_x > 0, joint.p_x, 1), joint.noise]))[:, None]
    min_increase = max(tolerance * (joint.optimum() - joint.independence()), ROUNDING)
    values: list[float] = []

    def vectors_at(point: np.ndarray) -> Scores:
        both = point.reshape(words + contexts, size) / scale
        return Scores(both[:words], both[words:], scores.offset)

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, x_gradient, y_gradient = score_and_gradients(joint, vectors_at(point))
        return value, (np.vstack([x_gradient, y_gradient]) / scale).ravel()

    def done(iteration: int, before: float, value: float) -> bool:
        report(iteration, value)
        values.append(value)
        return len(values) > WINDOW and value - values[-1 - WINDOW] <= WINDOW * min_increase

    initial = (np.vstack([scores.vectors, scores.context_vectors]) * scale).ravel()
    point, iterations, converged = lbfgs(function, initial, done, max_iterations)
    found = vectors_at(point)
    reached = exact(joint, found)
    return Result(
        found.vectors, found.context_vectors, reached.score, reached.divergence, iterations, converged
    )  # fmt: skip


def score_and_gradients(joint: Joint, scores: Scores) -> tuple[float, np.ndarray, np.ndarray]:
    """Compute S, dS/dX (V, D) and dS/dY (C, D), by blocks of rows."""
    words, contexts = joint.shape
    height = max(1, BLOCK_CELLS // contexts)
    firsts = range(0, words, height)

    def work(first: int) -> tuple[float, int, np.ndarray]:
        block_scores = scores.rows(first, first + height)
        part = score_gradients(block_scores, first, joint.arrays)
        return part, first, block_scores

    total = 0.0
    x_gradient, y_gradient = np.empty_like(scores.vectors), np.zeros_like(scores.context_vectors)
    results = ordered_map(work, firsts, usable_cores()) if len(firsts) > 1 else map(work, firsts)
    for part, first, g in results:
        total += part
        x_gradient[first : first + height] = g @ scores.context_vectors
        y_gradient += g.T @ scores.vectors[first : first + height]
    return total, x_gradient, y_gradient


def lbfgs(
    function: Function, point: np.ndarray, done: Callable[[int, float, float], bool], max_iterations: int
) -> tuple[np.ndarray, int, bool]:
    """Maximize a function with L-BFGS, until done(iteration, previous value, value) returns True.

    Return the point, the number of iterations, and True if it is done, or if no step increases the value any more.
    """
    value, gradient = function(point)
    steps: list[tuple[np.ndarray, np.ndarray, float]] = []  # s, y and 1/s·y of the last steps
    for iteration in range(1, max_iterations + 1):
        direction = _direction(gradient, steps)
        slope = float(direction @ gradient)
        length = 1.0 if steps else 1 / max(1e-300, float(np.abs(gradient).max()))
        for _ in range(MAX_HALVINGS):
            new_point = point + length * direction
            new_value, new_gradient = function(new_point)
            if new_value >= value + MIN_INCREASE * length * slope:
                break
            length /= 2
        else:
            if not steps:
                return point, iteration, True
            steps = []  # the history is misleading: restart from the gradient
            continue
        s, y = new_point - point, gradient - new_gradient
        if s @ y > MIN_CURVATURE * (s @ s):
            steps = [*steps[1 - HISTORY :], (s, y, 1 / float(s @ y))]
        before, point, value, gradient = value, new_point, new_value, new_gradient
        if done(iteration, before, value):
            return point, iteration, True
    return point, max_iterations, False


def _direction(gradient: np.ndarray, steps: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """Multiply the gradient by the approximate inverse Hessian (two-loop recursion)."""
    direction = gradient.copy()
    weights = []
    for s, y, inverse in reversed(steps):
        weight = inverse * float(s @ direction)
        direction -= weight * y
        weights.append(weight)
    if steps:
        _, y, inverse = steps[-1]
        direction /= inverse * float(y @ y)
    for (s, y, inverse), weight in zip(steps, reversed(weights), strict=True):
        direction += (weight - inverse * float(y @ direction)) * s
    return direction
