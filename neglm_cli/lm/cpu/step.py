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
from neglm_cli.lm.cpu.arrays import Scoring, Shares, States, Touched, Transposed, Way, Weights
from neglm_cli.lm.cpu.functions import sum_of_squares
from neglm_cli.lm.cpu.moves import move_all, move_layers, move_output, move_touched
from neglm_cli.lm.cpu.optimise import catch_up
from neglm_cli.lm.cpu.rows import drop, gather, group, look_up
from neglm_cli.lm.cpu.sampled import draw_noise, pack_noise, shared_gradients, shared_loss, token_loss
from neglm_cli.lm.cpu.softmax import BLOCK, add_parts, log_normalisers, softmax_gradients, softmax_scores
from neglm_cli.lm.settings import SHARED, SOFTMAX, TOKEN
from neglm_cli.simd import LANES


class Sampling(NamedTuple):
    """Noise words, and what else the losses need."""

    table: np.ndarray  # the alias table
    offsets: np.ndarray  # float32 (V,): what is added to scores in training
    words: np.ndarray  # int32 (places,): all words whose rows of the output table are touched
    source: np.ndarray  # (N + parts·G·K, ·): y, and behind it the gradients of shared noise rows
    noise_rows: np.ndarray  # (G·K, ·)
    packed: np.ndarray  # (G·panels, ·, PANEL)
    scores: np.ndarray  # (N, ·): of shared noise words
    all_scores: np.ndarray  # (blocks, rows, ROW): of all words
    tops: np.ndarray  # (blocks, rows): see `softmax_scores`
    parts: np.ndarray  # (threads, rows, ·): the softmax's parts of the gradient of y


class Training(NamedTuple):
    """All that stays from minibatch to minibatch."""

    weights: Weights
    gradients: Weights
    means: Weights  # moments of the gradients
    squares: Weights
    moved: np.ndarray  # int32 (2, V): the steps at which rows of `embedding` and `output` were last moved
    back: Transposed
    own: Shares
    states: States
    way: Way
    scoring: Scoring
    inputs: Touched  # rows of `embedding`
    outputs: Touched  # rows of `output`
    sampling: Sampling
    parts: np.ndarray  # of the batch: see `batch_parts`
    room: np.ndarray  # (threads, 2, ·): for sums over them


class Text(NamedTuple):
    """The words of a minibatch, N = B·T rows, and what is drawn for them."""

    ids: np.ndarray  # int32 (N,)
    targets: np.ndarray  # int32 (N,)
    keep: np.ndarray  # float32 (N + B,): see `lstm`
    positions: np.ndarray  # uint64 (N,)
    noise_positions: np.ndarray  # uint64: of rows, or of groups that share noise words
    noise_key: np.uint64
    keys: np.ndarray  # uint64 (L + 1,): of the dropout before each layer and before the output


class Numbers(NamedTuple):
    """What the options say, and what changes from minibatch to minibatch."""

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


@kernel
def train(training, text, numbers, thread, threads, counter):
    """Train on one minibatch; returns this thread's part of the loss, and the norm of the whole gradient.

    If the norm is not a number, nothing is moved.
    """
    rows = numbers.batch * numbers.steps
    loss, total = _go_there(training, text, numbers, rows, thread, threads, counter)
    total += _pass_back(training, text, numbers, rows, thread, threads, counter)
    norm = _norm(training.way.squares, total, thread, threads, counter)
    if rows > 0 and math.isfinite(norm):  # with no rows, it was called to be compiled
        move_all(training, numbers, norm, thread)
        _carry(training.states, rows, numbers.batch, thread, threads)
    meet(counter, threads)
    return loss, norm


# The same in three parts, with others who train on other rows of the minibatch: in between gradients are added up.


@kernel
def go_there(training, text, numbers, thread, threads, counter):
    """From words to the loss and to gradients of the output table; returns this thread's part of the loss."""
    loss, _ = _go_there(training, text, numbers, numbers.batch * numbers.steps, thread, threads, counter)
    meet(counter, threads)
    return loss


@kernel
def go_back(training, text, numbers, thread, threads, counter):
    """To the gradients of the layers and of the embedding."""
    _pass_back(training, text, numbers, numbers.batch * numbers.steps, thread, threads, counter)
    meet(counter, threads)


@kernel
def move_alike(training, numbers, inputs, input_gradients, outputs, output_gradients, thread, threads, counter):
    """Move along the whole gradient, whose norm is returned: the layers', and those of the rows `inputs` of the
    embedding and `outputs` of the output table, which others may have touched and this process not."""
    first_input, last_input = _share(inputs.size, thread, threads)
    first_output, last_output = _share(outputs.size, thread, threads)
    total = _squares_of_layers(training, thread)
    for row in range(first_input, last_input):
        total += sum_of_squares(input_gradients, row)
    for row in range(first_output, last_output):
        total += sum_of_squares(output_gradients, row)
    if numbers.mode == SOFTMAX:
        total += _squares_of_output(training, thread)
    norm = _norm(training.way.squares, total, thread, threads, counter)
    rows = numbers.batch * numbers.steps
    if rows > 0 and math.isfinite(norm):
        weights, means, squares = training.weights, training.means, training.squares
        move_layers(training, numbers, norm, thread)
        move_touched(
            weights.embedding, inputs[first_input:last_input], last_input - first_input,
            input_gradients[first_input:last_input], means.embedding, squares.embedding, training.moved[0], numbers,
            norm, True,
        )  # fmt: skip
        if numbers.mode == SOFTMAX:
            move_output(training, numbers, norm, thread)
        else:
            move_touched(
                weights.output, outputs[first_output:last_output], last_output - first_output,
                output_gradients[first_output:last_output], means.output, squares.output, training.moved[1], numbers,
                norm, True,
            )  # fmt: skip
        _carry(training.states, rows, numbers.batch, thread, threads)
    meet(counter, threads)
    return norm


@kernel
def score(weights, own, states, scoring, offsets, text, batch, steps, size, bias, scored, thread, threads, counter):
    """Without dropout: y; and if `scored`, the scores of the targets, and this thread's part of log Z."""
    pass_forward(weights, states, own, text, batch, steps, size, 0, bias, thread, threads, counter)
    meet(counter, threads)
    log_normalisers(
        states.y, batch * steps if scored else 0, weights.output, offsets, text.targets, own.blocks[thread],
        own.blocks[thread + 1] if scored else own.blocks[thread], scoring.packed[thread], scoring.scores[thread],
        scoring.highest[thread], scoring.sums[thread], scoring.target_scores,
    )  # fmt: skip
    _carry(states, batch * steps, batch, thread, threads)
    meet(counter, threads)


@outlined
def _go_there(training, text, numbers, rows, thread, threads, counter):
    """This thread's part of the loss, and of the squares of gradients of the output table."""
    _find_rows(training, text, numbers, rows, thread, threads, counter)
    pass_forward(
        training.weights, training.states, training.own, text, numbers.batch, numbers.steps, numbers.size,
        numbers.dropped, numbers.bias, thread, threads, counter,
    )  # fmt: skip
    if numbers.mode == SOFTMAX:
        return _softmax_loss(training, text, numbers, rows, thread, threads, counter)
    return _sampled_loss(training, text, numbers, rows, thread, threads, counter)


@outlined
def _norm(squares, total, thread, threads, counter):
    """Of the whole gradient, from each thread's sum of squares."""
    squares[thread, 0] = total
    meet(counter, threads)
    return math.sqrt(squares[:, 0].sum())


@outlined
def _share(total, thread, threads):
    return total * thread // threads, total * (thread + 1) // threads


# --- which rows of the tables are touched ---------------------------------------------------------------


@outlined
def _find_rows(training, text, numbers, rows, thread, threads, counter):
    """Draw noise words, find the rows that belong to this thread, and let them catch up with what they have missed."""
    inputs, outputs, sampling = training.inputs, training.outputs, training.sampling
    first, last = _share(rows, thread, threads)
    k = numbers.k
    places = 0
    if numbers.mode == TOKEN:
        words = sampling.words.reshape(-1, k + 1)
        draw_noise(sampling.table, text.noise_key, text.noise_positions, words, k, first, last)
        for row in range(first, last):
            words[row, k] = text.targets[row]
        places = rows * (k + 1)
    elif numbers.mode == SHARED:
        groups, parts = -(-rows // numbers.group_rows), training.parts.size - 1
        places = parts * groups * k + rows
        if thread == 0:
            noise = sampling.words[: groups * k].reshape(groups, k)
            draw_noise(sampling.table, text.noise_key, text.noise_positions, noise, k, 0, groups)
            _list_places(
                text.targets, sampling.words, outputs, groups * k, parts, rows, training.states.y.shape[0],
                inputs.part_of,
            )  # fmt: skip
    _group(text.ids[:rows], inputs, training.parts, thread, threads)
    meet(counter, threads)
    if numbers.mode != SOFTMAX:
        _group(sampling.words[:places], outputs, training.parts, thread, threads)
    if numbers.exact:
        _catch_up(training, inputs, 0, training.weights.embedding, training.means.embedding,
                  training.squares.embedding, numbers, thread)  # fmt: skip
        if numbers.mode != SOFTMAX:
            _catch_up(training, outputs, 1, training.weights.output, training.means.output,
                      training.squares.output, numbers, thread)  # fmt: skip
        meet(counter, threads)


@outlined
def _list_places(targets, words, outputs, noise_words, parts, rows, room, part_of):
    """The noise words, once for each part, and behind them the targets; noise rows have gradients of their own, which
    lie behind the rows of y. part_of: the part of each row."""
    for part in range(parts):
        for i in range(noise_words):
            place = part * noise_words + i
            words[place] = words[i]
            outputs.factors[place] = 1
            outputs.source_of[place] = room + place
            outputs.part_of[place] = part
    for row in range(rows):
        place = parts * noise_words + row
        words[place] = targets[row]
        outputs.source_of[place] = row
        outputs.part_of[place] = part_of[row]


@outlined
def _group(words, touched, parts, thread, threads):
    group(
        words, touched.part_of, parts.size - 1, touched.slot_of, touched.distinct[thread], touched.ends[thread],
        touched.order[thread], touched.found[thread], thread, threads,
    )  # fmt: skip


@outlined
def _gather(touched, source, parts, room, thread):
    return gather(
        touched.found[thread, 0], parts.size - 1, touched.ends[thread], touched.order[thread], touched.factors, source,
        touched.source_of, touched.gradients[thread], room[thread],
    )  # fmt: skip


@outlined
def _catch_up(training, touched, table, parameters, means, squares, numbers, thread):
    catch_up(
        parameters, means, squares, training.moved[table], touched.distinct[thread], touched.found[thread, 0],
        numbers.step, numbers.rate, numbers.epsilon,
    )  # fmt: skip


# --- there ----------------------------------------------------------------------------------------------


@outlined
def pass_forward(weights, states, own, text, batch, steps, size, dropped, bias, thread, threads, counter):
    """From words to y. size: of a word's vector."""
    layers, units = states.x.shape[0], weights.u.shape[2]
    first, last = _share(batch * steps, thread, threads)
    _begin(states, text.keep, batch, thread, threads)
    look_up(weights.embedding, text.ids, states.x[0], first, last)
    if dropped:
        drop(states.x[0], states.x[0], size, text.positions, text.keys[0], dropped, first, last)
    meet(counter, threads)
    for layer in range(layers):
        lstm.forward(
            states.x[layer], units if layer else size, weights.w[layer], weights.u[layer], weights.b[layer],
            states.z[layer], states.h[layer], states.c[layer], states.out[layer], text.keep, batch, steps,
            own.panels[thread], own.panels[thread + 1], counter, threads,
        )  # fmt: skip
        target = states.x[layer + 1] if layer + 1 < layers else states.y
        drop(states.out[layer], target, units, text.positions, text.keys[layer + 1], dropped, first, last)
        if layer + 1 < layers:
            meet(counter, threads)
    for row in range(first, last):
        states.y[row, units] = bias


@outlined
def _begin(states, keep, batch, thread, threads):
    """Forget the state of rows that begin with none."""
    first, last = _share(batch, thread, threads)
    for row in range(first, last):
        if keep[row] == 0:
            for layer in range(states.h.shape[0]):
                states.h[layer, row, :] = 0
                states.c[layer, row, :] = 0


@outlined
def _carry(states, rows, batch, thread, threads):
    """The state at the end is that at the beginning of the next minibatch."""
    first, last = _share(batch, thread, threads)
    for layer in range(states.h.shape[0]):
        for row in range(first, last):
            for unit in range(states.h.shape[2]):
                states.h[layer, row, unit] = states.h[layer, rows + row, unit]
                states.c[layer, row, unit] = states.c[layer, rows + row, unit]


# --- the loss, with the gradients of y and of the output table --------------------------------------------


@outlined
def _sampled_loss(training, text, numbers, rows, thread, threads, counter):
    """This thread's part of the loss, and the sum of the squares of its gradients of the output table."""
    sampling, outputs, y, d_y = training.sampling, training.outputs, training.states.y, training.way.d_y
    output, k, parts = training.weights.output, numbers.k, training.parts
    first, last = _share(rows, thread, threads)
    if numbers.mode == TOKEN:
        loss = token_loss(
            y, output, sampling.offsets, sampling.words.reshape(-1, k + 1), numbers.scale,
            outputs.factors.reshape(-1, k + 1), d_y, first, last,
        )  # fmt: skip
    else:
        noise_words = -(-rows // numbers.group_rows) * k
        noise = sampling.words[:noise_words].reshape(-1, k)
        first_noise, last_noise = _share(noise_words, thread, threads)
        pack_noise(output, noise, sampling.noise_rows, sampling.packed, first_noise, last_noise)
        meet(counter, threads)
        loss = shared_loss(
            y, output, sampling.offsets, text.targets, noise, sampling.noise_rows, sampling.packed, numbers.scale,
            sampling.scores, outputs.factors[(parts.size - 1) * noise_words :], d_y, numbers.group_rows, first, last,
        )  # fmt: skip
        meet(counter, threads)
        column, last_column = _share(y.shape[1] // LANES, thread, threads)
        d_noise = sampling.source[y.shape[0] :]
        shared_gradients(
            y, sampling.scores, k, numbers.group_rows, rows, parts, d_noise, column, last_column,
            training.room[thread].reshape(-1),
        )  # fmt: skip
    meet(counter, threads)
    return loss, _gather(outputs, sampling.source, parts, training.room, thread)


@outlined
def _softmax_loss(training, text, numbers, rows, thread, threads, counter):
    """The same over all words; some rows at a time, as many as there is room for scores."""
    sampling, scoring, y = training.sampling, training.scoring, training.states.y
    output, d_output = training.weights.output, training.gradients.output
    block, last_block = training.own.blocks[thread], training.own.blocks[thread + 1]
    loss = 0.0
    meet(counter, threads)
    at_once = sampling.all_scores.shape[1]
    for row in range(0, rows, at_once):
        count = min(at_once, rows - row)
        softmax_scores(
            y, row, count, output, sampling.offsets, text.targets, block, last_block, scoring.packed[thread],
            sampling.all_scores, sampling.tops, scoring.highest[thread], scoring.sums[thread], scoring.target_scores,
        )  # fmt: skip
        meet(counter, threads)
        loss += softmax_gradients(
            y, row, count, training.parts if count == rows else np.array([0, count]), output, text.targets, block,
            last_block, numbers.scale, sampling.all_scores, sampling.tops, scoring.highest, scoring.sums,
            scoring.target_scores, d_output, sampling.parts[thread], training.room[thread].reshape(-1),
        )  # fmt: skip
        meet(counter, threads)
        first, last = _share(count, thread, threads)
        add_parts(sampling.parts, training.way.d_y, row, first, last)
        meet(counter, threads)
    return loss, _squares_of_output(training, thread)


@outlined
def _squares_of_output(training, thread):
    blocks, gradients = training.own.blocks, training.gradients.output
    total = 0.0
    for word in range(blocks[thread] * BLOCK, min(blocks[thread + 1] * BLOCK, gradients.shape[0])):
        total += sum_of_squares(gradients, word)
    return total


# --- and back -------------------------------------------------------------------------------------------


@outlined
def _pass_back(training, text, numbers, rows, thread, threads, counter):
    """From the gradient of y to those of the layers and of the embedding; returns the sum of their squares."""
    weights, gradients, states, way = training.weights, training.gradients, training.states, training.way
    own, back, dropped = training.own, training.back, numbers.dropped
    panel, last_panel = own.panels[thread], own.panels[thread + 1]
    layers, units = weights.w.shape[0], weights.u.shape[2]
    first, last = _share(rows, thread, threads)
    total = 0.0
    drop(way.d_y, way.d_out, units, text.positions, text.keys[layers], dropped, first, last)
    meet(counter, threads)
    for layer in range(layers - 1, -1, -1):
        d_out = way.d_out if layer == layers - 1 else way.d_x[layer + 1]
        inputs = units if layer else numbers.size
        lstm.backward(
            states.z[layer], states.c[layer], d_out, back.u[layer], own.back[thread], way.d_later[thread],
            way.d_c[thread], text.keep, numbers.batch, numbers.steps, panel, last_panel, counter, threads,
        )  # fmt: skip
        total += lstm.weight_gradients(
            states.x[layer], inputs, states.h[layer], states.z[layer], gradients.w[layer], gradients.u[layer],
            gradients.b[layer], training.parts, numbers.steps, panel, last_panel, training.room[thread].reshape(-1),
        )  # fmt: skip
        lstm.input_gradients(states.z[layer], back.w[layer], way.d_x[layer], inputs, first, last)
        if dropped:
            drop(way.d_x[layer], way.d_x[layer], inputs, text.positions, text.keys[layer], dropped, first, last)
        meet(counter, threads)
    return total + _gather(training.inputs, way.d_x[0], training.parts, training.room, thread)


@outlined
def _squares_of_layers(training, thread):
    gradients, first, last = training.gradients, training.own.panels[thread], training.own.panels[thread + 1]
    total = 0.0
    for layer in range(gradients.w.shape[0]):
        w, u, b = gradients.w[layer], gradients.u[layer], gradients.b[layer]
        for panel in range(first, last):
            total += sum_of_squares(w.reshape(w.shape[0], -1), panel)
            total += sum_of_squares(u.reshape(u.shape[0], -1), panel)
            total += sum_of_squares(b, panel)
    return total
