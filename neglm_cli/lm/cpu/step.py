"""The phases of a training step: `forward`, `backward` and the parts of `optimizer_step`. The losses are in `losses`.

All threads of a team run each phase concurrently. Each works on the rows of the batch, units of the layers and words of
the vocabulary that it owns. The only synchronization is a barrier before a thread uses another thread's results.
"""

import math

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import kernel, outlined
from neglm_cli.lm.cpu.functions import sum_of_squares
from neglm_cli.lm.cpu.gemm import Reduction
from neglm_cli.lm.cpu.lstm import (
    Dims,
    LayerActivations,
    LayerWeights,
    RecurrentDropout,
    add_panel_squares,
    drop_recurrent,
    input_gradients,
    lstm_backward,
    lstm_forward,
    transpose,
    weight_gradients,
)
from neglm_cli.lm.cpu.optimizer import Moments, make_update, update_range
from neglm_cli.lm.cpu.softmax import BLOCK, log_normalizers
from neglm_cli.lm.cpu.tables import Dropout, dropout, lookup
from neglm_cli.lm.cpu.threads import rows_of

# --- forward --------------------------------------------------------------------------------------------


@kernel
def forward(weights, activations, batch, config, worker):
    """Compute y from the words of a minibatch: embedding and LSTM layers, with dropout in between."""
    x, gates, h, c, out, y = activations
    layers, units = x.shape[0], weights.w_hh.shape[2]
    first, last = rows_of(config.batch * config.steps, worker)
    reset_states(activations, batch.state_mask, config.batch, worker)
    lookup(weights.embedding, batch, x[0], config.embedding, first, last)
    if config.dropout_threshold:
        dropout(x[0], x[0], config.embedding, _masks(batch, config, 0), first, last)
    barrier_wait(worker)
    for layer in range(layers):
        lstm_forward(
            LayerWeights(weights.w_ih[layer], weights.w_hh[layer], weights.bias[layer]),
            LayerActivations(x[layer], gates[layer], h[layer], c[layer], out[layer]), batch.state_mask,
            Dims(units if layer else config.embedding, config.batch, config.steps), worker.panels, worker,
        )  # fmt: skip
        target = x[layer + 1] if layer + 1 < layers else y
        dropout(out[layer], target, units, _masks(batch, config, layer + 1), first, last)
        if layer + 1 < layers:
            barrier_wait(worker)
    for row in range(first, last):
        y[row, units] = config.bias


@outlined
def _masks(batch, config, layer):
    """Return the dropout masks of a layer's input; after the last layer, of the output."""
    return Dropout(batch.dropout_positions, batch.dropout_keys[layer], config.dropout_threshold)


@outlined
def reset_states(activations, state_mask, batch, worker):
    """Zero the states of rows that start anew."""
    first, last = rows_of(batch, worker)
    for row in range(first, last):
        if state_mask[row] == 0:
            for layer in range(activations.h.shape[0]):
                activations.h[layer, row, :] = 0
                activations.c[layer, row, :] = 0


@kernel
def carry_states(activations, rows, batch, worker):
    """Copy the last states to the start of the next minibatch. rows: B·T of this one."""
    h, c = activations.h, activations.c
    first, last = rows_of(batch, worker)
    for layer in range(h.shape[0]):
        for row in range(first, last):
            for unit in range(h.shape[2]):
                h[layer, row, unit] = h[layer, rows + row, unit]
                c[layer, row, unit] = c[layer, rows + row, unit]
    barrier_wait(worker)


@kernel
def score(layer, targets, rows, buffers, worker):
    """Compute the scores of targets and the thread's part of log Z, for the first `rows` rows of y."""
    barrier_wait(worker)
    log_normalizers(layer, targets, rows, worker.blocks, buffers)


# --- backward -------------------------------------------------------------------------------------------


@kernel
def backward(transposed, gradients, activations, buffers, batch, config, reduction, worker):
    """Compute the gradients of the layers' weights and inputs from the gradient of y. Return the sum of squares of the
    thread's weight gradients."""
    x, gates, h, c, out, _ = activations
    layers, units = x.shape[0], gradients.w_hh.shape[2]
    first, last = rows_of(config.batch * config.steps, worker)
    scratch = (buffers.d_h[worker.thread], buffers.d_c[worker.thread])
    squares = 0.0
    dropout(buffers.d_y, buffers.d_out, units, _masks(batch, config, layers), first, last)
    barrier_wait(worker)
    for layer in range(layers - 1, -1, -1):
        d_out = buffers.d_out if layer == layers - 1 else buffers.d_x[layer + 1]
        dims = Dims(units if layer else config.embedding, config.batch, config.steps)
        layer_activations = LayerActivations(x[layer], gates[layer], h[layer], c[layer], out[layer])
        lstm_backward(
            layer_activations, d_out, transposed.w_hh[layer], scratch, batch.state_mask, dims, worker.panels, worker
        )
        of_layer = LayerWeights(gradients.w_ih[layer], gradients.w_hh[layer], gradients.bias[layer])
        flat = Reduction(reduction.parts, reduction.scratch.reshape(-1))
        weight_gradients(layer_activations, of_layer, flat, buffers.ones, dims, worker.panels)
        if config.recurrent_threshold:
            masks = RecurrentDropout(batch.recurrent_keys[layer], config.recurrent_threshold)
            drop_recurrent(of_layer.w_hh, of_layer.w_hh, masks, worker.panels)
        squares += add_panel_squares(0.0, of_layer, worker.panels)
        d_x = buffers.d_x[layer]
        input_gradients(gates[layer], transposed.w_ih[layer], d_x, dims.inputs, first, last)
        if config.dropout_threshold:
            dropout(d_x, d_x, dims.inputs, _masks(batch, config, layer), first, last)
        barrier_wait(worker)
    return squares


# --- optimizer_step -------------------------------------------------------------------------------------


@kernel
def gradient_norm(squares, sums, worker):
    """Compute the global gradient norm from each thread's sum of squares. sums: float64 (threads, 8)."""
    sums[worker.thread, 0] = squares
    barrier_wait(worker)
    return math.sqrt(sums[:, 0].sum())


@kernel
def sum_of_layer_squares(gradients, worker):
    """Return the sum of squares of the thread's layer gradients."""
    total = 0.0
    for layer in range(gradients.w_ih.shape[0]):
        of_layer = LayerWeights(gradients.w_ih[layer], gradients.w_hh[layer], gradients.bias[layer])
        total = add_panel_squares(total, of_layer, worker.panels)
    return total


@kernel
def sum_of_row_squares(total, gradients):
    """Add the squares of all rows to `total`."""
    for row in range(gradients.shape[0]):
        total += sum_of_squares(gradients, row)
    return total


@kernel
def sum_of_output_squares(gradients, worker):
    """Return the sum of squares of a dense gradient of the output table, over the thread's words."""
    first, last = _words_of(gradients, worker)
    total = 0.0
    for word in range(first, last):
        total += sum_of_squares(gradients, word)
    return total


@outlined
def _words_of(table, worker):
    return worker.blocks.first * BLOCK, min(worker.blocks.last * BLOCK, table.shape[0])


@kernel
def update_layers(weights, gradients, state, transposed, config, norm, worker):
    """Update the weights of the thread's units, and their transposed copies."""
    exp_avg, exp_avg_sq = state.exp_avg, state.exp_avg_sq
    first, last = worker.panels.first, worker.panels.last
    update = make_update(config.optimizer, config.step, config.rate, config.clip, norm, config.decay)
    panels = weights.bias.shape[1]
    for layer in range(weights.w_ih.shape[0]):
        update_range(
            Moments(
                weights.w_ih[layer].reshape(panels, -1), exp_avg.w_ih[layer].reshape(panels, -1),
                exp_avg_sq.w_ih[layer].reshape(panels, -1),
            ),
            gradients.w_ih[layer].reshape(panels, -1), first, last, update,
        )  # fmt: skip
        update_range(
            Moments(
                weights.w_hh[layer].reshape(panels, -1), exp_avg.w_hh[layer].reshape(panels, -1),
                exp_avg_sq.w_hh[layer].reshape(panels, -1),
            ),
            gradients.w_hh[layer].reshape(panels, -1), first, last, update,
        )  # fmt: skip
        update_range(
            Moments(weights.bias[layer], exp_avg.bias[layer], exp_avg_sq.bias[layer]), gradients.bias[layer], first,
            last, update,
        )  # fmt: skip
    _transpose_layers(weights, transposed, first, last)


@kernel
def drop_recurrent_weights(weights, dropped, transposed, batch, config, worker):
    """Write the thread's recurrent weights with recurrent dropout to `dropped`, and their transposed copies.

    dropped: (L, P, H, PANEL).
    """
    first, last = worker.panels.first, worker.panels.last
    for layer in range(dropped.shape[0]):
        masks = RecurrentDropout(batch.recurrent_keys[layer], config.recurrent_threshold)
        drop_recurrent(weights.w_hh[layer], dropped[layer], masks, worker.panels)
        transpose(dropped[layer], transposed.w_hh[layer], transposed.w_hh_starts, transposed.w_hh_ends, first, last)


@kernel
def drop_recurrent_gradients(gradients, batch, config, worker):
    """Apply the masks of recurrent dropout to the thread's gradients."""
    for layer in range(gradients.w_hh.shape[0]):
        masks = RecurrentDropout(batch.recurrent_keys[layer], config.recurrent_threshold)
        drop_recurrent(gradients.w_hh[layer], gradients.w_hh[layer], masks, worker.panels)


@kernel
def transpose_layers(weights, transposed, worker):
    """Update the transposed copies of the thread's weights."""
    _transpose_layers(weights, transposed, worker.panels.first, worker.panels.last)


@outlined
def _transpose_layers(weights, transposed, first, last):
    for layer in range(weights.w_ih.shape[0]):
        transpose(
            weights.w_ih[layer],
            transposed.w_ih[layer],
            transposed.w_ih_starts,
            transposed.w_ih_ends[layer],
            first,
            last,
        )
        transpose(
            weights.w_hh[layer], transposed.w_hh[layer], transposed.w_hh_starts, transposed.w_hh_ends, first, last
        )


@kernel
def update_output(moments, gradients, config, norm, worker):
    """Update the rows of the thread's words with a dense gradient, that of the softmax."""
    first, last = _words_of(moments.parameter, worker)
    update = make_update(config.optimizer, config.step, config.rate, config.clip, norm, config.decay)
    update_range(moments, gradients, first, last, update)
