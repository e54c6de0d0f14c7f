"""One LSTM layer over T time steps of B rows, forward and backward.

Threads own hidden units: all gates of a unit, with their weights and gradients, belong to one thread, whose share of
the recurrent weights stays in its cache. Threads synchronize once per time step, because a step needs the whole state.

Row t·B + b of an array is time step t of batch row b; there are N = B·T rows. Gates and weights are stored in P panels
of four gates of UNITS units each: [i | f | g | o].
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import outlined
from neglm_cli.lm.cpu.cell import UNITS, cell_backward, cell_forward
from neglm_cli.lm.cpu.functions import sum_of_squares
from neglm_cli.lm.cpu.gemm import PANEL, Columns, Extent, Panels, Rows, matmul, matmul_transposed
from neglm_cli.lm.scalar import SIXTEEN, SIXTEEN_BITS, dropout_scale
from neglm_cli.objective.random import draw
from neglm_cli.simd import LANES


class LayerWeights(NamedTuple):
    """Parameters of a layer, or their gradients."""

    w_ih: np.ndarray  # (P, I, PANEL): input weights; I may exceed the layer's inputs
    w_hh: np.ndarray  # (P, H, PANEL): recurrent weights
    bias: np.ndarray  # (P, PANEL)


class LayerActivations(NamedTuple):
    """Activations of a layer, saved for the backward pass."""

    x: np.ndarray  # (N, ·): the layer's input
    gates: np.ndarray  # (P, N, PANEL): gates; after the backward pass, gradients of their pre-activations
    h: np.ndarray  # (N + B, ·): the hidden state before each time step, and the last
    c: np.ndarray  # (N + B, ·): the cell state, likewise
    out: np.ndarray  # (N, ·): the layer's output


class Dims(NamedTuple):
    """Sizes of a layer's minibatch."""

    inputs: int  # columns of x
    batch: int
    steps: int


class RecurrentDropout(NamedTuple):
    """Masks of a layer's recurrent weights."""

    key: np.uint64
    threshold: int  # see `Settings.recurrent_dropout_threshold`


@outlined
def drop_recurrent(source, target, masks, share):
    """Zero some of the thread's recurrent weights and scale the others up: see `scalar.recurrent_mask`.

    source, target: (P, H, PANEL), weights or their gradients.
    """
    scale, threshold = dropout_scale(masks.threshold), np.uint64(masks.threshold)
    for row in range(source.shape[1]):
        for gate in range(PANEL // UNITS):
            row_key = draw(masks.key, np.uint64(4 * row + gate))
            for panel in range(share.first, share.last):
                for group in range(UNITS // 4):
                    bits = draw(row_key, np.uint64(panel * UNITS // 4 + group))
                    first = gate * UNITS + 4 * group
                    for column in range(first, first + 4):
                        kept = (bits & SIXTEEN_BITS) >= threshold
                        target[panel, row, column] = source[panel, row, column] * (scale if kept else np.float32(0))
                        bits >>= SIXTEEN


@outlined
def lstm_forward(weights, activations, state_mask, dims, share, worker):
    """Compute the gates, states and outputs of the thread's units.

    state_mask (N + B,): 0 where a time step starts from a zero state, else 1.
    """
    project_inputs(weights, activations.x, activations.gates, dims.batch * dims.steps, dims.inputs, share)
    recur(weights.w_hh, activations, state_mask, dims, share, worker)


@outlined
def project_inputs(weights, x, gates, rows, inputs, share):
    """Compute the part of the pre-activations that needs no state, x·w_ih + bias, for the first `rows` rows."""
    w_ih, bias = weights.w_ih, weights.bias
    first, last = share.first, share.last
    panel_stride = gates.shape[1] * PANEL
    for panel in range(first, last):
        for row in range(rows):
            for column in range(PANEL):
                gates[panel, row, column] = bias[panel, column]
    matmul(
        Rows(x.reshape(-1), 0, x.shape[1], 0),
        Panels(w_ih.reshape(-1), first * w_ih.shape[1] * PANEL, PANEL, w_ih.shape[1] * PANEL),
        Panels(gates.reshape(-1), first * panel_stride, PANEL, panel_stride),
        Extent(rows, inputs, 1, last - first, False), True,
    )  # fmt: skip


@outlined
def recur(w_hh, activations, state_mask, dims, share, worker):
    """Complete the gates, time step by time step, and compute states and outputs."""
    _, gates, h, c, out = activations
    _, batch, steps = dims
    first, last = share.first, share.last
    panel_stride, units = gates.shape[1] * PANEL, w_hh.shape[1]
    z = gates.reshape(-1)
    for step in range(steps):
        row = step * batch
        matmul(
            Rows(h.reshape(-1), row * h.shape[1], h.shape[1], 0),
            Panels(w_hh.reshape(-1), first * units * PANEL, PANEL, units * PANEL),
            Panels(z, first * panel_stride + row * PANEL, PANEL, panel_stride),
            Extent(batch, units, 1, last - first, False), True,
        )  # fmt: skip
        for panel in range(first, last):
            for i in range(row, row + batch):
                before = i * h.shape[1] + panel * UNITS
                after = before + batch * h.shape[1]
                at = (panel * panel_stride + i * PANEL, before, after, after, i * out.shape[1] + panel * UNITS)
                cell_forward(gates, c, h, out, at, state_mask[i + batch])
        barrier_wait(worker)


@outlined
def lstm_backward(activations, d_out, w_hh_transposed, scratch, state_mask, dims, share, worker):
    """Replace the gates of the thread's units by gradients of their pre-activations.

    d_out (N, ·): gradient of the layer's output. w_hh_transposed: (·, P·PANEL, PANEL). scratch: the thread's d_h and
    d_c, (B, ·) each, with a column for each of its units.
    """
    gates, c = activations.gates, activations.c
    d_h, d_c = scratch
    batch, steps = dims.batch, dims.steps
    panel_stride, columns = gates.shape[1] * PANEL, d_h.shape[1]
    vectors = -(-(share.last - share.first) * UNITS // LANES)
    stride = w_hh_transposed.shape[1] * PANEL
    d_c[:] = 0
    d_h[:] = 0
    for step in range(steps - 1, -1, -1):
        row = step * batch
        if step < steps - 1:
            matmul(
                Rows(gates.reshape(-1), (row + batch) * PANEL, PANEL, panel_stride),
                Panels(w_hh_transposed.reshape(-1), share.first_transposed * stride, PANEL, stride),
                Panels(d_h.reshape(-1), 0, columns, PANEL),
                Extent(batch, PANEL, gates.shape[0], (vectors + 1) // 2, vectors % 2 == 1), False,
            )  # fmt: skip
        for panel in range(share.first, share.last):
            for i in range(row, row + batch):
                local = (i - row) * columns + (panel - share.first) * UNITS
                units = panel * UNITS
                z = panel * panel_stride + i * PANEL
                at = (z, i * c.shape[1] + units, i * d_out.shape[1] + units, local, local)
                cell_backward(gates, c, d_out, d_h, d_c, at, state_mask[i + batch])
        barrier_wait(worker)


@outlined
def weight_gradients(activations, gradients, reduction, ones, dims, share):
    """Compute the gradients of the thread's weights. ones: float32 (1,), the input of biases."""
    x, gates, h, _, _ = activations
    d_w_ih, d_w_hh, d_bias = gradients
    inputs, batch, steps = dims
    panel_stride, units = gates.shape[1] * PANEL, d_w_hh.shape[1]
    own = share.last - share.first
    d_z = Panels(gates.reshape(-1), share.first * panel_stride, PANEL, panel_stride)
    stride = d_w_ih.shape[1] * PANEL
    matmul_transposed(
        Columns(x.reshape(-1), 0, x.shape[1]), d_z, Panels(d_w_ih.reshape(-1), share.first * stride, PANEL, stride),
        Extent(inputs, batch, steps, own, False), reduction, False,
    )  # fmt: skip
    stride = units * PANEL
    matmul_transposed(
        Columns(h.reshape(-1), 0, h.shape[1]), d_z, Panels(d_w_hh.reshape(-1), share.first * stride, PANEL, stride),
        Extent(units, batch, steps, own, False), reduction, False,
    )  # fmt: skip
    matmul_transposed(
        Columns(ones, 0, 0), d_z, Panels(d_bias.reshape(-1), share.first * PANEL, PANEL, PANEL),
        Extent(1, batch, steps, own, False), reduction, False,
    )  # fmt: skip


@outlined
def add_panel_squares(total, gradients, share):
    """Add the squares of a thread's gradients to a total."""
    w_ih, w_hh, bias = gradients
    for panel in range(share.first, share.last):
        total += sum_of_squares(w_ih.reshape(w_ih.shape[0], -1), panel)
        total += sum_of_squares(w_hh.reshape(w_hh.shape[0], -1), panel)
        total += sum_of_squares(bias, panel)
    return total


@outlined
def input_gradients(gates, w_ih_transposed, d_x, inputs, first_row, last_row):
    """Compute the gradient of the layer's input, for some rows. w_ih_transposed: (·, P·PANEL, PANEL)."""
    vectors = -(-inputs // LANES)
    transposed_stride = w_ih_transposed.shape[1] * PANEL
    matmul(
        Rows(gates.reshape(-1), first_row * PANEL, PANEL, gates.shape[1] * PANEL),
        Panels(w_ih_transposed.reshape(-1), 0, PANEL, transposed_stride),
        Panels(d_x.reshape(-1), first_row * d_x.shape[1], d_x.shape[1], PANEL),
        Extent(last_row - first_row, PANEL, gates.shape[0], (vectors + 1) // 2, vectors % 2 == 1), False,
    )  # fmt: skip


@outlined
def transpose(weights, transposed, starts, ends, first, last):
    """Transpose panels `first` to `last` of weights (P, I, PANEL) into panels (·, P·PANEL, PANEL), where panel i
    has rows starts[i] to ends[i] of the weights as columns."""
    for panel_out in range(transposed.shape[0]):
        start, end = starts[panel_out], ends[panel_out]
        for panel in range(first, last):
            for row in range(start, end):
                for column in range(PANEL):
                    transposed[panel_out, panel * PANEL + column, row - start] = weights[panel, row, column]
