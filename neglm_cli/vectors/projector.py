"""The form of TensorBoard's embedding projector: vectors in one file, what they stand for in another."""

from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.word2vec import write_rows

SEPARATOR = b"\t"
UNFIT = b"\t\n\r"  # bytes that a word cannot have in a column
COLUMNS = b"word\tcount\n"  # with one column the projector wants no names, with more it does


def write_vectors(file: BinaryIO, vectors: np.ndarray, advance: Callable[[int], None]) -> None:
    no_words = np.zeros(len(vectors) + 1, np.int64)
    write_rows(file, np.empty(0, np.uint8), no_words, vectors, SEPARATOR, advance)


def write_metadata(file: BinaryIO, words: WordIndex) -> None:
    file.write(COLUMNS)
    file.writelines(b"%b\t%d\n" % pair for pair in zip(words, words.counts.tolist(), strict=True))
