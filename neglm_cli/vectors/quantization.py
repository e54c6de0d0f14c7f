"""Product quantization: vectors as codes of centroids, one byte for every `dsub` dimensions.

    x ≈ scale · (c_0[code_0], c_1[code_1], …)

Each part of the dimensions has 256 centroids, found by k-means (Jégou et al. 2011) among unit vectors, since words are
compared by cosine. The scale is that with the least squared error; a vector of zeros has the scale 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from neglm_cli.kernels import kernel

CENTROIDS = 256  # codes are bytes
SAMPLE = 1 << 14  # vectors that centroids are trained on
ITERATIONS = 15
BLOCK = 1 << 12  # rows at a time


class QuantizedMatrix:
    """A matrix (N, D) in codes. Rows are decoded when they are indexed, so that it can stand in for an array."""

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, centroids: np.ndarray, codes: np.ndarray, scales: np.ndarray, dsub: int) -> None:
        self.centroids = centroids  # float32 (256, D)
        self.codes = codes  # uint8 (N, P)
        self.scales = scales  # float32 (N,)
        self.shape = (len(codes), centroids.shape[1])
        self._columns = np.arange(self.shape[1])
        self._part_of = self._columns // dsub

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Decode rows: float32 (·, D), or (D,) for one number."""
        directions = self.centroids[self.codes[rows][..., self._part_of], self._columns]
        return np.asarray(directions * self.scales[rows][..., None], np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Decode all rows."""
        decoded = np.empty(self.shape, dtype or self.dtype)
        for first in range(0, len(self), BLOCK):
            decoded[first : first + BLOCK] = self[first : first + BLOCK]
        return decoded

    def dot(self, query: np.ndarray) -> np.ndarray:
        """Compute the dot products of all rows with a vector (D,), without decoding: float32 (N,)."""
        return self._sums(self.centroids * query) * self.scales

    def norms(self) -> np.ndarray:
        """Compute the norm of each row: float32 (N,)."""
        return np.sqrt(self._sums(self.centroids * self.centroids)) * np.abs(self.scales)

    def _sums(self, by_dimension: np.ndarray) -> np.ndarray:
        """Sum a value of each code over the codes of each row. by_dimension: their parts by dimension (256, D)."""
        starts = np.flatnonzero(np.diff(self._part_of, prepend=-1))
        values = np.ascontiguousarray(np.add.reduceat(by_dimension, starts, axis=1), np.float32)  # (256, P)
        sums = np.empty(len(self), np.float32)
        _sum_codes(self.codes, values, sums)
        return sums


@kernel
def _sum_codes(codes, values, sums):
    """Write Σ_p values[codes[i, p], p] to sums[i]."""
    for i in range(codes.shape[0]):
        total = np.float32(0)
        for p in range(codes.shape[1]):
            total += values[codes[i, p], p]
        sums[i] = total


@kernel
def _assign(rows, columns, centroids, scores, codes, part):
    """Write the code of the nearest centroid to codes[:, part], for the dimensions columns[0] to before columns[1].

    centroids: (D, 256), with half of their squared norms subtracted from `scores` (2, 256): in scores[1]; scores[0] is
    scratch."""
    first, last = columns
    for i in range(rows.shape[0]):
        for c in range(CENTROIDS):
            scores[0, c] = -scores[1, c]
        for d in range(first, last):
            x = rows[i, d]
            for c in range(CENTROIDS):
                scores[0, c] += x * centroids[d, c]
        best = 0
        for c in range(1, CENTROIDS):
            if scores[0, c] > scores[0, best]:
                best = c
        codes[i, part] = best


def _encode_part(
    rows: np.ndarray, columns: tuple[int, int], centroids: np.ndarray, codes: np.ndarray, part: int
) -> None:  # fmt: skip
    """Assign the codes of a part. centroids: (256, D)."""
    scores = np.zeros((2, CENTROIDS), np.float32)
    own = centroids[:, columns[0] : columns[1]]
    scores[1] = np.einsum("cd,cd->c", own, own) / 2
    _assign(rows, columns, np.ascontiguousarray(centroids.T), scores, codes, part)


def quantize(
    matrix: np.ndarray, dsub: int, advance: Callable[[int], None] = lambda count: None
) -> QuantizedMatrix:  # fmt: skip
    """Quantize the rows of a matrix (N, D), in time proportional to N. advance: called with the number of rows done."""
    rows, size = matrix.shape
    parts = -(-size // dsub)
    columns = [(part * dsub, min((part + 1) * dsub, size)) for part in range(parts)]
    used = np.flatnonzero(np.abs(matrix).max(axis=1)) if rows else np.empty(0, np.int64)
    chosen = used[np.unique(np.arange(min(SAMPLE, len(used))) * len(used) // max(1, min(SAMPLE, len(used))))]
    centroids = _train(_units(matrix[chosen]), columns)
    codes, scales = np.zeros((rows, parts), np.uint8), np.zeros(rows, np.float32)
    found = QuantizedMatrix(centroids, codes, scales, dsub)
    for first in range(0, len(used), BLOCK):
        block = used[first : first + BLOCK]
        given, block_codes = matrix[block], np.empty((len(block), parts), np.uint8)
        units = _units(given)
        for part in range(parts):
            _encode_part(units, columns[part], centroids, block_codes, part)
        codes[block], scales[block] = block_codes, 1
        decoded = found[block].astype(np.float64)
        squares = np.einsum("nd,nd->n", decoded, decoded)
        scales[block] = np.einsum("nd,nd->n", given, decoded) / np.where(squares > 0, squares, 1)
        advance(len(block))
    advance(rows - len(used))
    return found


def _units(rows: np.ndarray) -> np.ndarray:
    """Scale rows, none of which is zero, to unit length."""
    norms = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    return np.ascontiguousarray(rows / np.where(norms > 0, norms, 1)[:, None], np.float32)


def _train(rows: np.ndarray, columns: list[tuple[int, int]]) -> np.ndarray:
    """Find the centroids of each part by k-means: float32 (256, D). It starts from rows at equal distances."""
    size = columns[-1][1]
    if not len(rows):
        return np.zeros((CENTROIDS, size), np.float32)
    centroids = rows[np.arange(CENTROIDS) * len(rows) // CENTROIDS].copy()
    codes = np.empty((len(rows), 1), np.uint8)
    for first, last in columns:
        for _ in range(ITERATIONS):
            _encode_part(rows, (first, last), centroids, codes, 0)
            counts = np.bincount(codes[:, 0], minlength=CENTROIDS)
            for d in range(first, last):
                sums = np.bincount(codes[:, 0], rows[:, d], CENTROIDS)
                centroids[:, d] = np.where(counts, sums / np.maximum(counts, 1), centroids[:, d])  # empty ones stay
    return centroids


def reconstruction_error(matrix: np.ndarray, quantized: QuantizedMatrix) -> float:
    """Return the squared error of quantized vectors, relative to their squared norms."""
    error = total = 0.0
    for first in range(0, len(matrix), BLOCK):
        block = matrix[first : first + BLOCK].astype(np.float64)
        error += float(((block - quantized[first : first + BLOCK]) ** 2).sum())
        total += float((block**2).sum())
    return error / total if total else 0.0
