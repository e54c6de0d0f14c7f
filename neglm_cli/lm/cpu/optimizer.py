"""The optimizers on rows of float32: a row of a table, or a panel of weights.

    SGD       p −= rate · g
    Adagrad   v += g²                                       p −= rate · g / (√v + ε)
    Adam      m = β₁m + (1−β₁)g    v = β₂v + (1−β₂)g²       p −= rate_t · m / (√v + ε)
              rate_t = rate · √(1−β₂^t) / (1−β₁^t)

Rows of tables that a minibatch does not touch are skipped. For SGD and Adagrad this changes nothing. Adam would update
them all the same: lazy Adam leaves that out, exact Adam applies the skipped updates when a row is needed again.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import kernel, outlined
from neglm_cli.lm.optimizers import ADAGRAD, ADAM, BETA1, BETA2, EPSILON, FORGOTTEN, SGD, step_rate

ONE = np.float32(1)


class Moments(NamedTuple):
    """A parameter array, and what the optimizer keeps of its gradients; (1, 1) where it keeps nothing."""

    parameter: np.ndarray  # (rows, width)
    exp_avg: np.ndarray
    exp_avg_sq: np.ndarray


class Update(NamedTuple):
    """One step of the optimizer."""

    kind: int  # of optimizer
    step: int  # from 1 on
    rate: np.float32  # that of this step, with Adam's bias correction
    scale: np.float32  # what gradients are multiplied with: less than 1 if they are clipped


@outlined
def make_update(kind, step, rate, clip, norm):
    """The update of a step whose gradient has this norm, over all parameters."""
    return Update(kind, step, step_rate(kind, rate, step), np.float32(clip / norm if norm > clip else 1.0))


@outlined
def update_row(p, m, v, row, g, gradient_row, update):
    """Update one row of a parameter array by one row of gradients. m, v: see `Moments`."""
    rate, scale = update.rate, update.scale
    width = p.shape[1]
    if update.kind == SGD:
        step = rate * scale
        for j in range(width):
            p[row, j] -= step * g[gradient_row, j]
    elif update.kind == ADAGRAD:
        for j in range(width):
            gradient = scale * g[gradient_row, j]
            square = v[row, j] + gradient * gradient
            v[row, j] = square
            p[row, j] -= rate * gradient / (np.sqrt(square) + EPSILON)
    else:
        for j in range(width):
            gradient = scale * g[gradient_row, j]
            mean = BETA1 * m[row, j] + (ONE - BETA1) * gradient
            square = BETA2 * v[row, j] + (ONE - BETA2) * gradient * gradient
            m[row, j] = mean
            v[row, j] = square
            p[row, j] -= rate * mean / (np.sqrt(square) + EPSILON)


@kernel
def update_rows(moments, rows, gradients, last_update_step, config, norm):
    """Update rows of a table; gradients[i] is that of row rows[i]. Adam keeps the step of each row's last update."""
    update = make_update(config.optimizer, config.step, config.rate, config.clip, norm)
    p, m, v = moments
    for i in range(rows.size):
        update_row(p, m, v, rows[i], gradients, i, update)
        if update.kind == ADAM:
            last_update_step[rows[i]] = update.step


@outlined
def update_range(moments, gradients, first, last, update):
    """Update rows `first` to `last`; gradients[i] is that of row i."""
    p, m, v = moments
    for i in range(first, last):
        update_row(p, m, v, i, gradients, i, update)


@kernel
def flush_lazy_updates(moments, last_update_step, rows, step, rate):
    """Apply the updates of Adam that rows have skipped before `step`: their gradients were zero, their means were not.

    rate: the learning rate, the same at all these steps.
    """
    p, m, v = moments
    for row in rows:
        last = last_update_step[row]
        skipped = step - 1 - last
        if last == 0 or skipped == 0:  # never updated yet: its means are zero
            continue
        for s in range(last + 1, last + 1 + min(skipped, FORGOTTEN)):
            rate_s = step_rate(ADAM, rate, s)
            for j in range(p.shape[1]):
                m[row, j] *= BETA1
                v[row, j] *= BETA2
                p[row, j] -= rate_s * m[row, j] / (np.sqrt(v[row, j]) + EPSILON)
        if skipped > FORGOTTEN:
            for j in range(p.shape[1]):
                m[row, j] *= BETA1 ** np.float32(skipped - FORGOTTEN)
                v[row, j] *= BETA2 ** np.float32(skipped - FORGOTTEN)
        last_update_step[row] = step - 1
