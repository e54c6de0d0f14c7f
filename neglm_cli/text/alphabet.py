"""An alphabet: words in a fixed order, each with its count. A word's place is its id."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xxhash

from neglm_cli.store.container import Stored
from neglm_cli.text.table import WordTable
from neglm_cli.text.tokens import padded


@dataclass(frozen=True, eq=False)
class Alphabet:
    words: np.ndarray  # uint8 (W,): the words' bytes, one after the other
    offsets: np.ndarray  # int64 (V+1,): word i is words[offsets[i]:offsets[i+1]]
    counts: np.ndarray  # int64 (V,)

    @staticmethod
    def of(words: Iterable[bytes], counts: np.ndarray) -> "Alphabet":
        """The alphabet of these words, in this order."""
        listed = list(words)
        offsets = np.cumsum([0, *map(len, listed)], dtype=np.int64)
        return Alphabet(np.frombuffer(b"".join(listed), np.uint8), offsets, np.asarray(counts, np.int64))

    @staticmethod
    def from_stored(stored: Stored, prefix: str = "") -> "Alphabet":
        """The words of a file, or with the prefix `context_` its contexts."""
        return Alphabet(*(stored.tensors[prefix + name] for name in ("words", "offsets", "counts")))

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, i: int) -> bytes:
        return self.words[self.offsets[i] : self.offsets[i + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        data, ends = self.words.tobytes(), self.offsets.tolist()
        return (data[ends[i] : ends[i + 1]] for i in range(len(self)))

    @cached_property
    def table(self) -> WordTable:
        """A hash table of the words: entry numbers are ids."""
        table = WordTable()
        table.add_words(self.offsets, self.counts, padded(self.words.data))
        return table

    def id(self, word: bytes) -> int:
        """The id of a word, -1 if it is not among them."""
        return self.table.entry(word)

    @cached_property
    def identity(self) -> str:
        """Names the words and their order, and so what every id means."""
        digest = xxhash.xxh3_128(self.offsets.data)
        digest.update(self.words.data)
        return digest.hexdigest()
