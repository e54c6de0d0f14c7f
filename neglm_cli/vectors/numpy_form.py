"""NumPy's form: a matrix in an .npy file, and the words beside it, one a line."""

from collections.abc import Callable
from typing import Any, BinaryIO, cast

import numpy as np

from neglm_cli.errors import NeglmError, count_of
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.reading import Input, Table, checked, opening, refuse_repeated

MAGIC = b"\x93NUMPY"
UNFIT = b"\n\r"  # bytes that a word cannot have on a line of its own
BLOCK = 1 << 12  # rows


def write_matrix(file: BinaryIO, vectors: np.ndarray, advance: Callable[[int], None]) -> None:
    little_endian = vectors.astype("<f4", copy=False)
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": vectors.shape})
    for start in range(0, len(vectors), BLOCK):
        block = little_endian[start : start + BLOCK]
        file.write(block.tobytes())
        advance(len(block))


def write_words(file: BinaryIO, words: WordIndex) -> None:
    file.writelines(b"%b\n" % word for word in words)


def read(source: Input, words: str) -> Table:
    """Read a matrix, and its words from another file."""
    vectors = _matrix(source)
    with opening(words) as list_:
        name, listed = list_.name, _lines(list_)
    if len(listed) != len(vectors):
        raise NeglmError(
            f"{name} has {count_of(len(listed), 'word')}, but {source.name} has {count_of(len(vectors), 'row')}"
        )
    refuse_repeated(listed, name, lambda row: f"line {row + 1}")
    return checked(Table(listed, vectors), source.name, lambda row: f"row {row + 1}")


def _matrix(source: Input) -> np.ndarray:
    try:
        array = np.lib.format.read_array(cast(Any, source), allow_pickle=False)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise NeglmError(f"{source.name} is damaged, or no matrix: NumPy says: {reason}") from error
    if source.read(1):
        raise NeglmError(f"{source.name} has bytes behind the end of its matrix; make it again")
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[1] == 0:
        shape = " × ".join(map(str, array.shape))
        raise NeglmError(f"{source.name} holds {array.dtype} {shape}, not a matrix of numbers with one row for a word")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32)


def _lines(source: Input) -> list[bytes]:
    while source.more():
        pass
    lines = bytes(source.text[source.begin : source.end]).split(b"\n")
    if not lines[-1]:
        lines.pop()
    words = [line.removesuffix(b"\r") for line in lines]
    if b"" in words:
        raise NeglmError(f"{source.name}, line {words.index(b'') + 1} is empty: every line must be a word")
    return words
