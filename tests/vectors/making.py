"""Small files of vectors, for tests."""

from collections.abc import Mapping, Sequence

import numpy as np

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors


def vectors_of(
    words: Mapping[bytes, Sequence[float]],
    contexts: Mapping[bytes, Sequence[float]] | None = None,
    counts: Sequence[int] | None = None,
) -> Vectors:
    """Return vectors of these words; without counts, the first are the most frequent."""
    matrix = np.array(list(words.values()), np.float32)
    index = WordIndex.of(words, np.array(counts or range(len(words), 0, -1)))
    if contexts is None:
        return Vectors(index, matrix, NO_CONTEXTS, np.empty((0, matrix.shape[1]), np.float32))
    others = WordIndex.of(contexts, np.arange(len(contexts), 0, -1))
    return Vectors(index, matrix, others, np.array(list(contexts.values()), np.float32))
