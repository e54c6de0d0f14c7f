"""Quantized copies of vectors, and what they lose."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.store.schema import MAX_WEIGHT
from neglm_cli.vectors.neighbors import CosineIndex, nearest
from neglm_cli.vectors.quantization import QuantizedMatrix, quantize, reconstruction_error
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors

QUERIES, TOP = 200, 10  # words whose neighbors are compared, and how many of each


class Loss(NamedTuple):
    """What quantized vectors lose."""

    squared_error: float  # relative to the squared norms of vectors
    neighbors_kept: float  # share of the nearest neighbors of some words


def quantized_copy(
    vectors: Vectors, dsub: int, advance: Callable[[int], None] = lambda count: None
) -> Vectors:  # fmt: skip
    """Quantize the vectors of words, and the rows of n-grams. Contexts and rows of words are left out."""
    matrix = quantize(np.asarray(vectors.vectors), dsub, advance)
    if np.abs(matrix.scales).max(initial=0) > MAX_WEIGHT:
        raise NeglmError(f"vectors with values of {MAX_WEIGHT:g} and more cannot be quantized")
    subwords = vectors.subwords
    if subwords is not None:
        ngrams = quantize(np.asarray(subwords.ngrams), dsub, advance)
        subwords = replace(subwords, words=subwords.words[:0], ngrams=cast(np.ndarray, ngrams))
    return replace(
        vectors, vectors=cast(np.ndarray, matrix), contexts=NO_CONTEXTS,
        context_vectors=vectors.context_vectors[:0], subwords=subwords,
    )  # fmt: skip


def loss_of(vectors: Vectors, copy: Vectors) -> Loss:
    """Compare vectors with their quantized copy: all of them, and the neighbors of words at equal distances."""
    matrix, quantized = np.asarray(vectors.vectors), copy.vectors
    assert isinstance(quantized, QuantizedMatrix)
    count = len(matrix)
    words = np.unique(np.arange(min(QUERIES, count)) * count // min(QUERIES, count))
    before, after = CosineIndex.of(matrix, ""), CosineIndex.of(quantized, "")
    kept = total = 0
    for word in words.tolist():
        true, found = (_neighbors(index, word) for index in (before, after))
        kept, total = kept + len(true & found), total + len(true)
    return Loss(reconstruction_error(matrix, quantized), kept / total if total else 1.0)


def _neighbors(index: CosineIndex, word: int) -> set[int]:
    return {neighbor.id for neighbor in nearest(index, index.units([word]), TOP, [word])}
