"""Reading the words of test sets, and looking them up among the words with vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.store import container
from neglm_cli.text.word_index import WordIndex

UNKNOWN = -1
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def lower(word: bytes) -> bytes:
    """Lowercase a word; only its ASCII letters if it is not UTF-8."""
    try:
        return word.decode().lower().encode()
    except UnicodeDecodeError:
        return word.lower()


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The words used in an evaluation."""

    words: WordIndex
    max_vocab: int | None = None  # to the most frequent words
    fold_case: bool = False  # look up unknown words in lower case

    @cached_property
    def ids(self) -> np.ndarray:
        """The ids of these words, int64, ascending. Ties in frequency go to the first words."""
        return np.sort(np.argsort(-self.words.counts, kind="stable")[: self.max_vocab])

    @cached_property
    def _index_of(self) -> np.ndarray:
        index_of = np.full(len(self.words) + 1, UNKNOWN, np.int64)  # the last entry is for id -1
        index_of[self.ids] = np.arange(len(self.ids))
        return index_of

    def indices(self, rows: list[tuple[bytes, ...]]) -> np.ndarray:
        """Return the indices in `ids` of all words in rows of equal length: int64 (len(rows), ·), UNKNOWN for
        other words."""
        words = [word for row in rows for word in row]
        found = self._indices(words)
        if self.fold_case:
            found = np.where(found == UNKNOWN, self._indices(list(map(lower, words))), found)
        return found.reshape(len(rows), -1)

    def _indices(self, words: list[bytes]) -> np.ndarray:
        return self._index_of[self.words.ids(WordIndex.of(words))]

    def word(self, index: int) -> bytes:
        """Return the word with an index in `ids`."""
        return self.words[int(self.ids[index])]

    def missed_by_case(self, rows: list[tuple[bytes, ...]]) -> int:
        """Return the number of rows whose unknown words would all be known if case were folded."""
        if self.fold_case:
            return 0
        folding = Lexicon(self.words, self.max_vocab, fold_case=True)
        return int(all_known(folding.indices(rows)).sum() - all_known(self.indices(rows)).sum())


def all_known(indices: np.ndarray) -> np.ndarray:
    """Return True for rows without unknown words: bool (len(indices),)."""
    return (indices != UNKNOWN).all(axis=1)


def numbered_lines(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the non-empty lines of a test set, each with its name for messages. `-` is standard input."""
    with container.open_seekable(path) as source:
        try:
            if container.is_safetensors(source.location):
                raise NeglmError(f"{source.name} is a neglm file, not a test set; VECTORS comes before the options")
            empty = True
            with open(source.location, "rb") as file:
                for number, line in enumerate(file, 1):
                    line = line.removeprefix(BYTE_ORDER_MARK).strip()
                    if line:
                        empty = False
                        yield f"{source.name}, line {number}", line
        except OSError as error:
            raise NeglmError(f"cannot read {source.name}: {error.strerror or error}") from error
        if empty:
            raise NeglmError(f"{source.name} is empty: nothing to evaluate")
