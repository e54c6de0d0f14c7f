"""Vectors of any word from rows of words and of character n-grams.

The vector of a known word is the mean of its row and those of its n-grams; that of an unknown word, the mean of those
of its n-grams.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neglm_cli.settings.embed import ngram_range
from neglm_cli.store.container import Matrix, Stored
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.composition import SubwordInputs, compose
from neglm_cli.vectors.ngrams import ngram_buckets

BLOCK = 1 << 12  # n-grams summed at a time: bounds memory, however long a word is


class SubwordRows(NamedTuple):
    """Rows as they are written to a file."""

    lengths: str
    words: np.ndarray | Matrix
    ngrams: np.ndarray | Matrix


@dataclass(frozen=True, eq=False)
class Subwords:
    """Rows of a file."""

    lengths: str  # of n-grams in characters: "3-6"
    words: np.ndarray  # float32 (V, D)
    ngrams: np.ndarray  # float32 (G, D): of each bucket

    @classmethod
    def from_stored(cls, stored: Stored) -> "Subwords":
        return cls(stored.fields["subwords"], stored.tensors["word_rows"], stored.tensors["ngram_rows"])

    @property
    def rows(self) -> SubwordRows:
        return SubwordRows(self.lengths, self.words, self.ngrams)

    def known(self, words: WordIndex) -> np.ndarray:
        """Compose the vectors of the vocabulary, `words`: float32 (V, D)."""
        ngrams = ngram_buckets(words, *ngram_range(self.lengths), len(self.ngrams))
        vectors = np.empty_like(self.words)
        inputs = SubwordInputs(self.words.reshape(-1), self.ngrams.reshape(-1), *ngrams, self.words.shape[1])
        compose(inputs, np.arange(len(words)), vectors.reshape(-1))
        return vectors

    def unknown(self, word: bytes) -> np.ndarray | None:
        """Compose the vector of a word that is not in the vocabulary: float32 (D,). None if it has no n-grams."""
        buckets = ngram_buckets(WordIndex.of([word]), *ngram_range(self.lengths), len(self.ngrams)).ids
        if not len(buckets):
            return None
        total = np.zeros(self.ngrams.shape[1], np.float32)
        for first in range(0, len(buckets), BLOCK):
            total += self.ngrams[buckets[first : first + BLOCK]].sum(axis=0)
        return total / np.float32(len(buckets))
