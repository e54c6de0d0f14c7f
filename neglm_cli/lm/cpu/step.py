"""One minibatch, from words to moved parameters, as all threads run it side by side.

Threads meet where one needs what another has made; in between each works on what belongs to it: rows of the batch,
units of the layers, words of the vocabulary. There is no other synchronisation, and none of it is Python's.
"""

import math
from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import meet
from neglm_cli.kernels import kernel, outlined
from neglm_cli.lm.cpu import lstm
from neglm_cli.lm.cpu.optimise import catch_up, move_panels, move_rows
from neglm_cli.lm.cpu.rows import drop, gather, group, look_up
from neglm_cli.lm.cpu.sampled import draw_noise, pack_noise, shared_gradients, shared_loss, token_loss
from neglm_cli.lm.cpu.softmax import BLOCK, add_parts, log_normalisers, softmax_gradients, softmax_scores
from neglm_cli.simd import LANES

TOKEN, SHARED, SOFTMAX = range(3)  # who has noise words: every row its own, groups of rows, or none


class Sampling(NamedTuple):
    """Noise words, and what else the losses need."""

    table: np.ndarray  # the alias table
    offsets: np.ndarray  # float32 (V,): what is added to scores in training
    words: np.ndarray  # int32 (places,): all words whose rows of the output table are touched
    source: np.ndarray  # (N + G·K, ·): y, and behind it the gradients of shared noise rows
    noise_rows: np.ndarray  # (G·K, ·)
    packed: np.ndarray  # (G·panels, ·, PANEL)
    scores: np.ndarray  # (N, ·): of shared noise words
    all_scores: np.ndarray  # (blocks, rows, BLOCK): of all words
    tops: np.ndarray  # (blocks, rows): see `softmax_scores`
    parts: np.ndarray  # (threads, rows, ·): the softmax's parts of the gradient of y


class Numbers(NamedTuple):
    """What changes from minibatch to minibatch, and what the options say."""

    batch: int
    steps: int
    size: int  # of a word's vector
    mode: int
    k: int
    group_rows: int  # rows that share noise words
    dropped: int  # of 65,536
    bias: np.float32  # 1 if words have a bias, else 0
    scale: np.float32  # of the loss
    clip: float
    kind: int  # of the optimiser
    exact: bool
    step: int  # from 1 on
    rate: float
    epsilon: np.float32


@outlined
def _share(total, thread, threads):
    return total * thread // threads, total * (thread + 1) // threads


@outlined
def pass_forward(
    weights, states, own, size, dropped, bias, keys, ids, positions, keep, batch, steps, thread, threads, counter
):  # fmt: skip
    """From words to y. size: of a word's vector. keys: of the dropout before each layer and before the output."""
    rows = batch * steps
    first, last = _share(rows, thread, threads)
    units = weights.u.shape[2]
    _begin(states, keep, batch, thread, threads)
    look_up(weights.embedding, ids, states.x[0], first, last)
    if dropped:
        drop(states.x[0], states.x[0], size, positions, keys[0], dropped, first, last)
    meet(counter, threads)
    for layer in range(states.x.shape[0]):
        lstm.forward(
            states.x[layer], size if layer == 0 else units, weights.w[layer], weights.u[layer], weights.b[layer],
            states.z[layer], states.h[layer], states.c[layer], states.out[layer], keep, batch, steps,
            own.panels[thread], own.panels[thread + 1], counter, threads,
        )  # fmt: skip
        if layer + 1 < states.x.shape[0]:
            drop(states.out[layer], states.x[layer + 1], units, positions, keys[layer + 1], dropped, first, last)
            meet(counter, threads)
    drop(states.out[states.x.shape[0] - 1], states.y, units, positions, keys[states.x.shape[0]], dropped, first, last)
    for row in range(first, last):
        states.y[row, units] = bias


@outlined
def _begin(states, keep, batch, thread, threads):
    """Forget the state of rows that begin with none."""
    first, last = _share(batch, thread, threads)
    for row in range(first, last):
        if keep[row] == 0:
            for layer in range(states.h.shape[0]):
                states.h[layer][row, :] = 0
                states.c[layer][row, :] = 0


@outlined
def _carry(states, rows, batch, thread, threads):
    """The state at the end is that at the beginning of the next minibatch."""
    first, last = _share(batch, thread, threads)
    for layer in range(states.h.shape[0]):
        for row in range(first, last):
            for unit in range(states.h[layer].shape[1]):
                states.h[layer][row, unit] = states.h[layer][rows + row, unit]
                states.c[layer][row, unit] = states.c[layer][rows + row, unit]


@kernel
def train(
    weights, gradients, means, squares, moved, back, own, states, way, scoring, inputs, outputs, sampling, numbers,
    keys, noise_key, ids, targets, positions, noise_positions, keep, thread, threads, counter,
):  # fmt: skip
    """Train on one minibatch; returns this thread's part of the loss, and the norm of the whole gradient.

    If the norm is not a number, nothing is moved. means, squares: moments of the gradients; moved: the steps at which
    rows of the two tables were last moved.
    """
    batch, rows = numbers.batch, numbers.batch * numbers.steps
    k, mode = numbers.k, numbers.mode
    first, last = _share(rows, thread, threads)
    block, last_block = own.blocks[thread], own.blocks[thread + 1]
    begin, end = block * BLOCK, min(last_block * BLOCK, weights.output.shape[0])
    panel, last_panel = own.panels[thread], own.panels[thread + 1]
    layers = weights.w.shape[0]

    # Which rows of the tables are touched.
    groups = 0
    if mode == TOKEN:
        words = sampling.words.reshape(-1, k + 1)
        draw_noise(sampling.table, noise_key, noise_positions, words, k, first, last)
        for row in range(first, last):
            words[row, k] = targets[row]
        places = rows * (k + 1)
    elif mode == SHARED:
        groups = -(-rows // numbers.group_rows)
        noise = sampling.words[: groups * k].reshape(groups, k)
        if thread == 0:
            draw_noise(sampling.table, noise_key, noise_positions, noise, k, 0, groups)
            for at in range(groups * k):
                outputs.factors[at] = 1
                outputs.source_of[at] = states.y.shape[0] + at
            for row in range(rows):
                sampling.words[groups * k + row] = targets[row]
                outputs.source_of[groups * k + row] = row
        places = groups * k + rows
    else:
        places = 0
    group(ids[:rows], inputs.slot_of, inputs.distinct[thread], inputs.ends[thread], inputs.order[thread],
          inputs.found[thread], thread, threads)  # fmt: skip
    meet(counter, threads)
    if mode != SOFTMAX:
        group(sampling.words[:places], outputs.slot_of, outputs.distinct[thread], outputs.ends[thread],
              outputs.order[thread], outputs.found[thread], thread, threads)  # fmt: skip
    if numbers.exact:
        catch_up(weights.embedding, means.embedding, squares.embedding, moved[0], inputs.distinct[thread],
                 inputs.found[thread, 0], numbers.step, numbers.rate, numbers.epsilon)  # fmt: skip
        if mode != SOFTMAX:
            catch_up(weights.output, means.output, squares.output, moved[1], outputs.distinct[thread],
                     outputs.found[thread, 0], numbers.step, numbers.rate, numbers.epsilon)  # fmt: skip
        meet(counter, threads)

    pass_forward(
        weights, states, own, numbers.size, numbers.dropped, numbers.bias, keys, ids, positions, keep,
        batch, numbers.steps, thread, threads, counter,
    )  # fmt: skip

    # The loss, and the gradients of y and of the output table.
    total = 0.0
    if mode == TOKEN:
        loss = token_loss(
            states.y, weights.output, sampling.offsets, words, numbers.scale, outputs.factors.reshape(-1, k + 1),
            way.d_y, first, last,
        )  # fmt: skip
        meet(counter, threads)
    elif mode == SHARED:
        noise_first, noise_last = _share(groups * k, thread, threads)
        pack_noise(weights.output, noise, sampling.noise_rows, sampling.packed, noise_first, noise_last)
        meet(counter, threads)
        loss = shared_loss(
            states.y, weights.output, sampling.offsets, targets, noise, sampling.noise_rows, sampling.packed,
            numbers.scale, sampling.scores, outputs.factors[groups * k :], way.d_y, numbers.group_rows, first, last,
        )  # fmt: skip
        meet(counter, threads)
        column, last_column = _share(states.y.shape[1] // LANES, thread, threads)
        shared_gradients(
            states.y, sampling.scores, k, numbers.group_rows, rows, sampling.source[states.y.shape[0] :],
            column, last_column,
        )  # fmt: skip
        meet(counter, threads)
    else:
        loss = 0.0
        meet(counter, threads)
        at_once = sampling.all_scores.shape[1]
        for row in range(0, rows, at_once):
            count = min(at_once, rows - row)
            softmax_scores(
                states.y, row, count, weights.output, sampling.offsets, targets, block, last_block,
                scoring.packed[thread], sampling.all_scores, sampling.tops, scoring.highest[thread],
                scoring.sums[thread], scoring.target_scores,
            )  # fmt: skip
            meet(counter, threads)
            loss += softmax_gradients(
                states.y, row, count, weights.output, targets, block, last_block, numbers.scale, sampling.all_scores,
                sampling.tops, scoring.highest, scoring.sums, scoring.target_scores, gradients.output,
                sampling.parts[thread],
            )  # fmt: skip
            meet(counter, threads)
            part, last_part = _share(count, thread, threads)
            add_parts(sampling.parts, way.d_y, row, part, last_part)
            meet(counter, threads)
        total += lstm.squares_of(gradients.output, begin, end)
    if mode != SOFTMAX:
        total += gather(
            outputs.found[thread, 0], outputs.ends[thread], outputs.order[thread], outputs.factors, sampling.source,
            outputs.source_of, outputs.gradients[thread],
        )  # fmt: skip

    # The way back through the layers.
    units = weights.u.shape[2]
    drop(way.d_y, way.d_out, units, positions, keys[layers], numbers.dropped, first, last)
    meet(counter, threads)
    for layer in range(layers - 1, -1, -1):
        d_out = way.d_out if layer == layers - 1 else way.d_x[layer + 1]
        width = numbers.size if layer == 0 else units
        lstm.backward(
            states.z[layer], states.c[layer], d_out, back.u[layer], own.back[thread], way.d_later[thread],
            way.d_c[thread], keep, batch, numbers.steps, panel, last_panel, counter, threads,
        )  # fmt: skip
        total += lstm.weight_gradients(
            states.x[layer], width, states.h[layer], states.z[layer], gradients.w[layer], gradients.u[layer],
            gradients.b[layer], rows, panel, last_panel,
        )  # fmt: skip
        lstm.input_gradients(states.z[layer], back.w[layer], way.d_x[layer], width, first, last)
        if numbers.dropped:
            drop(way.d_x[layer], way.d_x[layer], width, positions, keys[layer], numbers.dropped, first, last)
        meet(counter, threads)
    total += gather(
        inputs.found[thread, 0], inputs.ends[thread], inputs.order[thread], inputs.factors, way.d_x[0],
        inputs.source_of, inputs.gradients[thread],
    )  # fmt: skip

    # The norm, and the move.
    way.squares[thread, 0] = total
    meet(counter, threads)
    norm = 0.0
    for other in range(threads):
        norm += way.squares[other, 0]
    norm = math.sqrt(norm)
    if rows > 0 and math.isfinite(norm):  # with no rows, it was called to be compiled
        _move(weights, gradients, means, squares, moved, inputs, outputs, numbers, norm, panel, last_panel, begin, end,
              thread)  # fmt: skip
        _carry(states, rows, batch, thread, threads)
        for layer in range(layers):
            lstm.transpose(weights.w[layer], back.w[layer], back.w_starts, back.w_ends[layer], panel, last_panel)
            lstm.transpose(weights.u[layer], back.u[layer], back.u_starts, back.u_ends, panel, last_panel)
    meet(counter, threads)
    return loss, norm


@outlined
def _move(
    weights, gradients, means, squares, moved, inputs, outputs, numbers, norm, panel, last_panel, begin, end, thread
):  # fmt: skip
    kind, epsilon = numbers.kind, numbers.epsilon
    scale = np.float32(numbers.clip / norm if norm > numbers.clip else 1.0)
    rate = np.float32(numbers.rate)
    if kind == 2:
        rate = np.float32(numbers.rate * math.sqrt(1 - 0.999**numbers.step) / (1 - 0.9**numbers.step))
    for layer in range(weights.w.shape[0]):
        for arrays in (
            (weights.w[layer], gradients.w[layer], means.w[layer], squares.w[layer]),
            (weights.u[layer], gradients.u[layer], means.u[layer], squares.u[layer]),
        ):
            p, g, m, v = arrays
            panels = p.shape[0]
            move_panels(
                kind, p.reshape(panels, -1), g.reshape(panels, -1), m.reshape(panels, -1), v.reshape(panels, -1),
                scale, rate, epsilon, panel, last_panel,
            )  # fmt: skip
        move_panels(
            kind, weights.b[layer], gradients.b[layer], means.b[layer], squares.b[layer], scale, rate, epsilon,
            panel, last_panel,
        )  # fmt: skip
    move_rows(
        kind, weights.embedding, inputs.distinct[thread], inputs.found[thread, 0], inputs.gradients[thread],
        means.embedding, squares.embedding, moved[0], numbers.step, scale, rate, epsilon,
    )  # fmt: skip
    if numbers.mode == SOFTMAX:
        move_panels(
            kind, weights.output, gradients.output, means.output, squares.output, scale, rate, epsilon, begin, end
        )
    else:
        move_rows(
            kind, weights.output, outputs.distinct[thread], outputs.found[thread, 0], outputs.gradients[thread],
            means.output, squares.output, moved[1], numbers.step, scale, rate, epsilon,
        )  # fmt: skip


@kernel
def score(
    weights, own, states, scoring, offsets, size, bias, keys, ids, targets, positions, keep, batch, steps,
    thread, threads, counter,
):  # fmt: skip
    """The scores of the targets, and this thread's part of log Z, for one minibatch without dropout."""
    rows = batch * steps
    pass_forward(
        weights, states, own, size, 0, bias, keys, ids, positions, keep, batch, steps, thread, threads, counter
    )
    meet(counter, threads)
    log_normalisers(
        states.y, rows, weights.output, offsets, targets, own.blocks[thread], own.blocks[thread + 1],
        scoring.packed[thread], scoring.scores[thread], scoring.highest[thread], scoring.sums[thread],
        scoring.target_scores,
    )  # fmt: skip
    _carry(states, rows, batch, thread, threads)
    meet(counter, threads)
