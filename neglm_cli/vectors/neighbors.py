"""Cosine similarity, and nearest neighbors by it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.vectors.quantization import QuantizedMatrix


@dataclass(frozen=True, eq=False)
class CosineIndex:
    """Vectors and their norms, without a normalized copy, which would double the memory. The cosine of a zero vector
    with any other is 0."""

    vectors: np.ndarray | QuantizedMatrix  # float32 (V, D)
    norms: np.ndarray  # float32 (V,); 1 for a vector of zeros

    @staticmethod
    def of(vectors: np.ndarray | QuantizedMatrix, name: str) -> "CosineIndex":
        """Compute the norms; raise if a vector has NaN or infinite values. name: the file in messages."""
        if isinstance(vectors, QuantizedMatrix):
            norms = vectors.norms()
        else:
            norms = np.sqrt(np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64)).astype(np.float32)
        finite = np.isfinite(norms)
        if not finite.all():
            row = int(finite.argmin())
            raise NeglmError(f"{name}: vector {row} (counting from 0) contains NaN or infinite values; train again")
        norms[norms == 0] = 1
        return CosineIndex(vectors, norms)

    def units(self, ids: np.ndarray | list[int]) -> np.ndarray:
        """Return unit vectors, float32 (len(ids), D)."""
        return self.vectors[ids] / self.norms[ids, None]

    def cosines(self, query: np.ndarray) -> np.ndarray:
        """Compute the cosine of every vector with `query`, float32 (V,).

        `einsum` sums every row in the same order, so equal vectors have equal cosines, which BLAS does not guarantee;
        both are limited by memory bandwidth.
        """
        norm = np.sqrt(np.einsum("d,d->", query, query))
        scale = self.norms * (norm if norm > 0 else 1)
        if isinstance(self.vectors, QuantizedMatrix):
            return self.vectors.dot(query) / scale
        return np.einsum("vd,d->v", self.vectors, query) / scale


class Neighbor(NamedTuple):
    id: int
    score: float


def top_scores(scores: np.ndarray, top: int, excluded: Sequence[int] = ()) -> list[Neighbor]:
    """Return the `top` highest scores, highest first; ties in order of ids. Overwrites the scores of excluded
    ids."""
    scores[list(excluded)] = -np.inf
    top = min(top, len(scores) - len(set(excluded)))
    if top <= 0:
        return []
    # `partition` finds the lowest of the top scores; all ids with that score are candidates.
    lowest = np.partition(scores, -top)[-top]
    found = np.flatnonzero(scores >= lowest)
    found = found[np.argsort(-scores[found], kind="stable")][:top]
    return [Neighbor(int(i), float(scores[i])) for i in found]


def nearest(words: CosineIndex, query: np.ndarray, top: int, excluded: Sequence[int] = ()) -> list[Neighbor]:
    """Return the words with the highest cosines to the sum of unit vectors. query: float32 (·, D); excluded: ids."""
    return top_scores(words.cosines(query.sum(axis=0)), top, excluded)
