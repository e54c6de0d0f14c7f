"""The vectors that --init-vectors names."""

from dataclasses import replace

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.vectors.quantization import QuantizedMatrix
from neglm_cli.vectors.vectors import Vectors, load_vectors


def load_init_vectors(path: str | None, size: int, option: str) -> Vectors | None:
    """Read vectors, or those of a language model. Raise unless they have this size, which `option` sets."""
    if path is None:
        return None
    vectors = load_vectors(path)
    if vectors.size != size:
        raise NeglmError(f"{shown(path)} has vectors of size {vectors.size}, not {size}: use {option} {vectors.size}")
    if isinstance(vectors.vectors, QuantizedMatrix):  # decoded; the rows of words are not in the file
        subwords = vectors.subwords
        if subwords is not None:
            subwords = replace(subwords, ngrams=np.asarray(subwords.ngrams)) if subwords.hash_count else None
        vectors = replace(vectors, vectors=np.asarray(vectors.vectors), subwords=subwords)
    return vectors
