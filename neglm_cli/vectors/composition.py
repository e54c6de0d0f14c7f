"""Vectors of words as means of their rows.

x_w = (u_w + Σ_g z_g) / (1 + n_w)         over the n_w n-grams g of w
x_w = Σ_g z_g / n_w                       without rows of words, as in floret
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import inlined, kernel
from neglm_cli.simd import LANES, prefetch_row


class SubwordInputs(NamedTuple):
    """Rows of words and of n-grams, or one thread's dimensions of them."""

    words: np.ndarray  # float32, flat: u; empty if words have no rows of their own
    ngrams: np.ndarray  # float32, flat: z
    ids: np.ndarray  # int32: rows in `ngrams`; see `NGrams`
    starts: np.ndarray  # int64 (V+1,)
    row_size: int


@inlined
def prefetch_rows(inputs, word):
    """Prefetch the rows of a word."""
    size = np.int64(inputs.row_size)
    chunks = (size + LANES - 1) // LANES
    if inputs.words.size:
        prefetch_row(inputs.words, word * size, chunks)
    for i in range(inputs.starts[word], inputs.starts[word + 1]):
        prefetch_row(inputs.ngrams, inputs.ids[i] * size, chunks)


@kernel
def compose(inputs, words, vectors):
    """Write the vectors of words, int32 or int64, to the rows of `vectors`, float32, flat."""
    size = inputs.row_size
    for slot in range(words.size):
        if slot + 1 < words.size:
            prefetch_rows(inputs, words[slot + 1])
        word = np.int64(words[slot])
        begin, end = inputs.starts[word], inputs.starts[word + 1]
        x = vectors[slot * size : (slot + 1) * size]
        rows = end - begin
        if inputs.words.size:
            rows += 1
            u = inputs.words[word * size : (word + 1) * size]
            for d in range(size):
                x[d] = u[d]
        else:
            for d in range(size):
                x[d] = 0
        for i in range(begin, end):
            row = np.int64(inputs.ids[i])
            z = inputs.ngrams[row * size : (row + 1) * size]
            for d in range(size):
                x[d] += z[d]
        scale = np.float32(1 / max(rows, 1))
        for d in range(size):
            x[d] *= scale
