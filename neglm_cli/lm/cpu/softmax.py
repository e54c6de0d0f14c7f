"""Scores of all words of the vocabulary: their normaliser, exact probabilities, and the loss of the full softmax.

    log Z_n = log Σ_w exp(y_n · o_w + offset_w)          log p(w | n) = y_n · o_w + offset_w − log Z_n

Words come in blocks of BLOCK, and threads own blocks, `first` to `last`. The part of the output table that belongs to
a block is transposed into a cache, and log Z is a running sum, so that no array has to hold all scores unless the
loss needs them.
"""

import numpy as np

from neglm_cli.kernels import kernel, outlined, summed
from neglm_cli.lm.cpu.functions import exp
from neglm_cli.lm.cpu.product import PANEL, multiply, multiply_transposed

BLOCK = 8 * PANEL  # words
ROW = BLOCK + 16  # numbers from row to row of a block: an odd number of cache lines, so that columns do not share sets
NOTHING = np.float32(-3e38)  # below all scores


@outlined
def _score(y, first_row, rows, output, block, packed, scores, place):
    """The scores of the words of a block for some rows, without offsets: scores[place, row, word]. Returns how many
    words there are.

    packed (BLOCK / PANEL, width, PANEL): room for the block's part of the output table."""
    width = y.shape[1]
    begin = block * BLOCK
    words = min(BLOCK, output.shape[0] - begin)
    panels = -(-words // PANEL)
    for panel in range(panels):
        start = begin + panel * PANEL
        columns = min(PANEL, begin + words - start)
        for column in range(columns):
            for j in range(width):
                packed[panel, j, column] = output[start + column, j]
    multiply(
        y.reshape(-1), first_row * width, width, 0, packed.reshape(-1), 0, PANEL, width * PANEL,
        scores.reshape(-1), place * scores.shape[1] * ROW, ROW, PANEL, rows, width, 1, panels, False, False,
    )  # fmt: skip
    return words


@outlined
def _add_offsets(scores, place, row, words, offsets, begin, top):
    """Returns the highest score, or `top`."""
    for word in range(words):
        score = scores[place, row, word] + offsets[begin + word]
        scores[place, row, word] = score
        top = score if score > top else top
    return top


@outlined
def _add_up(scores, place, row, words, top, highest, sums):
    """Add the scores s of a row to a running log-sum-exp, sums[row] · exp(highest[row]); they become exp(s − top), with
    `top` the highest so far."""
    for word in range(words):
        scores[place, row, word] = exp(scores[place, row, word] - top)
    sums[row] = sums[row] * np.exp(np.float64(highest[row] - top)) + _total(scores, place, row, words)
    highest[row] = top


@summed
def _total(scores, place, row, words):
    total = 0.0
    for word in range(words):
        total += scores[place, row, word]
    return total


@kernel
def log_normalisers(y, rows, output, offsets, targets, first, last, packed, scores, highest, sums, target_scores):
    """A thread's part of log Z for some rows, sums · exp(highest), and the scores of the targets that it owns.

    scores (1, N, ROW): room for a block.
    """
    highest[:rows] = NOTHING
    sums[:rows] = 0
    for block in range(first, last):
        words = _score(y, 0, rows, output, block, packed, scores, 0)
        for row in range(rows):
            top = _add_offsets(scores, 0, row, words, offsets, block * BLOCK, highest[row])
            if targets[row] // BLOCK == block:
                target_scores[row] = scores[0, row, targets[row] % BLOCK]
            _add_up(scores, 0, row, words, top, highest, sums)


@kernel
def softmax_scores(
    y, first_row, rows, output, offsets, targets, first, last, packed, scores, tops, highest, sums, target_scores
):  # fmt: skip
    """exp(s − top) for all scores s of a thread's words and `rows` rows, scores (blocks, ·, ROW), with the tops
    (blocks, ·); its part of their log Z, and the scores of the targets that it owns."""
    highest[:rows] = NOTHING
    sums[:rows] = 0
    for block in range(first, last):
        words = _score(y, first_row, rows, output, block, packed, scores, block)
        for row in range(rows):
            top = _add_offsets(scores, block, row, words, offsets, block * BLOCK, highest[row])
            target = targets[first_row + row]
            if target // BLOCK == block:
                target_scores[row] = scores[block, row, target % BLOCK]
            _add_up(scores, block, row, words, top, highest, sums)
            tops[block, row] = top


@outlined
def log_z(highest, sums, row):
    """The threads' parts, (threads, N), together."""
    top = highest[0, row]
    for thread in range(1, highest.shape[0]):
        top = max(top, highest[thread, row])
    total = 0.0
    for thread in range(highest.shape[0]):
        total += sums[thread, row] * np.exp(np.float64(highest[thread, row] - top))
    return np.float64(top) + np.log(total)


@kernel
def softmax_gradients(
    y, first_row, rows, parts, output, targets, first, last, scale, scores, tops, highest, sums, target_scores,
    d_output, d_y, room,
):  # fmt: skip
    """What `softmax_scores` has left becomes gradients; d_output (V, ·) gets those of the rows of a thread's words,
    added to what is there unless first_row is 0; d_y (rows, ·) its part of that of y. Returns the loss of its words.

    parts: see `batch_parts`; those of `rows` rows, if these are not whole steps of the batch."""
    width, batch = y.shape[1], parts[-1]
    vectors = width * 2 // PANEL
    panels, narrow = (vectors + 1) // 2, vectors % 2 == 1
    normalisers = np.empty(rows)
    for row in range(rows):
        normalisers[row] = log_z(highest, sums, row)
    d_y[:rows] = 0
    loss = 0.0
    for block in range(first, last):
        begin = block * BLOCK
        words = min(BLOCK, output.shape[0] - begin)
        for row in range(rows):
            factor = scale * np.float32(np.exp(np.float64(tops[block, row]) - normalisers[row]))
            for word in range(words):
                scores[block, row, word] *= factor
            target = targets[first_row + row]
            if target // BLOCK == block:
                loss += normalisers[row] - np.float64(target_scores[row])
                scores[block, row, target - begin] -= scale
        start = block * scores.shape[1] * ROW
        multiply_transposed(
            scores.reshape(-1), start, ROW, y.reshape(-1), first_row * width, width, PANEL,
            d_output.reshape(-1), begin * width, width, PANEL, words, parts, batch,
            rows // batch, panels, narrow, first_row > 0, room,
        )  # fmt: skip
        multiply(
            scores.reshape(-1), start, ROW, 0, output.reshape(-1), begin * width, width, PANEL,
            d_y.reshape(-1), 0, width, PANEL, rows, words, 1, panels, narrow, True,
        )  # fmt: skip
    return loss


@kernel
def add_parts(parts, target, first_row, first, last):
    """Rows `first` to `last`: the sum of the threads' parts (threads, rows, ·), to target[first_row:]."""
    for row in range(first, last):
        for j in range(target.shape[1]):
            total = parts[0, row, j]
            for thread in range(1, parts.shape[0]):
                total += parts[thread, row, j]
            target[first_row + row, j] = total
