"""Vectors of any words: those of the vocabulary, and others composed from subwords."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neglm_cli.vectors.neighbors import CosineIndex
from neglm_cli.vectors.vectors import Vectors


@dataclass(frozen=True)
class Found:
    """The vectors of some words."""

    ids: list[int]  # in the vocabulary; -1 for words composed from subwords
    vectors: np.ndarray  # float32 (words, D)
    composed: list[bytes]  # words that are not in the vocabulary

    @property
    def known(self) -> list[int]:
        return [id_ for id_ in self.ids if id_ >= 0]


class Lookup:
    """Finds vectors. subwords: False to look in the vocabulary only."""

    def __init__(self, vectors: Vectors, subwords: bool = True) -> None:
        self.words = vectors.words
        self._vectors = vectors.vectors
        self.subwords = vectors.subwords if subwords else None

    def find(self, words: Sequence[bytes]) -> Found | bytes:
        """Return the vectors of words, or the first word that has none."""
        ids = [self.words.id(word) for word in words]
        rows, composed = [], []
        for word, id_ in zip(words, ids, strict=True):
            row = self._vectors[id_] if id_ >= 0 else self.compose(word)
            if row is None:
                return word
            if id_ < 0:
                composed.append(word)
            rows.append(row)
        return Found(ids, np.array(rows, np.float32).reshape(len(rows), self._vectors.shape[1]), composed)

    def compose(self, word: bytes) -> np.ndarray | None:
        """Compose the vector of an unknown word; None if it has no n-grams, or if there are no subwords."""
        return None if self.subwords is None else self.subwords.unknown(word)


def units(found: Found) -> np.ndarray:
    """Scale vectors to unit length; zero vectors stay zero: float32 (words, D)."""
    index = CosineIndex.of(found.vectors, "")
    return index.units(np.arange(len(found.ids)))
