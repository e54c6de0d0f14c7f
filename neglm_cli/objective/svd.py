"""Truncated SVD of the PMI matrix, as a baseline for embeddings.

PMI is −∞ at empty cells, so least squares has no solution. Here they are set to independence: the sparse matrix is
log p(x,y) / (p(x) p_α(y)) at observed cells and 0 at others, and log k is subtracted from the reconstruction,
m = U_d Σ_d V_dᵀ − log k. With no empty cells and full rank, this is the PMI matrix itself.

(Levy and Goldberg factorize max(pmi, 0), including the shift. Empty cells are then reconstructed near 0, where
σ(0) = ½ classifies half of the noise as observed.)
"""

from dataclasses import dataclass

import numpy as np

from neglm_cli.kernels.compilers import usable_cores
from neglm_cli.objective.cells import multiply_rows
from neglm_cli.objective.joint import Joint
from neglm_cli.objective.theorem import Progress, Scores, no_progress
from neglm_cli.text.parallel import ordered_map

DENSE_CELLS = 1 << 20  # up to this size LAPACK decomposes the dense matrix
BLOCKS = 64  # of rows, divided among threads
MAX_COLUMNS = 4  # of the basis, times d
TOLERANCE = 1e-5  # relative increase of the energy by one more block
ROUNDING = 1e-8  # singular values below it, relative to the largest, are rounding errors


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix, by row: row x has values[starts[x]:starts[x+1]] at columns[starts[x]:starts[x+1]]."""

    starts: np.ndarray  # int64 (V+1,)
    columns: np.ndarray  # int32 (N,)
    values: np.ndarray  # float64 (N,)
    width: int  # C

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.width

    def transposed(self) -> "Sparse":
        rows = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))
        order = np.argsort(self.columns, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(self.columns, minlength=self.width))))
        return Sparse(starts, rows[order], self.values[order], len(self.starts) - 1)

    def dense(self) -> np.ndarray:
        matrix = np.zeros(self.shape)
        matrix[np.repeat(np.arange(self.shape[0]), np.diff(self.starts)), self.columns] = self.values
        return matrix

    def matmul(self, matrix: np.ndarray, threads: int) -> np.ndarray:
        """Multiply by a dense matrix, float64 (C, d): float64 (V, d)."""
        product = np.empty((self.shape[0], matrix.shape[1]))
        # Blocks with equal numbers of cells, not rows: the first words are the most frequent.
        edges = np.searchsorted(self.starts, np.linspace(0, self.starts[-1], BLOCKS + 1)[1:-1])
        edges = np.concatenate(([0], edges, [self.shape[0]]))
        dense = np.ascontiguousarray(matrix)

        def work(block: int) -> None:
            multiply_rows(edges[block], edges[block + 1], self.starts, self.columns, self.values, dense, product)

        for _ in ordered_map(work, range(BLOCKS), threads):
            pass
        return product


def pmi_svd(joint: Joint, size: int, seed: int, threads: int | None = None, progress: Progress = no_progress) -> Scores:
    """Return the scores of a truncated SVD of rank d: vectors U√Σ, context vectors V√Σ, and the offset −log k."""
    matrix = Sparse(joint.starts, joint.columns, joint.pmi + np.log(joint.k), joint.shape[1])
    left, values, right = truncated_svd(matrix, size, seed, threads or usable_cores(), progress)
    roots = np.sqrt(values)
    return Scores.of(left * roots, right * roots, np.full(joint.shape[1], -np.log(joint.k)))


def max_columns(shape: tuple[int, int], size: int) -> int:
    """Return the maximum number of columns of the basis, for progress; it may converge with fewer."""
    width = _width(size)
    return min(MAX_COLUMNS * size + 2 * width, *shape) // width * width


def _width(size: int) -> int:
    """Return the number of columns of a block."""
    return max(8, size // 2)


def truncated_svd(
    matrix: Sparse, size: int, seed: int, threads: int, progress: Progress = no_progress
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the largest singular values (d,), with left (V, d) and right (C, d) singular vectors; d ≤ size, V, C."""
    size = min(size, *matrix.shape)
    if matrix.shape[0] * matrix.shape[1] <= DENSE_CELLS or 2 * size > min(matrix.shape):
        left, values, right = np.linalg.svd(matrix.dense(), full_matrices=False)
        return left[:, :size], values[:size], right[:size].T
    return _block_krylov(matrix, size, seed, threads, progress)


def _block_krylov(
    matrix: Sparse, size: int, seed: int, threads: int, progress: Progress
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Randomized block Krylov method: Q is an orthonormal basis of B, (MMᵀ)B, (MMᵀ)²B, …, where B = MΩ, with
    random Ω.

    The SVD of the small matrix QᵀM is that of M, as far as Q contains M's largest singular vectors. Q grows by a block
    until the energy Σσ² of the d largest values, which never decreases, has converged.
    """
    transposed = matrix.transposed()
    random = np.random.Generator(np.random.Philox(key=seed))
    width, most = _width(size), max_columns(matrix.shape, size)
    basis = np.empty((matrix.shape[0], most))  # Q
    image = np.empty((matrix.shape[1], most))  # MᵀQ
    gram = np.empty((most, most))  # QᵀMMᵀQ
    block = matrix.matmul(random.standard_normal((matrix.shape[1], width)), threads)
    energy = 0.0
    for done in range(0, most, width):
        columns = done + width
        for _ in range(2):  # twice, because of rounding
            block -= basis[:, :done] @ (basis[:, :done].T @ block)
            block, _ = np.linalg.qr(block)
        basis[:, done:columns] = block
        block = image[:, done:columns] = transposed.matmul(block, threads)
        gram[done:columns, :columns] = block.T @ image[:, :columns]
        gram[:columns, done:columns] = gram[done:columns, :columns].T
        progress(width)
        if columns >= 2 * size:
            before, energy = energy, float(np.linalg.eigvalsh(gram[:columns, :columns])[-size:].sum())
            if energy - before <= TOLERANCE * energy:
                break
        block = matrix.matmul(block, threads)
    squares, rotation = np.linalg.eigh(gram[:columns, :columns])
    rotation = rotation[:, : -size - 1 : -1]
    values = np.sqrt(np.maximum(squares[: -size - 1 : -1], 0))
    scale = np.divide(1, values, out=np.zeros(size), where=values > values[0] * ROUNDING)
    return basis[:, :columns] @ rotation, values, image[:, :columns] @ rotation * scale
