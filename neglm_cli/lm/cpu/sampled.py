"""The losses of negative sampling: a word against k noise words.

    loss = Σ_n [ softplus(s_n0) − s_n0 + Σ_i softplus(s_ni) ],   s_ni = y_n · o(word ni) + offset(word ni)

with word n0 the one that stands in the text. Which loss it is, only the offsets know. y_n ends with a 1 where rows of
the output table end with a bias, else with a 0.
"""

import numpy as np

from neglm_cli.kernels import kernel, outlined
from neglm_cli.lm.cpu.functions import ONE, add_row, dot, sigmoid_and_softplus
from neglm_cli.lm.cpu.product import PANEL, multiply, multiply_transposed
from neglm_cli.objective.noise import draw_word
from neglm_cli.objective.random import draw
from neglm_cli.simd import LANES, prefetch_row

AHEAD = 8  # noise words whose rows are fetched before they are needed


@kernel
def draw_noise(table, key, positions, words, k, first, last):
    """words[n, :k] = noise words, drawn for the position of row n."""
    for row in range(first, last):
        place = draw(key, positions[row])
        for i in range(k):
            words[row, i] = draw_word(table, draw(place, np.uint64(i)))


@outlined
def _take_gradients(scores, row, width, scale, losses):
    """Scores of noise words become gradients; returns their loss. losses: room for `width` numbers."""
    for i in range(width):
        sigmoid, softplus = sigmoid_and_softplus(scores[row, i])
        losses[i] = softplus
        scores[row, i] = scale * sigmoid
    loss = 0.0
    for i in range(width):
        loss += losses[i]
    return loss


@kernel
def token_loss(y, output, offsets, words, scale, factors, d_y, first, last):
    """Rows that have noise words of their own; returns the loss of rows `first` to `last`.

    words (N, K + 1): the noise words, and the word of the text last. factors: the gradients of their scores. d_y: of y.
    """
    k, width = words.shape[1] - 1, y.shape[1]
    losses = np.empty(k, np.float32)
    loss = 0.0
    for row in range(first, last):
        for i in range(k):
            if i + AHEAD < k:
                prefetch_row(output, words[row, i + AHEAD] * width, width // LANES)
            factors[row, i] = dot(y, row, output, words[row, i], width) + offsets[words[row, i]]
        loss += _take_gradients(factors, row, k, scale, losses)
        d_y[row, :] = 0
        for i in range(k):
            add_row(factors[row, i], output, words[row, i], d_y, row, width)
        loss += _target_loss(y, row, output, words[row, k], offsets, scale, factors, row * (k + 1) + k, d_y)
    return loss


@outlined
def _target_loss(y, row, output, target, offsets, scale, factors, place, d_y):
    """The part of the word that stands in the text; its gradient goes to factors.flat[place]."""
    score = dot(y, row, output, target, y.shape[1]) + offsets[target]
    sigmoid, softplus = sigmoid_and_softplus(score)
    factor = scale * (sigmoid - ONE)
    factors.reshape(-1)[place] = factor
    add_row(factor, output, target, d_y, row, y.shape[1])
    return np.float64(softplus) - np.float64(score)


@kernel
def pack_noise(output, noise, rows, packed, first, last):
    """Rows of noise words side by side: rows (G·K, ·), and the same transposed, packed (G·panels, width, PANEL)."""
    k = noise.shape[1]
    panels = -(-k // PANEL)
    for at in range(first, last):
        group, i = at // k, at % k
        panel, column = group * panels + i // PANEL, i % PANEL
        word = noise[group, i]
        for j in range(rows.shape[1]):
            rows[at, j] = output[word, j]
            packed[panel, j, column] = output[word, j]


@kernel
def shared_loss(
    y, output, offsets, targets, noise, noise_rows, packed, scale, scores, factors, d_y, group_rows, first, last
):  # fmt: skip
    """Rows that share noise words with `group_rows` rows: (first, last) of all rows; returns their loss.

    noise (G, K), noise_rows and packed: see `pack_noise`. scores (N, ·): gradients of the scores of noise words.
    factors (N,): of those of targets.
    """
    k = noise.shape[1]
    width, stride = y.shape[1], scores.shape[1]
    panels = -(-k // PANEL)
    vectors = width * 2 // PANEL
    losses = np.empty(k, np.float32)
    loss = 0.0
    for group in range(first // group_rows, -(-last // group_rows)):
        begin, end = max(first, group * group_rows), min(last, (group + 1) * group_rows)
        multiply(
            y.reshape(-1), begin * width, width, 0, packed.reshape(-1), group * panels * width * PANEL, PANEL,
            width * PANEL, scores.reshape(-1), begin * stride, stride, PANEL,
            end - begin, width, 1, panels, False, False,
        )  # fmt: skip
        for row in range(begin, end):
            for i in range(k):
                scores[row, i] += offsets[noise[group, i]]
            loss += _take_gradients(scores, row, k, scale, losses)
        multiply(
            scores.reshape(-1), begin * stride, stride, 0, noise_rows.reshape(-1), group * k * width, width, PANEL,
            d_y.reshape(-1), begin * width, width, PANEL,
            end - begin, k, 1, (vectors + 1) // 2, vectors % 2 == 1, False,
        )  # fmt: skip
        for row in range(begin, end):
            loss += _target_loss(y, row, output, targets[row], offsets, scale, factors, row, d_y)
    return loss


@kernel
def shared_gradients(y, scores, k, group_rows, rows, parts, d_noise, first, last, room):
    """The gradients of noise rows, from those of their scores; vectors `first` to `last` of them.

    parts: see `batch_parts`. Each part's gradients are by themselves, d_noise (parts·G·K, ·): a noise word may also
    stand in the text, and what it gets from there belongs to a part, too."""
    width, stride, batch = y.shape[1], scores.shape[1], parts[-1]
    groups = -(-rows // group_rows)
    for part in range(parts.size - 1):
        for group in range(groups):
            begin = group * group_rows
            multiply_transposed(
                scores.reshape(-1), begin * stride, stride, y.reshape(-1), begin * width + first * LANES, width, PANEL,
                d_noise.reshape(-1), (part * groups + group) * k * width + first * LANES, width, PANEL,
                k, parts[part : part + 2], batch, group_rows // batch, (last - first + 1) // 2,
                (last - first) % 2 == 1, False, room,
            )  # fmt: skip
