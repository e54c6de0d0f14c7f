"""word2vec's text and binary formats: a header with V and D, then words and their vectors, as text or float32.

fastText's .vec is the text format; GloVe's text has no header.
"""

import re
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import matrix_text
from neglm_cli.vectors.reading import (
    MAX_SIZE,
    InputBuffer,
    Table,
    TableBuilder,
    validate,
)

SEPARATOR = b" "
FORBIDDEN = b" \t\n\r\v\f"  # bytes that a word cannot contain
HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?\n")
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf|infinity)", re.IGNORECASE)
PRINTABLE = bytes(range(33, 127))
BLOCK = 1 << 10  # records written at a time


def write_text(file: BinaryIO, words: WordIndex, vectors: np.ndarray, advance: Callable[[int], None]) -> None:
    file.write(b"%d %d\n" % vectors.shape)
    write_rows(file, words.words, words.offsets, vectors, SEPARATOR, advance)


def write_rows(
    file: BinaryIO, word_bytes: np.ndarray, offsets: np.ndarray, vectors: np.ndarray, separator: bytes,
    advance: Callable[[int], None],
) -> None:  # fmt: skip
    """Write the rows of a matrix as text: see `matrix_text.format_lines`."""
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        for text in matrix_text.format_lines(word_bytes, offsets[start : start + len(block) + 1], block, separator):
            file.write(text.data)
        advance(len(block))


def write_binary(file: BinaryIO, words: WordIndex, vectors: np.ndarray, advance: Callable[[int], None]) -> None:
    """Write the binary format, with a newline after each vector, like word2vec itself."""
    file.write(b"%d %d\n" % vectors.shape)
    little_endian = vectors.astype("<f4", copy=False)
    spelled = list(words)
    for start in range(0, len(spelled), BLOCK):
        records = zip(spelled[start : start + BLOCK], little_endian[start : start + BLOCK], strict=True)
        file.write(b"".join(b"%b %b\n" % (word, vector.tobytes()) for word, vector in records))
        advance(len(spelled[start : start + BLOCK]))


def looks_like_text(source: InputBuffer) -> bool:
    """Return True if the first word is followed by text, which is very unlikely in the binary format."""
    header = HEADER.match(source.text, source.begin, source.end)
    begin = header.end() if header else source.begin
    line, _, others = bytes(source.text[begin : source.end]).partition(b"\n")
    _, *numbers = line.split() or [b""]
    if not numbers:
        return header is not None and not others.strip()
    return not b"".join(numbers).translate(None, PRINTABLE) and any(map(NUMBER.fullmatch, numbers))


def read_text(source: InputBuffer) -> Table:
    """Read the text format, with or without a header."""
    header = _header(source)
    expected, size = header or (None, _values_in_first_line(source))
    first = 2 if header else 1
    table = TableBuilder(size)
    matrix_text.read(source, table, first)
    return validate(table.finish(), source.name, lambda row: f"line {row + first}", expected)


def read_binary(source: InputBuffer) -> Table:
    """Read the binary format. gensim and others omit the newlines after vectors."""
    header = _header(source)
    if header is None:
        raise NeglmError(f"{source.name}, line 1: expected a header with the number of words and of dimensions")
    expected, size = header
    table = TableBuilder(size)
    while True:
        blank = source.text.find(SEPARATOR, source.begin, source.end)
        end = blank + 1 + 4 * size
        if blank < 0 or end > source.end:
            if not source.more():
                break
            continue
        word = bytes(source.text[source.begin : blank]).lstrip(b"\n")
        if not word:
            raise NeglmError(f"{source.name}, record {len(table) + 1}: the word is empty")
        table.free_rows()[0] = np.frombuffer(source.text, "<f4", size, blank + 1)
        table.words.append(word)
        source.begin = end
    if source.text[source.begin : source.end].strip(b"\n"):
        raise NeglmError(
            f"{source.name} is cut short: record {len(table) + 1:,} of {expected:,} is incomplete; get it again"
        )
    return validate(table.finish(), source.name, lambda row: f"record {row + 1}", expected)


def _values_in_first_line(source: InputBuffer) -> int:
    _, *numbers = bytes(source.text[source.begin : source.end]).partition(b"\n")[0].split() or [b""]
    if not numbers or not NUMBER.fullmatch(numbers[-1]):
        raise NeglmError(f"{source.name}, line 1: expected a word and its values, or a header")
    return len(numbers)


def _header(source: InputBuffer) -> tuple[int, int] | None:
    """Read V and D; None if there is no header."""
    match = HEADER.match(source.text, source.begin, source.end)
    if match is None:
        return None
    expected, size = int(match[1]), int(match[2])
    if not 0 < size <= MAX_SIZE:
        raise NeglmError(f"{source.name}, line 1: {size:,} dimensions, expected 1 to {MAX_SIZE:,}")
    source.begin = match.end()
    return expected, size
