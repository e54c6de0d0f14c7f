"""Vectors wherever they are: in files of vectors, and in language models, whose tables have a vector for each word."""

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.store import container
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import KIND, NO_CONTEXTS, Vectors

LANGUAGE_MODEL = "language model"
WITH_VECTORS = (KIND, LANGUAGE_MODEL)  # kinds of files
TABLES = {"input": "embedding", "output": "output"}


def load_vectors(path: str, table: str | None = None) -> Vectors:
    """`table`: of a language model, which one has the vectors; the other one has the contexts, if it is as wide."""
    return vectors_of(container.read(path, *WITH_VECTORS), table)


def vectors_of(stored: container.Stored, table: str | None = None) -> Vectors:
    if stored.kind == KIND:
        if table is not None:
            raise NeglmError(f"{stored.name} is a file of vectors, not a language model: leave out --table")
        return Vectors.from_stored(stored)
    tensors = stored.tensors
    words = WordIndex.from_stored(stored)
    chosen = table or "input"
    other = "output" if chosen == "input" else "input"
    vectors, contexts = tensors[TABLES[chosen]], tensors[TABLES[other]]
    if contexts.shape != vectors.shape:
        return Vectors(words, vectors, NO_CONTEXTS, np.empty((0, vectors.shape[1]), np.float32))
    return Vectors(words, vectors, words, contexts)
