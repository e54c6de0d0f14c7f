"""The words that count in an evaluation, and how the words of a question are found among them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.spelling import lower

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Lexicon:
    alphabet: WordIndex
    restrict: int | None = None  # only so many words count, the most frequent
    fold_case: bool = False  # a word that is unknown as it is written may be known in lower case

    @cached_property
    def ids(self) -> np.ndarray:
        """The words that count, int64, ascending. Of equally frequent ones the first come first."""
        return np.sort(np.argsort(-self.alphabet.counts, kind="stable")[: self.restrict])

    @cached_property
    def _places(self) -> np.ndarray:
        places = np.full(len(self.alphabet) + 1, UNKNOWN, np.int64)  # the last one is that of id -1
        places[self.ids] = np.arange(len(self.ids))
        return places

    def place(self, word: bytes) -> int:
        """Where in `ids` a word is, or UNKNOWN."""
        place = self._place(word)
        return self._place(lower(word)) if place == UNKNOWN and self.fold_case else place

    def _place(self, word: bytes) -> int:
        return int(self._places[self.alphabet.id(word)])

    def places(self, rows: list[tuple[bytes, ...]]) -> np.ndarray:
        """The places of all words in rows of equal length, int64 (len(rows), ·)."""
        found = {word: self.place(word) for row in rows for word in row}
        return np.array([[found[word] for word in row] for row in rows], np.int64)

    def missed_by_case(self, rows: list[tuple[bytes, ...]]) -> int:
        """How many rows with an unknown word would have none if case were folded."""
        if self.fold_case:
            return 0
        folding = Lexicon(self.alphabet, self.restrict, fold_case=True)
        return int(known(folding.places(rows)).sum() - known(self.places(rows)).sum())


def known(places: np.ndarray) -> np.ndarray:
    """Which rows of places have no unknown word, bool (len(places),)."""
    return (places != UNKNOWN).all(axis=1)
