"""Neighbours: the words whose vectors point most nearly where a query does."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neglm_cli.vectors.directions import Directions


class Neighbour(NamedTuple):
    id: int
    score: float


def best(scores: np.ndarray, top: int, excluded: Sequence[int] = ()) -> list[Neighbour]:
    """The `top` highest scores, highest first; of equal ones the lower id. Changes the scores of those excluded."""
    scores[list(excluded)] = -np.inf
    top = min(top, len(scores) - len(set(excluded)))
    if top <= 0:
        return []
    # Partitioning finds the lowest score that is among the best; all that have it compete for the last places.
    lowest = np.partition(scores, -top)[-top]
    found = np.flatnonzero(scores >= lowest)
    found = found[np.argsort(-scores[found], kind="stable")][:top]
    return [Neighbour(int(i), float(scores[i])) for i in found]


def direction_of(words: Directions, ids: Sequence[int]) -> np.ndarray:
    """The direction that several words have together: the sum of their unit vectors, float32 (D,)."""
    return words.units(list(ids)).sum(axis=0)


def nearest(words: Directions, query: Sequence[int], top: int) -> list[Neighbour]:
    """The words with the highest cosines, but for those of the query."""
    return best(words.cosines(direction_of(words, query)), top, query)


def nearest_contexts(words: Directions, contexts: Directions, query: Sequence[int], top: int) -> list[Neighbour]:
    """The contexts with the highest cosines; none is excluded, as a context is not the word that is spelt like it."""
    return best(contexts.cosines(direction_of(words, query)), top)
