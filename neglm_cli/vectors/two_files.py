"""Formats of two files, a matrix and its words: .npy with a word list, and .tsv for TensorBoard's embedding
projector."""

from collections.abc import Callable
from typing import Any, BinaryIO, cast

import numpy as np

from neglm_cli.errors import NeglmError, count_of
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.reading import (
    InputBuffer,
    Table,
    check_unique,
    open_input,
    validate,
)
from neglm_cli.vectors.word2vec import write_rows

NPY_MAGIC = b"\x93NUMPY"
NPY_FORBIDDEN = b"\n\r"  # bytes that a word on its own line cannot contain
BLOCK = 1 << 12  # rows written at a time
TSV_SEPARATOR = b"\t"
TSV_FORBIDDEN = b"\t\n\r"  # bytes that a word in a column cannot contain
TSV_HEADER = b"word\tcount\n"  # the projector expects a header if there is more than one column


def write_npy(file: BinaryIO, vectors: np.ndarray, advance: Callable[[int], None]) -> None:
    little_endian = vectors.astype("<f4", copy=False)
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": vectors.shape})
    for start in range(0, len(vectors), BLOCK):
        block = little_endian[start : start + BLOCK]
        file.write(block.tobytes())
        advance(len(block))


def write_npy_words(file: BinaryIO, words: WordIndex) -> None:
    file.writelines(b"%b\n" % word for word in words)


def read_npy(source: InputBuffer, words: str) -> Table:
    """Read a matrix, and its words from the file `words`."""
    vectors = _matrix(source)
    with open_input(words) as list_:
        name, listed = list_.name, lines_of(list_)
    if len(listed) != len(vectors):
        raise NeglmError(
            f"{name} has {count_of(len(listed), 'word')}, but {source.name} has {count_of(len(vectors), 'row')}"
        )
    check_unique(listed, name, lambda row: f"line {row + 1}")
    return validate(Table(listed, vectors), source.name, lambda row: f"row {row + 1}")


def _matrix(source: InputBuffer) -> np.ndarray:
    try:
        array = np.lib.format.read_array(cast(Any, source), allow_pickle=False)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise NeglmError(f"{source.name} is damaged or not a matrix: NumPy says: {reason}") from error
    if source.read(1):
        raise NeglmError(f"{source.name} has bytes after its matrix; make it again")
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[1] == 0:
        shape = " × ".join(map(str, array.shape))
        raise NeglmError(f"{source.name} holds {array.dtype} {shape}, not a numeric matrix with one row per word")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32)


def lines_of(source: InputBuffer) -> list[bytes]:
    """Read the words of a list, one per line."""
    while source.more():
        pass
    lines = bytes(source.text[source.begin : source.end]).split(b"\n")
    if not lines[-1]:
        lines.pop()
    words = [line.removesuffix(b"\r") for line in lines]
    if b"" in words:
        raise NeglmError(f"{source.name}, line {words.index(b'') + 1} is empty: every line must be a word")
    return words


def write_tsv(file: BinaryIO, vectors: np.ndarray, advance: Callable[[int], None]) -> None:
    no_words = np.zeros(len(vectors) + 1, np.int64)
    write_rows(file, np.empty(0, np.uint8), no_words, vectors, TSV_SEPARATOR, advance)


def write_tsv_metadata(file: BinaryIO, words: WordIndex) -> None:
    file.write(TSV_HEADER)
    file.writelines(b"%b\t%d\n" % pair for pair in zip(words, words.counts.tolist(), strict=True))
