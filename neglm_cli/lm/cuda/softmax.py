"""Scores of all words of the vocabulary. The mathematics is in `lm.cpu.softmax`.

Words come in blocks: a product computes the scores of a block for all rows, (rows, words of a block), and these kernels
process them, with a block of threads for each row. So no array grows with rows times vocabulary.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import float32, float64

from neglm_cli.lm.cuda.functions import ONE, ZERO, target_word
from neglm_cli.lm.cuda.gpu import Bits, Doubles, Float, Floats, Int, Matrix, cuda, kernel

THREADS = 128  # at most, and a power of 2
LOWEST = np.float32(-3e38)  # below all scores


class NormalizerBuffers(NamedTuple):
    """Of each row: Z = sums · exp(highest)."""

    highest: Floats
    sums: Doubles
    target_scores: Floats


class WordBlock(NamedTuple):
    """Words whose scores are computed at once."""

    first: Int
    size: Int


@kernel(threads=THREADS)
def log_normalizers(
    scores: Matrix, offsets: Floats, words: Bits, normalizers: NormalizerBuffers, block: WordBlock
) -> None:
    """Add offsets to the scores of a block of words, and the block to the normalizers, which start with the first."""
    highest, sums, target_scores = normalizers
    first, count = block
    tops = cuda.shared.array(THREADS, float32)
    parts = cuda.shared.array(THREADS, float64)
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    top = LOWEST
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
    before = LOWEST if first == 0 else highest[row]
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


@kernel(threads=THREADS)
def softmax_gradients(
    scores: Matrix, offsets: Floats, words: Bits, normalizers: NormalizerBuffers, losses: Floats, block: WordBlock,
    with_offsets: Int, scale: Float,
) -> None:  # fmt: skip
    """Turn the scores of a block of words into gradients; the first block also writes each row's loss.

    with_offsets: whether scores include them already.
    """
    highest, sums, target_scores = normalizers
    first, count = block
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    log_z = highest[row] + np.float32(math.log(sums[row]))
    target = target_word(words, row) - first
    for i in range(thread, count, threads):
        score = scores[row, i] + (ZERO if with_offsets else offsets[first + i])
        truth = ONE if i == target else ZERO
        scores[row, i] = scale * (math.exp(score - log_z) - truth)
    if first == 0 and thread == 0:
        losses[row] = log_z - target_scores[row]
