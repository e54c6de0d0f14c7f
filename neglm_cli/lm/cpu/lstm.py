"""A layer of an LSTM over T steps of B rows, forward and backward.

Threads own hidden units: all gates of a unit, their weights and the weights' gradients belong to one thread, whose
share of the recurrent weights stays in its cache. They meet once a step, because a step needs all of the last one.

Rows are (t·B + b). Gates and weights lie in panels: a panel has the four gates of UNITS units, as [i | f | g | o].

    z   (P, N, PANEL)   gates, then their gradients; N rows at most, P panels
    w   (P, D, PANEL)   weights of the input       u (P, H, PANEL)  weights of the state      b (P, PANEL)
    x   (N, ·)          the layer's input          out (N, ·)       its output
    h, c (N + B, ·)     the state that each step begins with
    keep (N + B,)       1, or 0 where a step begins with no state
"""

import numpy as np

from neglm_cli.barrier import meet
from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu.cell import UNITS, cell_backward, cell_forward
from neglm_cli.lm.cpu.functions import sum_of_squares
from neglm_cli.lm.cpu.product import PANEL, multiply, multiply_transposed
from neglm_cli.simd import LANES


@kernel
def forward(x, inputs, w, u, b, z, h, c, out, keep, batch, steps, first, last, counter, threads):
    """The units of panels `first` to `last`. inputs: D, for w may have more rows."""
    stride, units = z.shape[1] * PANEL, u.shape[1]
    own, gates = last - first, z.reshape(-1)
    for panel in range(first, last):
        for row in range(batch * steps):
            for column in range(PANEL):
                z[panel, row, column] = b[panel, column]
    multiply(
        x.reshape(-1), 0, x.shape[1], 0, w.reshape(-1), first * w.shape[1] * PANEL, PANEL, w.shape[1] * PANEL,
        gates, first * stride, PANEL, stride, batch * steps, inputs, 1, own, False, True,
    )  # fmt: skip
    for step in range(steps):
        row = step * batch
        multiply(
            h.reshape(-1), row * h.shape[1], h.shape[1], 0, u.reshape(-1), first * units * PANEL, PANEL, units * PANEL,
            gates, first * stride + row * PANEL, PANEL, stride, batch, units, 1, own, False, True,
        )  # fmt: skip
        for panel in range(first, last):
            for i in range(row, row + batch):
                unit = i * h.shape[1] + panel * UNITS
                later = unit + batch * h.shape[1]
                cell_forward(
                    z, panel * stride + i * PANEL, c, unit, later, h, later,
                    out, i * out.shape[1] + panel * UNITS, keep[i + batch],
                )  # fmt: skip
        meet(counter, threads)


@kernel
def backward(z, c, d_out, u_back, first_back, d_later, d_c, keep, batch, steps, first, last, counter, threads):
    """Gates become their gradients. d_out (N, ·) is the gradient of the output.

    u_back (·, P·PANEL, PANEL): u, transposed; from panel first_back on it has this thread's units. d_later
    (B, ·), d_c (B, ·): of this thread, with a column for each of its units.
    """
    stride, columns = z.shape[1] * PANEL, d_later.shape[1]
    vectors = -(-(last - first) * UNITS // LANES)
    d_c[:] = 0
    d_later[:] = 0
    for step in range(steps - 1, -1, -1):
        row = step * batch
        if step < steps - 1:
            multiply(
                z.reshape(-1), (row + batch) * PANEL, PANEL, stride,
                u_back.reshape(-1), first_back * u_back.shape[1] * PANEL, PANEL, u_back.shape[1] * PANEL,
                d_later.reshape(-1), 0, columns, PANEL,
                batch, PANEL, z.shape[0], (vectors + 1) // 2, vectors % 2 == 1, False,
            )  # fmt: skip
        for panel in range(first, last):
            for i in range(row, row + batch):
                own = (i - row) * columns + (panel - first) * UNITS
                cell_backward(
                    z, panel * stride + i * PANEL, c, i * c.shape[1] + panel * UNITS,
                    d_out, i * d_out.shape[1] + panel * UNITS, d_later, own, d_c, own, keep[i + batch],
                )  # fmt: skip
        meet(counter, threads)


@kernel
def weight_gradients(x, inputs, h, z, d_w, d_u, d_b, parts, steps, first, last, room):
    """From the gradients of the gates to those of the weights of panels `first` to `last`; returns the sum of their
    squares. parts: see `batch_parts`. room: for 2·PANEL numbers of each input."""
    stride, units = z.shape[1] * PANEL, d_u.shape[1]
    own, gates, batch = last - first, z.reshape(-1), parts[-1]
    multiply_transposed(
        x.reshape(-1), 0, x.shape[1], gates, first * stride, PANEL, stride,
        d_w.reshape(-1), first * d_w.shape[1] * PANEL, PANEL, d_w.shape[1] * PANEL, inputs, parts, batch, steps, own,
        False, False, room,
    )  # fmt: skip
    multiply_transposed(
        h.reshape(-1), 0, h.shape[1], gates, first * stride, PANEL, stride,
        d_u.reshape(-1), first * units * PANEL, PANEL, units * PANEL, units, parts, batch, steps, own,
        False, False, room,
    )  # fmt: skip
    multiply_transposed(
        np.ones(1, np.float32), 0, 0, gates, first * stride, PANEL, stride,
        d_b.reshape(-1), first * PANEL, PANEL, PANEL, 1, parts, batch, steps, own, False, False, room,
    )  # fmt: skip
    squares = 0.0
    for panel in range(first, last):
        squares += sum_of_squares(d_w.reshape(d_w.shape[0], -1), panel)
        squares += sum_of_squares(d_u.reshape(d_u.shape[0], -1), panel)
        squares += sum_of_squares(d_b, panel)
    return squares


@kernel
def input_gradients(z, w_back, d_x, inputs, first_row, last_row):
    """From the gradients of the gates to that of the layer's input, for some rows. w_back (·, P·PANEL, PANEL): w,
    transposed."""
    vectors = -(-inputs // LANES)
    multiply(
        z.reshape(-1), first_row * PANEL, PANEL, z.shape[1] * PANEL,
        w_back.reshape(-1), 0, PANEL, w_back.shape[1] * PANEL,
        d_x.reshape(-1), first_row * d_x.shape[1], d_x.shape[1], PANEL,
        last_row - first_row, PANEL, z.shape[0], (vectors + 1) // 2, vectors % 2 == 1, False,
    )  # fmt: skip


@kernel
def transpose(w, w_back, starts, ends, first, last):
    """Panels `first` to `last` of weights w (P, D, PANEL) to their places in w_back (·, P·PANEL, PANEL), whose panel i
    has rows starts[i] to ends[i] of w as columns."""
    for back in range(w_back.shape[0]):
        start, end = starts[back], ends[back]
        for panel in range(first, last):
            for row in range(start, end):
                for column in range(PANEL):
                    w_back[back, panel * PANEL + column, row - start] = w[panel, row, column]
