"""What the readers of all forms share: a buffer of the file's bytes, a matrix that grows, and what must be true."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError, empty, shown
from neglm_cli.text.source import Source
from neglm_cli.text.streams import read_all

BUFFER = 4 << 20  # bytes that are read at a time
FIRST_ROOM = 1 << 20  # numbers that a matrix has room for at first
GREATEST_SIZE = 1 << 20  # numbers of one vector: beyond any use


class Table(NamedTuple):
    """What every form holds."""

    words: list[bytes]  # V
    vectors: np.ndarray  # float32 (V, D)


class Input:
    """A file's bytes, decompressed: text[begin:end] are those that were read and not yet used."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self._file = file
        self.text = bytearray(BUFFER)
        self.begin = self.end = 0

    def more(self) -> bool:
        """Read on, as far as there is room, having moved what was not yet used to the front; False at the end."""
        rest = self.end - self.begin
        moved = self.text if 2 * rest <= len(self.text) else bytearray(2 * len(self.text))
        moved[:rest] = self.text[self.begin : self.end]
        self.text, self.begin = moved, 0
        count = read_all(self._file, memoryview(moved)[rest:])
        self.end = rest + count
        return count > 0

    def read(self, size: int) -> bytes:
        """As a file does: NumPy reads its own form."""
        if self.begin == self.end:
            self.more()
        data = bytes(self.text[self.begin : min(self.begin + size, self.end)])
        self.begin += len(data)
        return data


@contextmanager
def opening(path: str, advance: Callable[[int], None] = lambda count: None) -> Iterator[Input]:
    """A file, or - for standard input, with its first bytes already read; `advance` is told of bytes on disk."""
    source = Source(path, -1, plain=False)
    with source.reading(advance) as file:
        found = Input(source.name, file)
        if not found.more():
            raise NeglmError(empty(found.name))
        yield found


class Growing:
    """The words and rows of a table as they come. A header may lie, so room is made only for what is there."""

    def __init__(self, size: int) -> None:
        self.words: list[bytes] = []
        self._size = size
        self._vectors = np.empty((max(1, FIRST_ROOM // size), size), np.float32)

    def __len__(self) -> int:
        return len(self.words)

    def room(self) -> np.ndarray:
        """Rows to be filled. Not to be kept: the next call may move them."""
        if len(self.words) == len(self._vectors):
            self._resize(len(self._vectors) * 5 // 4 + 1)
        return self._vectors[len(self.words) :]

    def finish(self) -> Table:
        self._resize(len(self.words))
        return Table(self.words, self._vectors)

    def _resize(self, rows: int) -> None:
        """In place, so that the matrix is never there twice: the system moves its pages."""
        self._vectors.resize((rows, self._size), refcheck=False)


def checked(table: Table, name: str, where: Callable[[int], str], promised: int | None = None) -> Table:
    """The table, if it has words, as many as promised, each once, and finite numbers; `where` names a row."""
    words, vectors = table
    if promised is not None and promised != len(words):
        there = f"there are {len(words):,}" if len(words) != 1 else "there is 1"
        raise NeglmError(
            f"{name}: its first line promises {promised:,} word{'s' * (promised != 1)}, but {there}; get it again, or "
            "mend that line"
        )
    if not words:
        raise NeglmError(f"{name} has no words: there is nothing to import")
    refuse_repeated(words, name, where)
    step = max(1, FIRST_ROOM // vectors.shape[1])
    for start in range(0, len(vectors), step):
        finite = np.isfinite(vectors[start : start + step]).all(axis=1)
        if not finite.all():
            row = start + int(finite.argmin())
            raise NeglmError(
                f"{name}, {where(row)}: the vector of {displayed(words[row])} has a number that is not finite, or too "
                "large for 32 bits; make it again, or leave that word out"
            )
    return table


def refuse_repeated(words: Sequence[bytes], name: str, where: Callable[[int], str]) -> None:
    if len(set(words)) == len(words):
        return
    first: dict[bytes, int] = {}
    for row, word in enumerate(words):
        if first.setdefault(word, row) != row:
            raise NeglmError(
                f"{name}, {where(row)}: the word {displayed(word)} was there before, in {where(first[word])}; "
                "each may appear only once"
            )


def displayed(word: bytes) -> str:
    """A word for a sentence."""
    text = word.decode(errors="backslashreplace")
    return shown(text if len(text) <= 40 else text[:40] + "…")
