"""The optimizers of `lm.optimizers` on rows of float32: a row of a table, or a panel of weights.

Rows of tables that a minibatch does not touch are skipped. For SGD and Adagrad this changes nothing. Adam updates rows
without a gradient, too: lazy Adam omits these updates, exact Adam applies them on next access. So does anchored SGD.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import kernel, outlined, unchecked
from neglm_cli.lm.optimizers import (
    ADAGRAD,
    ADAM,
    ANCHORED,
    MAX_LAZY_STEPS,
    SGD,
    adagrad,
    adam,
    adam_without_gradient,
    anchored,
    anchored_without_gradient,
    clip_scale,
    decay_moments,
    kept_distance,
    sgd,
    shrink,
    step_rate,
)


class Moments(NamedTuple):
    """A parameter array, and running averages of its gradients; (1, 1) if the optimizer has none."""

    parameter: np.ndarray  # (rows, width)
    exp_avg: np.ndarray
    exp_avg_sq: np.ndarray


class Update(NamedTuple):
    """One step of the optimizer."""

    kind: int  # of optimizer
    step: int  # from 1 on
    rate: np.float32  # see `step_rate`
    scale: np.float32  # factor of gradients: less than 1 if they are clipped
    decay: np.float32 = np.float32(0)  # see `Minibatch.decay`


@outlined
def make_update(kind, step, rate, clip, norm, decay=0.0):
    """Make the update of a step. norm: of the gradient, over all parameters."""
    return Update(kind, step, step_rate(kind, rate, step), np.float32(clip_scale(clip, norm)), np.float32(decay))


@unchecked
def update_row(p, m, v, row, g, gradient_row, update):
    """Update one row of a parameter array by one row of gradients. m, v: see `Moments`."""
    rate, scale, decay = update.rate, update.scale, update.decay
    width = p.shape[1]
    if update.kind == SGD:
        step = rate * scale
        for j in range(width):
            p[row, j] = sgd(shrink(p[row, j], decay), g[gradient_row, j], step)
    elif update.kind == ADAGRAD:
        for j in range(width):
            gradient = scale * g[gradient_row, j]
            p[row, j], v[row, j] = adagrad(shrink(p[row, j], decay), v[row, j], gradient, rate)
    elif update.kind == ANCHORED:
        step = rate * scale
        for j in range(width):
            p[row, j] = anchored(p[row, j], m[row, j], g[gradient_row, j], step, decay)
    else:
        for j in range(width):
            gradient = scale * g[gradient_row, j]
            p[row, j], m[row, j], v[row, j] = adam(shrink(p[row, j], decay), m[row, j], v[row, j], gradient, rate)


@kernel
def update_rows(moments, rows, gradients, last_update_step, config, norm):
    """Update rows of a table; gradients[i] is that of row rows[i]. Adam and anchored SGD keep the step of each row's
    last update."""
    update = make_update(config.optimizer, config.step, config.rate, config.clip, norm, config.decay)
    p, m, v = moments
    for i in range(rows.size):
        update_row(p, m, v, rows[i], gradients, i, update)
        if update.kind == ADAM or update.kind == ANCHORED:
            last_update_step[rows[i]] = update.step


@outlined
def update_range(moments, gradients, first, last, update):
    """Update rows `first` to `last`; gradients[i] is that of row i."""
    p, m, v = moments
    for i in range(first, last):
        update_row(p, m, v, i, gradients, i, update)


@unchecked
def _update_row_without_gradient(p, m, v, row, rate):
    for j in range(p.shape[1]):
        p[row, j], m[row, j], v[row, j] = adam_without_gradient(p[row, j], m[row, j], v[row, j], rate)


@kernel
def flush_lazy_updates(moments, last_update_step, rows, step, rate):
    """Apply the updates of Adam that rows skipped before `step`, when they had no gradients.

    rate: the learning rate, the same at all these steps.
    """
    p, m, v = moments
    for row in rows:
        last = last_update_step[row]
        skipped = step - 1 - last
        if last == 0 or skipped == 0:  # never updated yet: m is zero
            continue
        for s in range(last + 1, last + 1 + min(skipped, MAX_LAZY_STEPS)):
            rate_s = step_rate(ADAM, rate, s)
            _update_row_without_gradient(p, m, v, row, rate_s)
        if skipped > MAX_LAZY_STEPS:
            for j in range(p.shape[1]):
                m[row, j], v[row, j] = decay_moments(m[row, j], v[row, j], skipped - MAX_LAZY_STEPS)
        last_update_step[row] = step - 1


@kernel
def flush_decay(moments, last_update_step, rows, step, decay):
    """Apply the decay of anchored SGD that rows skipped before `step`, the same at all these steps."""
    p, anchor, _ = moments
    for row in rows:
        last = last_update_step[row]
        skipped = step - 1 - last
        if last == 0 or skipped == 0 or decay == 0:  # never updated yet: p is its anchor
            continue
        kept = kept_distance(decay, skipped)
        for j in range(p.shape[1]):
            p[row, j] = anchored_without_gradient(p[row, j], anchor[row, j], kept)
        last_update_step[row] = step - 1
