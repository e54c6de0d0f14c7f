"""A word index: words with ids and counts. A word's position in the list is its id."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xxhash

from neglm_cli.store.container import Stored
from neglm_cli.store.wordlists import find_word
from neglm_cli.text.table import WordTable
from neglm_cli.text.tokens import padded


@dataclass(frozen=True, eq=False)
class WordIndex:
    """V words and their counts, looked up by id or by word."""

    words: np.ndarray  # uint8 (B,): the words' bytes, concatenated
    offsets: np.ndarray  # int64 (V+1,): word i is words[offsets[i]:offsets[i+1]]
    counts: np.ndarray  # int64 (V,)

    @staticmethod
    def of(words: Iterable[bytes], counts: np.ndarray | None = None) -> "WordIndex":
        """Index these words, in this order. Without counts, each counts 1."""
        listed = list(words)
        offsets = np.cumsum([0, *map(len, listed)], dtype=np.int64)
        if counts is None:
            counts = np.ones(len(listed))
        return WordIndex(np.frombuffer(b"".join(listed), np.uint8), offsets, np.asarray(counts, np.int64))

    @staticmethod
    def from_stored(stored: Stored, prefix: str = "") -> "WordIndex":
        """Return the words of a file, or with the prefix `context_` its contexts."""
        return WordIndex(*(stored.tensors[prefix + name] for name in ("words", "offsets", "counts")))

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, i: int) -> bytes:
        return self.words[self.offsets[i] : self.offsets[i + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        data, ends = self.words.tobytes(), self.offsets.tolist()
        return (data[ends[i] : ends[i + 1]] for i in range(len(self)))

    @cached_property
    def table(self) -> WordTable:
        """A hash table of the words, whose entry numbers are the ids."""
        return WordTable.of_distinct(self.offsets, self.counts, padded(self.words.data))

    def id(self, word: bytes) -> int:
        """Return the id of a word, -1 if it is unknown. For many words, `ids` is faster."""
        return find_word(word, self.words, self.offsets)

    def ids(self, words: "WordIndex") -> np.ndarray:
        """Return the ids of words, int64; -1 for unknown words."""
        return self.table.entries(words.offsets, padded(words.words.data))

    @cached_property
    def identity(self) -> str:
        """A digest of the words and their order: equal for word indexes with the same ids."""
        digest = xxhash.xxh3_128(self.offsets.data)
        digest.update(self.words.data)
        return digest.hexdigest()
