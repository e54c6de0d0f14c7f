"""Vectors of any word from rows of words and of character n-grams.

The vector of a known word is the mean of its row and those of its n-grams; that of an unknown word, the mean of those
of its n-grams. In a table of floret, words have no rows of their own: known and unknown words are alike.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from neglm_cli.settings.embed import ngram_range
from neglm_cli.store.container import Matrix, Stored
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.composition import SubwordInputs, compose
from neglm_cli.vectors.ngrams import NGrams, ngram_buckets
from neglm_cli.vectors.quantization import QuantizedMatrix

BLOCK = 1 << 12  # n-grams summed at a time: bounds memory, however long a word is


class SubwordRows(NamedTuple):
    """Rows as they are written to a file."""

    lengths: str
    words: np.ndarray | Matrix
    ngrams: np.ndarray | Matrix
    hash_count: int = 0


@dataclass(frozen=True, eq=False)
class Subwords:
    """Rows of a file."""

    lengths: str  # of n-grams in characters: "3-6"
    words: np.ndarray  # float32 (V, D); (0, D) if words have no rows of their own
    ngrams: np.ndarray  # float32 (G, D): of each bucket; a `QuantizedMatrix` stands in for it in quantized files
    hash_count: int = 0  # rows of each n-gram in a table of floret; 0 for n-grams of fastText

    @classmethod
    def from_stored(cls, stored: Stored) -> "Subwords":
        fields, ngrams = stored.fields, stored.tensors["ngram_rows"]
        words = stored.tensors.get("word_rows", ngrams[:0])
        return cls(fields["subwords"], words, ngrams, fields["hash_count"])

    @classmethod
    def from_quantized(cls, stored: Stored) -> "Subwords":
        """Return subwords without rows of words: enough to compose the vectors of unknown words."""
        fields, tensors = stored.fields, stored.tensors
        ngrams = QuantizedMatrix(
            tensors["ngram_centroids"], tensors["ngram_codes"], tensors["ngram_scales"], fields["dsub"]
        )
        no_words = np.empty((0, ngrams.shape[1]), np.float32)
        return cls(fields["subwords"], no_words, cast(np.ndarray, ngrams), fields["hash_count"])

    @property
    def rows(self) -> SubwordRows:
        return SubwordRows(self.lengths, self.words, np.asarray(self.ngrams), self.hash_count)

    def has_ngrams_of(self, lengths: str | None, hash_count: int) -> bool:
        """Return True if n-grams have these lengths and hashes."""
        return self.lengths == lengths and self.hash_count == hash_count

    def known(self, words: WordIndex) -> np.ndarray:
        """Compose the vectors of the vocabulary, `words`: float32 (V, D)."""
        size = self.ngrams.shape[1]
        vectors = np.empty((len(words), size), np.float32)
        ngrams = np.ascontiguousarray(self.ngrams, np.float32)
        inputs = SubwordInputs(self.words.reshape(-1), ngrams.reshape(-1), *self._buckets(words), size)
        compose(inputs, np.arange(len(words)), vectors.reshape(-1))
        return vectors

    def unknown(self, word: bytes) -> np.ndarray | None:
        """Compose the vector of a word that is not in the vocabulary: float32 (D,). None if it has no n-grams."""
        buckets = self._buckets(WordIndex.of([word])).ids
        if not len(buckets) or not word:
            return None
        total = np.zeros(self.ngrams.shape[1], np.float32)
        for first in range(0, len(buckets), BLOCK):
            total += self.ngrams[buckets[first : first + BLOCK]].sum(axis=0)
        return total / np.float32(len(buckets))

    def _buckets(self, words: WordIndex) -> NGrams:
        return ngram_buckets(words, *ngram_range(self.lengths), len(self.ngrams), self.hash_count)
