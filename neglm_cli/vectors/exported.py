"""Vectors on their way out: which of them, and into which form."""

import gzip
import os
from collections.abc import Callable
from typing import BinaryIO, cast

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import writing, writing_both
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import numpy_form, projector, word2vec
from neglm_cli.vectors.forms import GZIP_ENDING, Form, files_of
from neglm_cli.vectors.reading import displayed

UNFIT = {
    Form.TEXT: word2vec.UNFIT,
    Form.BINARY: word2vec.UNFIT,
    Form.NPY: numpy_form.UNFIT,
    Form.TSV: projector.UNFIT,
}
SUBSTITUTE = b"_"
COMPRESSION_LEVEL = 1  # digits hardly compress: 6 makes the file a tenth smaller and takes six times as long


def most_frequent(words: WordIndex, vectors: np.ndarray, top: int | None) -> tuple[WordIndex, np.ndarray]:
    """At most this many of them, the most frequent first."""
    if top is None:
        return words, vectors
    order = np.argsort(-words.counts, kind="stable")[:top]
    return WordIndex.of((words[i] for i in order), words.counts[order]), vectors[order]


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Each row at length 1; one of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64))  # V
    lengths[lengths == 0] = 1
    return np.divide(vectors, lengths[:, None], out=np.empty_like(vectors), casting="same_kind")


def fitting(words: WordIndex, form: Form) -> tuple[WordIndex, int]:
    """The words as the form can hold them, white space that it cannot hold being `_`, and how many that changed."""
    before = words.words.tobytes()
    after = before.translate(bytes.maketrans(UNFIT[form], SUBSTITUTE * len(UNFIT[form])))
    letters = np.frombuffer(after, np.uint8)
    changes = np.flatnonzero(letters != words.words)
    if not len(changes):
        return words, 0
    changed = WordIndex(letters, words.offsets, words.counts)
    _refuse_equal(words, changed)
    return changed, len(np.unique(np.searchsorted(words.offsets, changes, side="right")))


def _refuse_equal(words: WordIndex, changed: WordIndex) -> None:
    first: dict[bytes, bytes] = {}
    for word, written in zip(words, changed, strict=True):
        if first.setdefault(written, word) != word:
            raise NeglmError(
                f"the words `{displayed(first[written])}` and `{displayed(word)}` would both be written as "
                f"`{displayed(written)}`, for this form holds no such white space; choose another with --form"
            )


def write(
    words: WordIndex, vectors: np.ndarray, path: str, form: Form, advance: Callable[[int], None] = lambda count: None
) -> list[str]:
    """Write the file, or the two files, of this form; returns their names. `advance` is told how many rows are
    written."""
    vectors = np.ascontiguousarray(vectors, np.float32)
    if form in (Form.TEXT, Form.BINARY):
        compressed = path.endswith(GZIP_ENDING)
        with writing(path, binary=compressed or form is Form.BINARY) as file:
            write_form = word2vec.write_text if form is Form.TEXT else word2vec.write_binary
            if compressed:
                with gzip.GzipFile("", "wb", COMPRESSION_LEVEL, file, mtime=0) as smaller:
                    write_form(cast(BinaryIO, smaller), words, vectors, advance)
            else:
                write_form(file, words, vectors, advance)
        return [path]
    _, other = files_of(path, form)
    if os.path.exists(path) and not os.path.isfile(path):
        raise NeglmError(f"cannot write {shown(path)}: this form has two files, so name an ordinary one")
    with writing_both(path, other) as (matrix, spelled):
        if form is Form.NPY:
            numpy_form.write_words(spelled, words)
            numpy_form.write_matrix(matrix, vectors, advance)
        else:
            projector.write_metadata(spelled, words)
            projector.write_vectors(matrix, vectors, advance)
    return [path, other]
