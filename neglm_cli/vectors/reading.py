"""Shared by the readers of all formats: an input buffer, a growing table, and validation."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError, empty, shown
from neglm_cli.text.source import Source
from neglm_cli.text.streams import read_all

BUFFER = 4 << 20  # bytes read at a time
INITIAL_VALUES = 1 << 20  # initial capacity of a matrix
MAX_SIZE = 1 << 20  # dimensions of a vector


class Table(NamedTuple):
    """Words and their vectors."""

    words: list[bytes]  # V
    vectors: np.ndarray  # float32 (V, D)


class InputBuffer:
    """A buffer of decompressed bytes: text[begin:end] has been read but not consumed."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self._file = file
        self.text = bytearray(BUFFER)
        self.begin = self.end = 0

    def more(self) -> bool:
        """Move unconsumed bytes to the front and fill the buffer. Return False at the end of the file."""
        rest = self.end - self.begin
        buffer = self.text if 2 * rest <= len(self.text) else bytearray(2 * len(self.text))
        buffer[:rest] = self.text[self.begin : self.end]
        self.text, self.begin = buffer, 0
        count = read_all(self._file, memoryview(buffer)[rest:])
        self.end = rest + count
        return count > 0

    def read(self, size: int) -> bytes:
        """Read like a file, for NumPy."""
        if self.begin == self.end:
            self.more()
        data = bytes(self.text[self.begin : min(self.begin + size, self.end)])
        self.begin += len(data)
        return data


@contextmanager
def open_input(path: str, advance: Callable[[int], None] = lambda count: None) -> Iterator[InputBuffer]:
    """Open a file, or - for standard input, and fill the buffer. advance: called with the number of bytes read on
    disk."""
    source = Source(path, -1, plain=False)
    with source.reading(advance) as file:
        found = InputBuffer(source.name, file)
        if not found.more():
            raise NeglmError(empty(found.name))
        yield found


class TableBuilder:
    """Collects the rows of a table. Its capacity follows the rows read, since a header may be wrong."""

    def __init__(self, size: int) -> None:
        self.words: list[bytes] = []
        self._size = size
        self._vectors = np.empty((max(1, INITIAL_VALUES // size), size), np.float32)

    def __len__(self) -> int:
        return len(self.words)

    def free_rows(self) -> np.ndarray:
        """Return the rows to fill next, valid until the next call."""
        if len(self.words) == len(self._vectors):
            self._resize(len(self._vectors) * 5 // 4 + 1)
        return self._vectors[len(self.words) :]

    def finish(self) -> Table:
        self._resize(len(self.words))
        return Table(self.words, self._vectors)

    def _resize(self, rows: int) -> None:
        """Resize in place: the system remaps pages, so the matrix is never in memory twice."""
        self._vectors.resize((rows, self._size), refcheck=False)


def validate(table: Table, name: str, where: Callable[[int], str], expected: int | None = None) -> Table:
    """Return the table. Raise unless it has as many words as the header says, each once, and finite values.

    where: names a row."""
    words, vectors = table
    if expected is not None and expected != len(words):
        count = f"there are {len(words):,}" if len(words) != 1 else "there is 1"
        raise NeglmError(
            f"{name}: the header says {expected:,} word{'s' * (expected != 1)}, but {count}; get it again, or "
            "fix the header"
        )
    if not words:
        raise NeglmError(f"{name} has no words: nothing to import")
    check_unique(words, name, where)
    step = max(1, INITIAL_VALUES // vectors.shape[1])
    for start in range(0, len(vectors), step):
        finite = np.isfinite(vectors[start : start + step]).all(axis=1)
        if not finite.all():
            row = start + int(finite.argmin())
            raise NeglmError(
                f"{name}, {where(row)}: the vector of {displayed(words[row])} contains NaN, infinite or too large "
                "values; make it again, or remove that word"
            )
    return table


def check_unique(words: Sequence[bytes], name: str, where: Callable[[int], str]) -> None:
    if len(set(words)) == len(words):
        return
    first: dict[bytes, int] = {}
    for row, word in enumerate(words):
        if first.setdefault(word, row) != row:
            raise NeglmError(
                f"{name}, {where(row)}: duplicate word {displayed(word)}, first in {where(first[word])}; "
                "each may appear only once"
            )


def displayed(word: bytes) -> str:
    """Format a word for messages."""
    text = word.decode(errors="backslashreplace")
    return shown(text if len(text) <= 40 else text[:40] + "…")
