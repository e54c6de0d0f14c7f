"""The optimisers, a row at a time: a row of a table, or a panel of weights.

    SGD       p −= rate · g
    Adagrad   v += g²                                       p −= rate · g / (√v + ε)
    Adam      m = β₁m + (1−β₁)g    v = β₂v + (1−β₂)g²       p −= rate_t · m / (√v + ε)
              rate_t = rate · √(1−β₂^t) / (1−β₁^t)

Rows of tables that a minibatch does not touch are not looked at. For SGD and Adagrad this changes nothing. Adam would
move them all the same: `lazy` leaves that out, `exact` makes up for it when a row is needed again.
"""

import numpy as np

from neglm_cli.kernels import kernel, outlined
from neglm_cli.lm.optimisers import ADAGRAD, ADAM, BETA1, BETA2, FORGOTTEN, SGD, rate_of

ONE = np.float32(1)


@outlined
def _move(kind, p, row, g, g_row, m, v, scale, rate, epsilon):
    width = p.shape[1]
    if kind == SGD:
        step = rate * scale
        for j in range(width):
            p[row, j] -= step * g[g_row, j]
    elif kind == ADAGRAD:
        for j in range(width):
            gradient = scale * g[g_row, j]
            square = v[row, j] + gradient * gradient
            v[row, j] = square
            p[row, j] -= rate * gradient / (np.sqrt(square) + epsilon)
    else:
        for j in range(width):
            gradient = scale * g[g_row, j]
            mean = BETA1 * m[row, j] + (ONE - BETA1) * gradient
            square = BETA2 * v[row, j] + (ONE - BETA2) * gradient * gradient
            m[row, j] = mean
            v[row, j] = square
            p[row, j] -= rate * mean / (np.sqrt(square) + epsilon)


@kernel
def move_rows(kind, p, rows, count, g, m, v, moved, step, scale, rate, epsilon):
    """Rows of a table; g[i] is the gradient of row rows[i]. Adam remembers at which step they were moved."""
    for i in range(count):
        _move(kind, p, rows[i], g, i, m, v, scale, rate, epsilon)
        if kind == ADAM:
            moved[rows[i]] = step


@kernel
def move_panels(kind, p, g, m, v, scale, rate, epsilon, first, last):
    """Rows `first` to `last`; g[i] is the gradient of row i."""
    for i in range(first, last):
        _move(kind, p, i, g, i, m, v, scale, rate, epsilon)


@kernel
def catch_up(p, m, v, moved, rows, count, step, rate, epsilon):
    """The steps of Adam that rows have missed, before `step`: gradients were zero, but means were not.

    moved[row]: the last step at which the row was moved. rate: the learning rate, the same at all these steps.
    """
    for i in range(count):
        row = rows[i]
        missed = step - 1 - moved[row]
        if moved[row] == 0 or missed == 0:  # never moved yet: its means are zero
            continue
        for s in range(moved[row] + 1, moved[row] + 1 + min(missed, FORGOTTEN)):
            rate_s = rate_of(ADAM, rate, s)
            for j in range(p.shape[1]):
                m[row, j] *= BETA1
                v[row, j] *= BETA2
                p[row, j] -= rate_s * m[row, j] / (np.sqrt(v[row, j]) + epsilon)
        if missed > FORGOTTEN:
            for j in range(p.shape[1]):
                m[row, j] *= BETA1 ** np.float32(missed - FORGOTTEN)
                v[row, j] *= BETA2 ** np.float32(missed - FORGOTTEN)
        moved[row] = step - 1
