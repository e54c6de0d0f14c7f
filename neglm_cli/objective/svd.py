"""The PMI matrix by truncated singular value decomposition: what embeddings are compared with.

pmi is −∞ at the empty cells, where least squares has no answer. Here they are set to independence: the matrix is
log p(x,y) / (p(x) p_α(y)) at the observed cells and 0 at the others, which is sparse, and log k is taken off the
reconstruction, m = U_d Σ_d V_dᵀ − log k. With no empty cells and full rank this is the PMI matrix itself.

(Levy and Goldberg factorise max(pmi, 0) and leave the shift inside. Then empty cells are rebuilt near 0, where
σ(0) = ½ takes half of the noise for observed.)
"""

import numpy as np

from neglm_cli.objective.joint import Joint
from neglm_cli.objective.sparse import Sparse
from neglm_cli.objective.theorem import Progress, Scores, no_progress
from neglm_cli.text.parallel import usable_cores

DENSE_CELLS = 1 << 20  # up to here LAPACK is asked
MOST_COLUMNS = 4  # of the basis, times d
ENOUGH = 1e-5  # relative rise of the energy by one more block
NOTHING = 1e-8  # a singular value, relative to the largest, that is rounding


def pmi_svd(joint: Joint, size: int, seed: int, threads: int | None = None, progress: Progress = no_progress) -> Scores:
    """The scores of rank d that truncated SVD gives: vectors U√Σ, context vectors V√Σ, and the offset −log k."""
    matrix = Sparse(joint.starts, joint.columns, joint.pmi + np.log(joint.k), joint.shape[1])
    left, values, right = truncated_svd(matrix, size, seed, threads or usable_cores(), progress)
    roots = np.sqrt(values)
    return Scores.of(left * roots, right * roots, np.full(joint.shape[1], -np.log(joint.k)))


def most_columns(shape: tuple[int, int], size: int) -> int:
    """How many columns the basis may get, for its progress: it stops as soon as more would change little."""
    width = _width(size)
    return min(MOST_COLUMNS * size + 2 * width, *shape) // width * width


def _width(size: int) -> int:
    """Columns that the basis grows by."""
    return max(8, size // 2)


def truncated_svd(
    matrix: Sparse, size: int, seed: int, threads: int, progress: Progress = no_progress
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest singular values (d,), with left (V, d) and right (C, d) singular vectors; d ≤ size, V, C."""
    size = min(size, *matrix.shape)
    if matrix.shape[0] * matrix.shape[1] <= DENSE_CELLS or 2 * size > min(matrix.shape):
        left, values, right = np.linalg.svd(matrix.dense(), full_matrices=False)
        return left[:, :size], values[:size], right[:size].T
    return _block_krylov(matrix, size, seed, threads, progress)


def _block_krylov(
    matrix: Sparse, size: int, seed: int, threads: int, progress: Progress
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Randomised: Q is an orthonormal basis of B, (MMᵀ)B, (MMᵀ)²B, …, where B = MΩ is M times some random columns.

    The SVD of the small matrix QᵀM is that of M, as far as Q has caught M's largest singular vectors. Q grows by a
    block until the energy Σσ² of the d largest values, which never falls, has stopped rising.
    """
    transposed = matrix.transposed()
    random = np.random.Generator(np.random.Philox(key=seed))
    width, most = _width(size), most_columns(matrix.shape, size)
    basis = np.empty((matrix.shape[0], most))  # Q
    image = np.empty((matrix.shape[1], most))  # MᵀQ
    gram = np.empty((most, most))  # QᵀMMᵀQ
    block = matrix.times(random.standard_normal((matrix.shape[1], width)), threads)
    energy = 0.0
    for done in range(0, most, width):
        columns = done + width
        for _ in range(2):  # once leaves what rounding has let through
            block -= basis[:, :done] @ (basis[:, :done].T @ block)
            block, _ = np.linalg.qr(block)
        basis[:, done:columns] = block
        block = image[:, done:columns] = transposed.times(block, threads)
        gram[done:columns, :columns] = block.T @ image[:, :columns]
        gram[:columns, done:columns] = gram[done:columns, :columns].T
        progress(width)
        if columns >= 2 * size:
            before, energy = energy, float(np.linalg.eigvalsh(gram[:columns, :columns])[-size:].sum())
            if energy - before <= ENOUGH * energy:
                break
        block = matrix.times(block, threads)
    squares, rotation = np.linalg.eigh(gram[:columns, :columns])
    rotation = rotation[:, : -size - 1 : -1]
    values = np.sqrt(np.maximum(squares[: -size - 1 : -1], 0))
    scale = np.divide(1, values, out=np.zeros(size), where=values > values[0] * NOTHING)
    return basis[:, :columns] @ rotation, values, image[:, :columns] @ rotation * scale
