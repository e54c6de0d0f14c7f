"""Sparse gradients across ranks: reduce only rows that some rank has gradients for, not whole tables.

All ranks need the same list of rows first. If it follows from shared data (the text, shared noise words), no
communication is needed.
"""

import numpy as np

from neglm_cli.scale.ranks import Ranks


def union_of_rows(ranks: Ranks, rows: np.ndarray) -> np.ndarray:
    """Return the union of all ranks' rows: int32, sorted."""
    return np.unique(ranks.allgather_arrays(rows))


def scatter_rows(rows: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]], target: np.ndarray) -> None:
    """Scatter gradients into a dense block, one line per row, and zero the rest.

    rows: sorted (R,). parts: pairs of rows (N,) and their gradients (N, ≥ C). target: (R, C)."""
    target[:] = 0
    for own, gradients in parts:
        target[np.searchsorted(rows, own)] = gradients[:, : target.shape[1]]
