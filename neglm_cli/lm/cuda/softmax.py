"""Scores of all words of the vocabulary. The mathematics is in `lm.cpu.softmax`.

Words come in blocks; a product makes the scores of a block for all rows, (rows, words of a block), and these kernels
go over them, a block of threads for each row. So no array grows with rows times vocabulary.
"""

import math

import numpy as np
from numba import float32, float64

from neglm_cli.lm.cuda.functions import ONE, ZERO, target_word
from neglm_cli.lm.cuda.gpu import BITS, DOUBLES, FLOATS, MATRIX, REAL, WHOLE, cuda, kernel

THREADS = 128  # at most, and a power of 2
NOTHING = np.float32(-3e38)  # below all scores


@kernel(MATRIX, FLOATS, BITS, FLOATS, DOUBLES, FLOATS, WHOLE, WHOLE, threads=THREADS)
def log_normalisers(scores, offsets, words, highest, sums, target_scores, first, count):
    """Add `count` words, from number `first` on, to the running sums of all rows: Z = sums · exp(highest).

    Scores get their offsets. With the first words, sums begin."""
    tops = cuda.shared.array(THREADS, float32)
    parts = cuda.shared.array(THREADS, float64)
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    top = NOTHING
    for i in range(thread, count, threads):
        score = scores[row, i] + offsets[first + i]
        scores[row, i] = score
        top = max(top, score)
    tops[thread] = top
    cuda.syncthreads()
    width = threads // 2
    while width > 0:
        if thread < width:
            tops[thread] = max(tops[thread], tops[thread + width])
        cuda.syncthreads()
        width //= 2
    before = NOTHING if first == 0 else highest[row]
    top = max(tops[0], before)
    total = float64(0)
    for i in range(thread, count, threads):
        total += math.exp(scores[row, i] - top)
    parts[thread] = total
    cuda.syncthreads()
    width = threads // 2
    while width > 0:
        if thread < width:
            parts[thread] += parts[thread + width]
        cuda.syncthreads()
        width //= 2
    if thread == 0:
        sums[row] = parts[0] + (float64(0) if first == 0 else sums[row] * math.exp(before - top))
        highest[row] = top
        target = target_word(words, row) - first
        if 0 <= target < count:
            target_scores[row] = scores[row, target]


@kernel(MATRIX, BITS, FLOATS, DOUBLES, FLOATS, FLOATS, FLOATS, WHOLE, WHOLE, WHOLE, REAL, threads=THREADS)
def softmax_gradients(
    scores, words, highest, sums, target_scores, losses, offsets, first, count, with_offsets, scale
):  # fmt: skip
    """Scores of some words become their gradients; with the first words, each row's loss is written.

    with_offsets: whether scores have theirs already."""
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    log_z = highest[row] + np.float32(math.log(sums[row]))
    target = target_word(words, row) - first
    for i in range(thread, count, threads):
        score = scores[row, i] + (ZERO if with_offsets else offsets[first + i])
        truth = ONE if i == target else ZERO
        scores[row, i] = scale * (math.exp(score - log_z) - truth)
    if first == 0 and thread == 0:
        losses[row] = log_z - target_scores[row]
