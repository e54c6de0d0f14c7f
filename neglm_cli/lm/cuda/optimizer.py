"""The optimizers of `lm.optimizers`. The norm that gradients are clipped by stays on the GPU."""

import math
from typing import NamedTuple

import numpy as np
from numba import float64

from neglm_cli.lm.cuda.arrays import Moments, SparseGradients
from neglm_cli.lm.cuda.functions import DECAY, RATE, STEP, STEP_RATE, float_of, index, inlined
from neglm_cli.lm.cuda.gpu import Bits, Doubles, Float, Floats, Ids, Int, cuda, kernel
from neglm_cli.lm.cuda.occurrences import ROWS
from neglm_cli.lm.optimizers import (
    ADAGRAD,
    ADAM,
    ANCHORED,
    BETA1,
    BETA2,
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
)

THREADS = 256  # at most, and a power of 2
LOSS, NORM = range(2)  # of a minibatch's result
CORRECTED_STEPS = 1 << 15  # after which the bias correction is 1 in float32: 0.999^32768 = 6e-15


class Reduction(NamedTuple):
    """Buffers for the sums of a minibatch."""

    partial: Doubles  # (2·blocks,)
    ticket: Ids  # (1,): how many blocks are done; 0 between launches
    result: Doubles  # (2,): the loss, and the norm of the gradient


class Update(NamedTuple):
    """One step of the optimizer."""

    kind: Int  # of optimizer
    clip: Float
    header: Bits  # of the minibatch, with the step and its rates


@kernel(threads=THREADS)
def loss_and_gradient_norm(
    layers: Floats, sparse: SparseGradients, dense: Floats, losses: Floats, reduction: Reduction, rows: Int,
    dense_size: Int,
) -> None:  # fmt: skip
    """Sum the losses of all rows, and compute the norm of the whole gradient.

    dense: a gradient of the output table, of which the first `dense_size` values count. Blocks write partial sums; the
    last block to finish adds them up.
    """
    partial, ticket, result = reduction
    values = sparse.values
    squares = cuda.shared.array(THREADS, float64)
    totals = cuda.shared.array(THREADS, float64)
    thread, threads, block, blocks = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x, cuda.gridDim.x
    first, step = cuda.grid(1), cuda.gridsize(1)
    square = total = float64(0)
    for i in range(first, layers.size, step):
        square += layers[i] * layers[i]
    for i in range(first, dense_size, step):
        square += dense[i] * dense[i]
    for slot in range(block, sparse.counts[ROWS], blocks):
        for column in range(thread, values.shape[1], threads):
            square += values[slot, column] * values[slot, column]
    for row in range(first, rows, step):
        total += losses[row]
    squares[thread] = square
    totals[thread] = total
    cuda.syncthreads()
    width = threads // 2
    while width > 0:
        if thread < width:
            squares[thread] += squares[thread + width]
            totals[thread] += totals[thread + width]
        cuda.syncthreads()
        width //= 2
    if thread == 0:
        partial[2 * block] = squares[0]
        partial[2 * block + 1] = totals[0]
        cuda.threadfence()
        if cuda.atomic.add(ticket, 0, 1) == blocks - 1:
            cuda.threadfence()
            square = total = float64(0)
            for other in range(blocks):
                square += partial[2 * other]
                total += partial[2 * other + 1]
            result[LOSS] = total
            result[NORM] = math.sqrt(square)
            ticket[0] = 0


@inlined
def _update(moments, at, g, scale, kind, rates):
    """Update one parameter; scale: the factor that clips its gradient g; rates: of `_rates`."""
    p, m, v = moments
    rate, decay = rates
    if kind == SGD:
        p[at] = sgd(shrink(p[at], decay), g, rate * scale)
    elif kind == ADAGRAD:
        p[at], v[at] = adagrad(shrink(p[at], decay), v[at], scale * g, rate)
    elif kind == ANCHORED:
        p[at] = anchored(p[at], m[at], g, rate * scale, decay)
    else:
        p[at], m[at], v[at] = adam(shrink(p[at], decay), m[at], v[at], scale * g, rate)


@inlined
def _rates(header):
    """Return the learning rate of the step, and its decay: see `Minibatch.decay`."""
    return float_of(header[STEP_RATE]), float_of(header[DECAY])


@inlined
def _clip_scale(result, clip):
    """Return the factor that clips gradients; 0 if the norm is NaN or infinite."""
    norm = result[NORM]
    if not math.isfinite(norm):
        return np.float32(0)
    return np.float32(clip_scale(clip, norm))


@kernel(threads=THREADS)
def update_range(moments: Moments, gradients: Floats, update: Update, result: Doubles, first: Int, count: Int) -> None:
    """Update `count` parameters; gradients[i] is that of parameter first + i."""
    scale = _clip_scale(result, update.clip)
    if scale == 0:
        return
    rates = _rates(update.header)
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        _update(moments, first + i, gradients[i], scale, update.kind, rates)


@kernel(threads=128)
def update_rows(
    moments: Moments, sparse: SparseGradients, last_update_step: Ids, update: Update, result: Doubles
) -> None:
    """Update rows of the table, a block for each. Adam and anchored SGD keep the step of each row's last update."""
    rows, counts, values = sparse
    scale, width, rates = _clip_scale(result, update.clip), values.shape[1], _rates(update.header)
    for slot in range(cuda.blockIdx.x, counts[ROWS], cuda.gridDim.x):
        row = rows[slot]
        if scale != 0:
            for column in range(cuda.threadIdx.x, width, cuda.blockDim.x):
                _update(moments, np.int64(row) * width + column, values[slot, column], scale, update.kind, rates)
        if cuda.threadIdx.x == 0 and (update.kind == ADAM or update.kind == ANCHORED):
            last_update_step[row] = np.int64(update.header[STEP])


def bias_corrections() -> np.ndarray:
    """Return the factors of Adam's learning rate in each step: float32 (CORRECTED_STEPS,). The last one is that of all
    later steps."""
    steps = np.arange(CORRECTED_STEPS, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):  # of step 0, which does not exist
        corrections = np.sqrt(1 - np.float64(BETA2) ** steps) / (1 - np.float64(BETA1) ** steps)
    return np.asarray(corrections, np.float32)


@kernel(threads=128)
def flush_lazy_updates(
    moments: Moments, width: Int, last_update_step: Ids, rows: Ids, counts: Ids, header: Bits, corrections: Floats
) -> None:
    """Apply the updates of Adam that rows skipped before the header's step: see `lm.cpu.optimizer`.

    width: of rows. rows, counts: as of `SparseGradients`. corrections: of `bias_corrections`.
    """
    p, m, v = moments
    step, base_rate = np.int64(header[STEP]), float_of(header[RATE])
    for slot in range(cuda.blockIdx.x, counts[ROWS], cuda.gridDim.x):
        row = rows[slot]
        last = np.int64(last_update_step[row])
        skipped = step - 1 - last
        if last > 0 and skipped > 0:
            for column in range(cuda.threadIdx.x, width, cuda.blockDim.x):
                at = np.int64(row) * width + column
                mean, square, value = m[at], v[at], p[at]
                for at_step in range(last + 1, last + 1 + min(skipped, MAX_LAZY_STEPS)):  # type: ignore[operator]
                    rate = base_rate * corrections[index(min(at_step, corrections.size - 1))]
                    value, mean, square = adam_without_gradient(value, mean, square, rate)
                if skipped > MAX_LAZY_STEPS:
                    mean, square = decay_moments(mean, square, skipped - MAX_LAZY_STEPS)
                m[at], v[at], p[at] = mean, square, value
        cuda.syncthreads()
        if cuda.threadIdx.x == 0 and last > 0 and skipped > 0:
            last_update_step[row] = step - 1


@kernel(threads=THREADS)
def update_average(average: Floats, parameters: Floats, weight: Float) -> None:
    """Compute average += weight · (parameters − average)."""
    for i in range(cuda.grid(1), parameters.size, cuda.gridsize(1)):
        average[i] += weight * (parameters[i] - average[i])


@kernel(threads=THREADS)
def swap(a: Floats, b: Floats) -> None:
    """Exchange the values of two arrays."""
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        a[i], b[i] = b[i], a[i]


@kernel(threads=128)
def flush_decay(moments: Moments, width: Int, last_update_step: Ids, rows: Ids, counts: Ids, header: Bits) -> None:
    """Apply the decay of anchored SGD that rows skipped before a step; arguments as of `flush_lazy_updates`."""
    p, anchor, _ = moments
    step, decay = np.int64(header[STEP]), float_of(header[DECAY])
    for slot in range(cuda.blockIdx.x, counts[ROWS], cuda.gridDim.x):
        row = rows[slot]
        last = np.int64(last_update_step[row])
        skipped = step - 1 - last
        if last > 0 and skipped > 0 and decay > 0:
            kept = kept_distance(decay, skipped)
            for column in range(cuda.threadIdx.x, width, cuda.blockDim.x):
                at = np.int64(row) * width + column
                p[at] = anchored_without_gradient(p[at], anchor[at], kept)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0 and last > 0 and skipped > 0:
            last_update_step[row] = step - 1
