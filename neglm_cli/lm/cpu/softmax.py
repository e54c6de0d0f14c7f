"""Scores of all words of the vocabulary: their normaliser, exact probabilities, and the loss of the full softmax.

    log Z_n = log Σ_w exp(y_n · o_w + offset_w)          log p(w | n) = y_n · o_w + offset_w − log Z_n

Threads own words: `begin` to `end`, from a multiple of PANEL on. They take these in blocks, whose part of the output
table is transposed into a cache; log Z is a running sum, so that no array has to hold all scores unless the loss
needs them.
"""

import numpy as np

from neglm_cli.kernels import kernel, outlined, summed
from neglm_cli.lm.cpu.functions import exp
from neglm_cli.lm.cpu.product import PANEL, multiply, multiply_transposed

BLOCK = 8 * PANEL  # words
NOTHING = np.float32(-3e38)  # below all scores


@outlined
def _score(y, first_row, rows, output, offsets, begin, end, packed, scores, start, stride):
    """The scores of words begin to end (at most BLOCK) for some rows: scores.flat[start + row·stride + word]."""
    width = y.shape[1]
    panels = -(-(end - begin) // PANEL)
    for panel in range(panels):
        for column in range(min(PANEL, end - begin - panel * PANEL)):
            word = begin + panel * PANEL + column
            for j in range(width):
                packed[panel, j, column] = output[word, j]
    multiply(
        y, first_row * width, width, 0, packed, 0, PANEL, width * PANEL, scores, start, stride, PANEL,
        rows, width, 1, panels, False, False,
    )  # fmt: skip
    flat = scores.reshape(-1)
    for row in range(rows):
        for word in range(end - begin):
            flat[start + row * stride + word] += offsets[begin + word]


@outlined
def _add_up(scores, start, count, row, powers, highest, sums):
    """Add some scores to a running log-sum-exp: sums[row] · exp(highest[row])."""
    top = highest[row]
    for i in range(count):
        top = max(top, scores[start + i])
    for i in range(count):
        powers[i] = exp(scores[start + i] - top)
    sums[row] = sums[row] * np.exp(np.float64(highest[row] - top)) + _total(powers, count)
    highest[row] = top


@summed
def _total(numbers, count):
    total = 0.0
    for i in range(count):
        total += numbers[i]
    return total


@kernel
def log_normalisers(y, rows, output, offsets, targets, begin, end, packed, scores, highest, sums, target_scores):
    """This thread's part of log Z for some rows: sums · exp(highest); and the scores of the targets that it owns.

    packed (BLOCK / PANEL, width, PANEL), scores (N, BLOCK): room for a block.
    """
    powers = np.empty(BLOCK, np.float32)
    highest[:rows] = NOTHING
    sums[:rows] = 0
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        _score(y, 0, rows, output, offsets, first, last, packed, scores, 0, BLOCK)
        flat = scores.reshape(-1)
        for row in range(rows):
            if first <= targets[row] < last:
                target_scores[row] = scores[row, targets[row] - first]
            _add_up(flat, row * BLOCK, last - first, row, powers, highest, sums)


@kernel
def softmax_scores(y, first_row, rows, output, offsets, begin, end, packed, scores, highest, sums):
    """All scores of this thread's words for `rows` rows, scores (rows, ·), and its part of their log Z."""
    powers = np.empty(BLOCK, np.float32)
    stride = scores.shape[1]
    flat = scores.reshape(-1)
    highest[:rows] = NOTHING
    sums[:rows] = 0
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        _score(y, first_row, rows, output, offsets, first, last, packed, scores, first, stride)
        for row in range(rows):
            _add_up(flat, row * stride + first, last - first, row, powers, highest, sums)


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
def softmax_gradients(y, first_row, rows, output, targets, begin, end, scale, scores, highest, sums, d_output, d_y):
    """Scores of this thread's words become their gradients; d_output (V, ·) gets those of its words' rows, added to
    what is there unless first_row is 0, and d_y (rows, ·) its part of that of y. Returns the loss of its words."""
    width, stride = y.shape[1], scores.shape[1]
    vectors = width * 2 // PANEL
    loss = 0.0
    for row in range(rows):
        normaliser = log_z(highest, sums, row)
        target = targets[first_row + row]
        if begin <= target < end:
            loss += normaliser - np.float64(scores[row, target])
        _probabilities(scores, row, begin, end, np.float32(normaliser), scale)
        if begin <= target < end:
            scores[row, target] -= scale
    multiply_transposed(
        scores, begin, stride, y, first_row * width, width, PANEL, d_output, begin * width, width, PANEL,
        end - begin, rows, (vectors + 1) // 2, vectors % 2 == 1, first_row > 0,
    )  # fmt: skip
    multiply(
        scores, begin, stride, 0, output, begin * width, width, PANEL, d_y, 0, width, PANEL,
        rows, end - begin, 1, (vectors + 1) // 2, vectors % 2 == 1, False,
    )  # fmt: skip
    return loss


@outlined
def _probabilities(scores, row, begin, end, normaliser, scale):
    for word in range(begin, end):
        scores[row, word] = scale * exp(scores[row, word] - normaliser)


@kernel
def add_parts(parts, target, first_row, first, last):
    """Rows `first` to `last`: the sum of the threads' parts (threads, rows, ·), to target[first_row:]."""
    for row in range(first, last):
        for j in range(target.shape[1]):
            total = parts[0, row, j]
            for thread in range(1, parts.shape[0]):
                total += parts[thread, row, j]
            target[first_row + row, j] = total
