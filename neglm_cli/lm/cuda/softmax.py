"""Scores of the whole vocabulary. For the mathematics, see `lm.cpu.softmax`.

Words are processed in blocks: a product computes the scores of a block for all rows, (rows, words), and these kernels
process them, with one thread block per row. So no array grows with rows times vocabulary.
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
    """Running sums of each row's Z = sums · exp(highest)."""

    highest: Floats
    sums: Doubles
    target_scores: Floats


class WordBlock(NamedTuple):
    """A range of words, scored at once."""

    first: Int
    size: Int


@kernel(threads=THREADS)
def log_normalizers(
    scores: Matrix, offsets: Floats, words: Bits, normalizers: NormalizerBuffers, block: WordBlock
) -> None:
    """Add offsets to the scores of a block of words, and add the block to the normalizers; the first block resets
    them."""
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
    """Replace the scores of a block of words by gradients. The first block also writes each row's loss.

    with_offsets: 1 if scores already include offsets.
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
