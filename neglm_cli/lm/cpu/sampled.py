"""Negative sampling: losses of a word against k noise words.

    loss = Σ_n [ softplus(s_n0) − s_n0 + Σ_i softplus(s_ni) ],   s_ni = y_n · o(word ni) + offset(word ni)

Word n0 is the target. The losses differ only in their offsets. y_n ends with a 1 if rows of the output table end
with a bias, else with a 0.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import kernel, outlined
from neglm_cli.lm.cpu.functions import ONE, add_row, dot, sigmoid_and_softplus
from neglm_cli.lm.cpu.gemm import PANEL, Columns, Extent, Panels, Reduction, Rows, matmul, matmul_transposed
from neglm_cli.lm.cpu.threads import rows_of
from neglm_cli.objective.noise import draw_word
from neglm_cli.objective.random import draw
from neglm_cli.simd import LANES, prefetch_row

AHEAD = 8  # noise words to prefetch


class OutputLayer(NamedTuple):
    """The output layer: s(n, w) = y_n · table_w + offsets_w."""

    y: np.ndarray  # (N, ·)
    table: np.ndarray  # (V, ·), the bias after the last unit
    offsets: np.ndarray  # float32 (V,): added to scores


class SharedNoise(NamedTuple):
    """Noise words that `group_rows` rows share, G groups in all, and buffers for them."""

    words: np.ndarray  # int32 (G, K)
    group_rows: int
    rows: np.ndarray  # (G·K, ·): their rows of the output table
    packed: np.ndarray  # (G·panels, width, PANEL): these rows, transposed
    scores: np.ndarray  # (N, ·): their scores, then gradients of the scores
    gradients: np.ndarray  # (parts·G·K, ·): gradients of their rows, by part of the batch
    losses: np.ndarray  # (threads, K): scratch


@outlined
def draw_noise(alias_table, key, positions, words, first, last):
    """Draw words[n, :k] for the position of row n, for rows `first` to `last`. words: int32 (·, k)."""
    for row in range(first, last):
        row_key = draw(key, positions[row])
        for i in range(words.shape[1]):
            words[row, i] = draw_word(alias_table, draw(row_key, np.uint64(i)))


@outlined
def _noise_gradients(scores, row, scale, losses):
    """Replace the scores of noise words by gradients. Return their loss. losses (k,): scratch."""
    k = losses.size
    for i in range(k):
        sigmoid, softplus = sigmoid_and_softplus(scores[row, i])
        losses[i] = softplus
        scores[row, i] = scale * sigmoid
    loss = 0.0
    for i in range(k):
        loss += losses[i]
    return loss


@outlined
def _target_loss(layer, d_y, row, target, scale, factors, at):
    """Compute the loss of a row's target. Write the gradient of its score to factors[at]."""
    y, table, offsets = layer
    score = dot(y, row, table, target, y.shape[1]) + offsets[target]
    sigmoid, softplus = sigmoid_and_softplus(score)
    factor = scale * (sigmoid - ONE)
    factors[at] = factor
    add_row(factor, table, target, d_y, row, y.shape[1])
    return np.float64(softplus) - np.float64(score)


@outlined
def token_loss(layer, d_y, words, factors, losses, scale, first, last):
    """Compute the loss of rows `first` to `last`, with separate noise words for each row.

    words (N, K + 1): the noise words, then the target. factors (N·(K + 1),): gradients of their scores. losses (K,):
    scratch. d_y (N, ·): the gradient of y.
    """
    y, table, offsets = layer
    k, width = words.shape[1] - 1, y.shape[1]
    scores = factors.reshape(-1, k + 1)
    loss = 0.0
    for row in range(first, last):
        for i in range(k):
            if i + AHEAD < k:
                prefetch_row(table, words[row, i + AHEAD] * width, width // LANES)
            scores[row, i] = dot(y, row, table, words[row, i], width) + offsets[words[row, i]]
        loss += _noise_gradients(scores, row, scale, losses)
        d_y[row, :] = 0
        for i in range(k):
            add_row(scores[row, i], table, words[row, i], d_y, row, width)
        loss += _target_loss(layer, d_y, row, words[row, k], scale, factors, row * (k + 1) + k)
    return loss


@outlined
def pack_noise(table, noise, first, last):
    """Copy the rows of shared noise words `first` to `last` of G·K, as they are and transposed."""
    k = noise.words.shape[1]
    panels = -(-k // PANEL)
    for at in range(first, last):
        group, i = at // k, at % k
        panel, column = group * panels + i // PANEL, i % PANEL
        word = noise.words[group, i]
        for j in range(noise.rows.shape[1]):
            noise.rows[at, j] = table[word, j]
            noise.packed[panel, j, column] = table[word, j]


@outlined
def shared_loss(layer, d_y, noise, targets, factors, scale, first, last, thread):
    """Compute the loss of rows `first` to `last`, with shared noise words.

    factors (N,): gradients of the scores of targets. Gradients of the scores of noise words go to noise.scores.
    """
    y, _, offsets = layer
    k, group_rows = noise.words.shape[1], noise.group_rows
    width, stride = y.shape[1], noise.scores.shape[1]
    panels, vectors = -(-k // PANEL), width // LANES
    losses = noise.losses[thread]
    loss = 0.0
    for group in range(first // group_rows, -(-last // group_rows)):
        begin, end = max(first, group * group_rows), min(last, (group + 1) * group_rows)
        matmul(
            Rows(y.reshape(-1), begin * width, width, 0),
            Panels(noise.packed.reshape(-1), group * panels * width * PANEL, PANEL, width * PANEL),
            Panels(noise.scores.reshape(-1), begin * stride, stride, PANEL),
            Extent(end - begin, width, 1, panels, False), False,
        )  # fmt: skip
        for row in range(begin, end):
            for i in range(k):
                noise.scores[row, i] += offsets[noise.words[group, i]]
            loss += _noise_gradients(noise.scores, row, scale, losses)
        matmul(
            Rows(noise.scores.reshape(-1), begin * stride, stride, 0),
            Panels(noise.rows.reshape(-1), group * k * width, width, PANEL),
            Panels(d_y.reshape(-1), begin * width, width, PANEL),
            Extent(end - begin, k, 1, (vectors + 1) // 2, vectors % 2 == 1), False,
        )  # fmt: skip
        for row in range(begin, end):
            loss += _target_loss(layer, d_y, row, targets[row], scale, factors, row)
    return loss


@outlined
def shared_gradients(y, noise, rows, reduction, first, last):
    """Compute the gradients of noise rows from the gradients of their scores, for vectors `first` to `last` of each
    row.

    Gradients are kept separate for each part of the batch: a noise word may also be a target, whose gradients belong to
    a part, too.
    """
    parts = reduction.parts
    width, stride, batch = y.shape[1], noise.scores.shape[1], parts[-1]
    k, group_rows = noise.words.shape[1], noise.group_rows
    groups = -(-rows // group_rows)
    panels, narrow = (last - first + 1) // 2, (last - first) % 2 == 1
    for part in range(parts.size - 1):
        for group in range(groups):
            begin = group * group_rows
            matmul_transposed(
                Columns(noise.scores.reshape(-1), begin * stride, stride),
                Panels(y.reshape(-1), begin * width + first * LANES, width, PANEL),
                Panels(noise.gradients.reshape(-1), (part * groups + group) * k * width + first * LANES, width, PANEL),
                Extent(k, batch, group_rows // batch, panels, narrow),
                Reduction(parts[part : part + 2], reduction.scratch), False,
            )  # fmt: skip


# --- called from Python, by all threads of a team ----------------------------------------------------------


@kernel
def list_token_occurrences(alias_table, batch, words, gradients, part_of_row, worker):
    """Write K noise words of row n, then its target, to words[n], as occurrences whose source is y_n.

    part_of_row: uint8 (rows of y,).
    """
    first, last = rows_of(words.shape[0], worker)
    k = words.shape[1] - 1
    draw_noise(alias_table, batch.noise_key, batch.noise_positions, words[:, :k], first, last)
    for row in range(first, last):
        words[row, k] = batch.targets[row]
        for at in range(row * (k + 1), (row + 1) * (k + 1)):
            gradients.source[at] = row
            gradients.part[at] = part_of_row[row]
    barrier_wait(worker)


@kernel
def token_loss_of_rows(layer, d_y, words, factors, losses, scale, worker):
    """Compute the loss of the thread's rows. losses (threads, K): scratch."""
    first, last = rows_of(words.shape[0], worker)
    loss = token_loss(layer, d_y, words, factors, losses[worker.thread], scale, first, last)
    barrier_wait(worker)
    return loss


@kernel
def draw_shared_noise(alias_table, batch, words):
    """Draw words, int32 (G, K)."""
    draw_noise(alias_table, batch.noise_key, batch.noise_positions, words, 0, words.shape[0])


@kernel
def list_shared_occurrences(targets, words, gradients, part_of_row, parts):
    """List the noise words once for each part of the batch, followed by the targets.

    words: the occurrences, which start with the noise words of the first part. part_of_row: uint8 (rows of y,).
    """
    rows, first_source = targets.size, part_of_row.size
    noise_words = (words.size - rows) // parts
    for at in range(words.size - rows):
        words[at] = words[at % noise_words]
        gradients.factors[at] = 1
        gradients.source[at] = first_source + at
        gradients.part[at] = at // noise_words
    for row in range(rows):
        at = words.size - rows + row
        words[at] = targets[row]
        gradients.source[at] = row
        gradients.part[at] = part_of_row[row]


@kernel
def shared_loss_of_rows(layer, d_y, noise, targets, factors, scale, worker):
    first, last = rows_of(noise.words.size, worker)
    pack_noise(layer.table, noise, first, last)
    barrier_wait(worker)
    first, last = rows_of(targets.size, worker)
    loss = shared_loss(layer, d_y, noise, targets, factors, scale, first, last, worker.thread)
    barrier_wait(worker)
    return loss


@kernel
def gradients_of_shared_noise(y, noise, rows, reduction, worker):
    first, last = rows_of(y.shape[1] // LANES, worker)
    shared_gradients(y, noise, rows, Reduction(reduction.parts, reduction.scratch.reshape(-1)), first, last)
    barrier_wait(worker)
