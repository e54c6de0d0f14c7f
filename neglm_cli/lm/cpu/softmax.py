"""Scores of the whole vocabulary: their normalizer, exact probabilities, and the loss of the full softmax.

    log Z_n = log Σ_w exp(y_n · o_w + offset_w)          log p(w | n) = y_n · o_w + offset_w − log Z_n

Words are processed in blocks of BLOCK, which are owned by threads. The rows of the output table of a block are
transposed into a buffer, and log Z is a running sum, so that no array holds all scores unless the loss needs them.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import kernel, outlined, summed
from neglm_cli.lm.cpu.functions import exp
from neglm_cli.lm.cpu.gemm import PANEL, Columns, Extent, Panels, Reduction, Rows, matmul, matmul_transposed
from neglm_cli.lm.cpu.log_sum_exp import highest_score, sum_of_exp
from neglm_cli.lm.cpu.threads import rows_of
from neglm_cli.simd import LANES

BLOCK = 8 * PANEL  # words
ROW = BLOCK + 16  # stride of a block's rows: an odd number of cache lines, so that columns use different cache sets
ROWS = 120  # rows of y scored at a time: with their scores and a packed block, they stay in a core's L2 cache
LOWEST = np.float32(-3e38)  # below all scores


class NormalizerBuffers(NamedTuple):
    """Running sums of each row's Z = sums · exp(highest), by thread, and scratch for a block of words."""

    packed: np.ndarray  # (threads, BLOCK / PANEL, ·, PANEL): a block's rows of the output table, transposed
    scores: np.ndarray  # (threads, 1, at most ROWS, ROW)
    highest: np.ndarray  # float32 (threads, N)
    sums: np.ndarray  # float64 (threads, N)
    target_scores: np.ndarray  # float32 (N,): each written by the thread that owns the target


class SoftmaxBuffers(NamedTuple):
    """Scores of all words for some rows of a minibatch."""

    scores: np.ndarray  # (blocks, rows, ROW): exp(s − top), then gradients of scores
    tops: np.ndarray  # (blocks, rows): the maximum that was subtracted from scores
    d_y: np.ndarray  # (threads, rows, ·): each thread's part of the gradient of y
    log_z: np.ndarray  # float64 (threads, rows): log normalizers, the same for all threads
    one_part: np.ndarray  # int64 (threads, 2): all rows as one part of a batch, see `batch_parts`
    normalizer: NormalizerBuffers


@outlined
def _pack_block(table, block, packed):
    """Transpose the rows of a block of the output table into a buffer. Return the number of words."""
    begin = block * BLOCK
    words = min(BLOCK, table.shape[0] - begin)
    for start in range(0, words, PANEL):
        for column in range(min(PANEL, words - start)):
            for j in range(table.shape[1]):
                packed[start // PANEL, j, column] = table[begin + start + column, j]
    return words


@outlined
def _multiply_block(y, first_row, rows, words, packed, scores, slot):
    """Compute the scores of a packed block for some rows, without offsets: scores[slot, row, word]."""
    width = y.shape[1]
    matmul(
        Rows(y.reshape(-1), first_row * width, width, 0),
        Panels(packed.reshape(-1), 0, PANEL, width * PANEL),
        Panels(scores.reshape(-1), slot * scores.shape[1] * ROW, ROW, PANEL),
        Extent(rows, width, 1, -(-words // PANEL), False), False,
    )  # fmt: skip


@outlined
def _add_offsets(scores, slot, row, words, offsets, begin, top):
    """Add offsets to the scores of a row. Return the maximum of the scores and `top`."""
    for word in range(words):
        score = scores[slot, row, word] + offsets[begin + word]
        scores[slot, row, word] = score
        top = score if score > top else top
    return top


@outlined
def _accumulate(scores, slot, row, words, top, highest, sums, at):
    """Add a row's scores s to its running log-sum-exp, number `at`, and replace them by exp(s − top). top: the maximum
    so far."""
    for word in range(words):
        scores[slot, row, word] = exp(scores[slot, row, word] - top)
    sums[at] = sums[at] * np.exp(np.float64(highest[at] - top)) + _total(scores, slot, row, words)
    highest[at] = top


@summed
def _total(scores, slot, row, words):
    total = 0.0
    for word in range(words):
        total += scores[slot, row, word]
    return total


@outlined
def _accumulate_row(scores, offsets, at, words, highest, sums, row):
    """Add the scores of a block to the running log-sum-exp of a row. at: the indices of its first score and offset."""
    vectors = words // LANES
    flat = scores.reshape(-1)
    top = highest_score(flat, offsets, at, vectors, highest[row])
    for word in range(vectors * LANES, words):
        score = flat[at[0] + word] + offsets[at[1] + word]
        top = score if score > top else top
    total = sum_of_exp(flat, offsets, at, vectors, top)
    for word in range(vectors * LANES, words):
        total += exp(flat[at[0] + word] + offsets[at[1] + word] - top)
    if top != highest[row]:
        sums[row] *= np.exp(np.float64(highest[row] - top))
        highest[row] = top
    sums[row] += total


@outlined
def log_normalizers(layer, targets, rows, share, buffers):
    """Compute a thread's part of log Z for `rows` rows, and the scores of the targets that it owns."""
    thread, offsets = share.thread, layer.offsets
    highest, sums, scores = buffers.highest[thread], buffers.sums[thread], buffers.scores[thread]
    highest[:rows] = LOWEST
    sums[:rows] = 0
    packed = buffers.packed[thread]
    for block in range(share.first, share.last):
        words = _pack_block(layer.table, block, packed)
        for first in range(0, rows, ROWS):
            count = min(ROWS, rows - first)
            _multiply_block(layer.y, first, count, words, packed, scores, 0)
            for row in range(count):
                target = targets[first + row]
                if target // BLOCK == block:
                    buffers.target_scores[first + row] = scores[0, row, target % BLOCK] + offsets[target]
                _accumulate_row(scores, offsets, (row * ROW, block * BLOCK), words, highest, sums, first + row)


@outlined
def softmax_scores(layer, targets, first_row, rows, share, buffers):
    """Compute `log_normalizers`, and keep exp(s − top) for all scores s of a thread's words and `rows` rows."""
    thread, normalizer, scores = share.thread, buffers.normalizer, buffers.scores
    highest, sums = normalizer.highest[thread], normalizer.sums[thread]
    highest[:rows] = LOWEST
    sums[:rows] = 0
    for block in range(share.first, share.last):
        words = _pack_block(layer.table, block, normalizer.packed[thread])
        _multiply_block(layer.y, first_row, rows, words, normalizer.packed[thread], scores, block)
        for row in range(rows):
            top = _add_offsets(scores, block, row, words, layer.offsets, block * BLOCK, highest[row])
            target = targets[first_row + row]
            if target // BLOCK == block:
                normalizer.target_scores[row] = scores[block, row, target % BLOCK]
            _accumulate(scores, block, row, words, top, highest, sums, row)
            buffers.tops[block, row] = top


@outlined
def _log_z(highest, sums, row):
    """Combine the running sums of all threads, (threads, N) each."""
    top = highest[0, row]
    for thread in range(1, highest.shape[0]):
        top = max(top, highest[thread, row])
    total = 0.0
    for thread in range(highest.shape[0]):
        total += sums[thread, row] * np.exp(np.float64(highest[thread, row] - top))
    return np.float64(top) + np.log(total)


@outlined
def _score_gradients(targets, first_row, log_z, block, words, buffers, scale):
    """Turn the results of `softmax_scores` for a block into gradients of scores. Return the loss of the block's
    targets.

    log_z: float64 (rows,).
    """
    scores, target_scores = buffers.scores, buffers.normalizer.target_scores
    loss = 0.0
    for row in range(log_z.size):
        factor = scale * np.float32(np.exp(np.float64(buffers.tops[block, row]) - log_z[row]))
        for word in range(words):
            scores[block, row, word] *= factor
        target = targets[first_row + row]
        if target // BLOCK == block:
            loss += log_z[row] - np.float64(target_scores[row])
            scores[block, row, target - block * BLOCK] -= scale
    return loss


@outlined
def softmax_backward(layer, d_table, targets, rows, share, buffers, scale, reduction):
    """Compute the gradients of a thread's words, and its part of the gradient of y. Return the loss of its targets.

    rows: the first, and their number. d_table (V, ·): overwritten if the first row is 0, else accumulated. reduction:
    all rows are one part, if they are not whole time steps of the batch.
    """
    (y, table, _), (first_row, count) = layer, rows
    width, batch = y.shape[1], reduction.parts[-1]
    vectors = width // LANES
    panels, narrow = (vectors + 1) // 2, vectors % 2 == 1
    scores, d_y = buffers.scores.reshape(-1), buffers.d_y[share.thread]
    log_z = buffers.log_z[share.thread, :count]
    for row in range(count):
        log_z[row] = _log_z(buffers.normalizer.highest, buffers.normalizer.sums, row)
    d_y[:count] = 0
    loss = 0.0
    for block in range(share.first, share.last):
        begin = block * BLOCK
        words = min(BLOCK, table.shape[0] - begin)
        loss += _score_gradients(targets, first_row, log_z, block, words, buffers, scale)
        start = block * buffers.scores.shape[1] * ROW
        matmul_transposed(
            Columns(scores, start, ROW),
            Panels(y.reshape(-1), first_row * width, width, PANEL),
            Panels(d_table.reshape(-1), begin * width, width, PANEL),
            Extent(words, batch, count // batch, panels, narrow), reduction, first_row > 0,
        )  # fmt: skip
        matmul(
            Rows(scores, start, ROW, 0),
            Panels(table.reshape(-1), begin * width, width, PANEL),
            Panels(d_y.reshape(-1), 0, width, PANEL),
            Extent(count, words, 1, panels, narrow), True,
        )  # fmt: skip
    return loss


@outlined
def add_parts(parts, target, first_row, first, last):
    """Sum rows `first` to `last` of the threads' parts (threads, rows, ·) into target[first_row:]."""
    for row in range(first, last):
        for j in range(target.shape[1]):
            total = parts[0, row, j]
            for thread in range(1, parts.shape[0]):
                total += parts[thread, row, j]
            target[first_row + row, j] = total


@kernel
def softmax_loss(layer, d_y, d_table, targets, buffers, scale, reduction, worker):
    """Compute the gradients d_y (N, ·) and d_table (V, ·). Return the thread's part of the loss."""
    rows, chunk_rows, scratch = targets.size, buffers.scores.shape[1], reduction.scratch.reshape(-1)
    loss = 0.0
    barrier_wait(worker)
    for row in range(0, rows, chunk_rows):
        count = min(chunk_rows, rows - row)
        softmax_scores(layer, targets, row, count, worker.blocks, buffers)
        barrier_wait(worker)
        one_part = buffers.one_part[worker.thread]
        one_part[1] = count
        parts = reduction.parts if count == rows else one_part
        loss += softmax_backward(
            layer, d_table, targets, (row, count), worker.blocks, buffers, scale, Reduction(parts, scratch)
        )
        barrier_wait(worker)
        first, last = rows_of(count, worker)
        add_parts(buffers.d_y, d_y, row, first, last)
        barrier_wait(worker)
    return loss
