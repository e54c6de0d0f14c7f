"""Vocabularies and word vectors."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from neglm_cli.errors import count_of, shown
from neglm_cli.store.container import Stored
from neglm_cli.text import vocabulary
from neglm_cli.text.tokenization import tokenize as split_line
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.analogies import Method, answers_to
from neglm_cli.vectors.lookup import Found, Lookup, units
from neglm_cli.vectors.neighbors import CosineIndex, Neighbor, nearest, top_scores
from neglm_cli.vectors.vectors import vectors_of


def encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def decode(word: bytes) -> str:
    """Decode a word. Bytes that are not UTF-8 are kept, as Python keeps those of file names."""
    return word.decode(errors="surrogateescape")


def tokenize(text: str) -> str:
    """Split raw text into tokens, separated by blanks, as `neglm tokenize` does. Lines stay lines."""
    return "\n".join(decode(split_line(encode(line))) for line in text.split("\n"))


class WordFile:
    """A file with words. It can be passed wherever a path is expected."""

    def __init__(self, stored: Stored, index: WordIndex) -> None:
        self.path = stored.path
        self._name = stored.name
        self._index = index

    @cached_property
    def words(self) -> list[str]:
        """The words, most frequent first."""
        return [decode(word) for word in self._index]

    @property
    def counts(self) -> np.ndarray:
        """The number of occurrences of each word in the training text: int64 (V,)."""
        return self._index.counts

    def id(self, word: str) -> int:
        """Return the index of a word in `words`; raise KeyError if it is unknown."""
        found = self._find(word)
        if found < 0:
            raise KeyError(f"{word!r} is not in {shown(self._name)}")
        return found

    def _find(self, word: str) -> int:
        return self._index.id(encode(word))

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._find(word) >= 0

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self._name)}: {self._described()}>"

    def _described(self) -> str:
        return count_of(len(self), "word")


class Vocabulary(WordFile):
    """Words with their counts: `vocabulary["word"]`. `<unk>` stands for all other words, `<eos>` for line ends."""

    def __init__(self, stored: Stored) -> None:
        self._vocabulary = vocabulary.Vocabulary.of_file(stored)
        super().__init__(stored, self._vocabulary)

    def __getitem__(self, word: str) -> int:
        """Return the count of a word."""
        return int(self.counts[self.id(word)])

    @property
    def tokens(self) -> int:
        """The number of words in the text, without line ends."""
        return self._vocabulary.tokens

    @property
    def coverage(self) -> float:
        """The fraction of the text's words that are in the vocabulary."""
        return self._vocabulary.coverage

    def _described(self) -> str:
        return f"{super()._described()}, {self.coverage:.2%} of {count_of(self.tokens, 'token')}"


class WordVectors(WordFile):
    """Words with their vectors: `vectors["word"]`. With subwords, all words have vectors; `in`, `words` and `len` are
    about the vocabulary."""

    def __init__(self, stored: Stored, table: str | None = None, subwords: bool = True) -> None:
        read = vectors_of(stored, table)
        super().__init__(stored, read.words)
        self._vectors = read.vectors
        self._lookup = Lookup(read, subwords)

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors of `words`: float32 (V, D). Those of a quantized file are decoded."""
        return np.asarray(self._vectors)

    @property
    def has_subwords(self) -> bool:
        """True if words that are not in the vocabulary get vectors."""
        return self._lookup.subwords is not None

    def __getitem__(self, word: str) -> np.ndarray:
        """Return the vector of a word: float32 (D,). Composed from subwords if the word is not in the vocabulary; raise
        KeyError if there are none."""
        return self._find_all([word]).vectors[0]

    def nearest(self, query: str | Sequence[str] | np.ndarray, n: int = 10) -> list[tuple[str, float]]:
        """Return the n words with the highest cosines to a word, to several words, or to a vector (D,). The words of
        the query are excluded."""
        if isinstance(query, np.ndarray):
            if query.shape != self._vectors.shape[1:]:
                raise ValueError(f"a vector of {self._described()} has the shape {self._vectors.shape[1:]}")
            return self._named(top_scores(self._cosines.cosines(query.astype(np.float32)), n))
        found = self._find_all([query] if isinstance(query, str) else query)
        return self._named(nearest(self._cosines, units(found), n, found.known))

    def analogy(self, a: str, b: str, c: str, n: int = 10, method: Method = "add") -> list[tuple[str, float]]:
        """Return the n best answers to: a is to b as c is to which word? method: "add" (3CosAdd) or "mul" (3CosMul)."""
        found = self._find_all((a, b, c))
        return self._named(answers_to(self._cosines, units(found), method, n, found.known))

    def similarity(self, first: str, second: str) -> float:
        """Return the cosine of two words' vectors."""
        one, other = units(self._find_all((first, second)))
        return float(one @ other)

    def _find_all(self, words: Sequence[str]) -> Found:
        found = self._lookup.find([encode(word) for word in words])
        if isinstance(found, bytes):
            raise KeyError(f"{decode(found)!r} is not in {shown(self._name)}")
        return found

    def _named(self, neighbors: list[Neighbor]) -> list[tuple[str, float]]:
        return [(decode(self._index[neighbor.id]), neighbor.score) for neighbor in neighbors]

    @cached_property
    def _cosines(self) -> CosineIndex:
        return CosineIndex.of(self._vectors, self._name)

    def _described(self) -> str:
        return f"{super()._described()}, {count_of(self._vectors.shape[1], 'dimension')}"
