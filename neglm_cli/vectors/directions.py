"""Vectors by their directions, which is what cosines compare."""

from dataclasses import dataclass

import numpy as np

from neglm_cli.errors import NeglmError


@dataclass(frozen=True, eq=False)
class Directions:
    """The vectors stay as they are: a copy with unit lengths would take as much memory again.

    A vector of zeros has no direction; its cosine with anything is 0.
    """

    vectors: np.ndarray  # float32 (V, D)
    lengths: np.ndarray  # float32 (V,); 1 for a vector of zeros

    @staticmethod
    def of(vectors: np.ndarray, name: str) -> "Directions":
        """The directions of vectors from a file with that name; refused if some have none."""
        lengths = np.sqrt(np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64)).astype(np.float32)
        finite = np.isfinite(lengths)
        if not finite.all():
            row = int(finite.argmin())
            raise NeglmError(
                f"{name}: vector {row} (the first is 0) has numbers that are too large or none; train again"
            )
        lengths[lengths == 0] = 1
        return Directions(vectors, lengths)

    def units(self, ids: np.ndarray | list[int]) -> np.ndarray:
        """Vectors of length 1, float32 (len(ids), D)."""
        return self.vectors[ids] / self.lengths[ids, None]

    def cosines(self, query: np.ndarray) -> np.ndarray:
        """The cosine of every vector with `query`, float32 (V,).

        `einsum` adds up each row by itself and in the same order, so that equal vectors have equal cosines wherever
        they stand, which a product by BLAS does not promise; it is limited by memory just the same.
        """
        length = np.sqrt(np.einsum("d,d->", query, query))
        scale = self.lengths * (length if length > 0 else 1)
        return np.einsum("vd,d->v", self.vectors, query) / scale
