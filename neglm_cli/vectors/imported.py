"""Vectors on their way in: which form a file has, and what becomes of it."""

import os
from collections.abc import Callable

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM
from neglm_cli.text.source import NEGLM_MARK, NEGLM_START
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import numpy_form, word2vec
from neglm_cli.vectors.forms import WORDS_ENDING, ImportForm, beside
from neglm_cli.vectors.reading import Input, Table, opening
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors

FASTTEXT_MAGIC = (793712314).to_bytes(4, "little")
ZIP_MAGIC = b"PK\x03\x04"  # as GloVe is distributed, and .npz files


def read(
    path: str, form: ImportForm | None, words: str | None, advance: Callable[[int], None] = lambda count: None
) -> tuple[Table, ImportForm]:
    """Read a file of any form; `words` names those of a matrix, which otherwise stand beside it."""
    with opening(path, advance) as source:
        found = form or guess(source)
        if found is ImportForm.NPY:
            return numpy_form.read(source, words or _words_beside(path)), found
        if words is not None:
            raise NeglmError(f"{source.name} is in the form `{found}`, which has its words in it: leave out --words")
        return (word2vec.read_text if found is ImportForm.TEXT else word2vec.read_binary)(source), found


def guess(source: Input) -> ImportForm:
    """The form, from the first bytes."""
    start = bytes(source.text[source.begin : source.begin + 64])
    if start.startswith(numpy_form.MAGIC):
        return ImportForm.NPY
    if start[NEGLM_START:].startswith(NEGLM_MARK):
        raise NeglmError(f"{source.name} is a file of neglm's already: `neglm info` says what it is")
    if start.startswith(FASTTEXT_MAGIC):
        raise NeglmError(f"{source.name} is a model of fastText's: import the .vec file that belongs to it")
    if start.startswith(ZIP_MAGIC):
        raise NeglmError(f"{source.name} is a zip archive: unpack it and import what is in it")
    if word2vec.looks_like_text(source):
        return ImportForm.TEXT
    if word2vec.HEADER.match(source.text, source.begin, source.end):
        return ImportForm.BINARY
    raise NeglmError(f"{source.name} is in none of the forms that neglm knows: word2vec's text and binary, and .npy")


def assemble(words: Table, contexts: Table | None) -> Vectors:
    """A file of vectors of unknown origin. The forms have no counts: every word gets 1."""
    size = words.vectors.shape[1]
    if contexts is None:
        return Vectors(_alphabet(words), words.vectors, NO_CONTEXTS, np.empty((0, size), np.float32))
    if contexts.vectors.shape[1] != size:
        raise NeglmError(
            f"the word vectors have {size:,} numbers each, but the context vectors {contexts.vectors.shape[1]:,}: "
            "they do not belong together"
        )
    return Vectors(_alphabet(words), words.vectors, _alphabet(contexts), contexts.vectors)


def _alphabet(table: Table) -> WordIndex:
    return WordIndex.of(table.words, np.ones(len(table.words), np.int64))


def _words_beside(path: str) -> str:
    found = beside(path, WORDS_ENDING)
    if path == STANDARD_STREAM or not os.path.exists(found):
        expected = "" if path == STANDARD_STREAM else f", and {shown(found)} does not exist"
        raise NeglmError(f"an .npy file has no words in it{expected}: name a list of them with --words")
    return found
