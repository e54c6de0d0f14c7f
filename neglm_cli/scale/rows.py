"""Rows of tables that processes have gradients of, each of its own rows: added up without sending whole tables.

All agree on a list of rows first. Where it follows from what everyone knows (the text, noise words that are shared),
nobody has to send it.
"""

import numpy as np

from neglm_cli.scale.ranks import Ranks


def agree_on_rows(ranks: Ranks, mine: np.ndarray) -> np.ndarray:
    """The rows that one of the processes has: int32, in order."""
    return np.unique(ranks.collect(mine))


def spread(rows: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]], target: np.ndarray) -> None:
    """Put gradients in their places in a list of rows, and zeros elsewhere. parts: rows, and their gradients; target
    (rows, columns): those columns of the gradients."""
    target[:] = 0
    for own, gradients in parts:
        target[np.searchsorted(rows, own)] = gradients[:, : target.shape[1]]
