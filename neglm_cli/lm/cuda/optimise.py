"""The optimizers; the mathematics is in `lm.cpu.optimizer`. The norm that gradients are clipped by stays on the GPU."""

import math

import numpy as np
from numba import float64

from neglm_cli.lm.cuda.functions import ONE, inlined
from neglm_cli.lm.cuda.gpu import DOUBLES, FLOATS, IDS, MATRIX, REAL, WHOLE, cuda, kernel
from neglm_cli.lm.cuda.rows import FOUND
from neglm_cli.lm.optimizers import ADAGRAD, ADAM, BETA1, BETA2, FORGOTTEN, SGD

THREADS = 256  # at most, and a power of 2
LOSS, NORM = range(2)  # of a minibatch's record


@kernel(FLOATS, MATRIX, IDS, FLOATS, FLOATS, DOUBLES, IDS, DOUBLES, WHOLE, WHOLE, threads=THREADS)
def sum_up(layers, gradients, found, dense, losses, partial, ticket, record, rows, numbers):
    """record: the loss, and the norm of the gradient of the layers, of rows of the tables, and of a whole table's first
    `numbers`, if there is one. Blocks write parts; the last one to come adds them up."""
    squares = cuda.shared.array(THREADS, float64)
    totals = cuda.shared.array(THREADS, float64)
    thread, threads, block, blocks = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x, cuda.gridDim.x
    first, step = cuda.grid(1), cuda.gridsize(1)
    square = total = float64(0)
    for i in range(first, layers.size, step):
        square += layers[i] * layers[i]
    for i in range(first, numbers, step):
        square += dense[i] * dense[i]
    for slot in range(block, found[FOUND], blocks):
        for column in range(thread, gradients.shape[1], threads):
            square += gradients[slot, column] * gradients[slot, column]
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
            record[LOSS] = total
            record[NORM] = math.sqrt(square)
            ticket[0] = 0


@inlined
def _move(kind, p, g, m, v, at, rate, epsilon):
    """p, m and v are flat; returns nothing, g is the gradient of p[at]."""
    if kind == SGD:
        p[at] -= rate * g
    elif kind == ADAGRAD:
        v[at] += g * g
        p[at] -= rate * g / (math.sqrt(v[at]) + epsilon)
    else:
        m[at] = BETA1 * m[at] + (ONE - BETA1) * g
        v[at] = BETA2 * v[at] + (ONE - BETA2) * g * g
        p[at] -= rate * m[at] / (math.sqrt(v[at]) + epsilon)


@inlined
def _scale(record, clip):
    """What gradients are multiplied with; 0 if the norm is not a number."""
    norm = record[NORM]
    if not math.isfinite(norm):
        return np.float32(0)
    return np.float32(clip / norm) if norm > clip else ONE


@kernel(WHOLE, *(FLOATS,) * 4, DOUBLES, *(REAL,) * 3, WHOLE, WHOLE, threads=THREADS)
def move_all(kind, p, g, m, v, record, clip, rate, epsilon, first, count):
    """g[i] is the gradient of p[first + i]."""
    scale = _scale(record, clip)
    if scale == 0:
        return
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        _move(kind, p, scale * g[i], m, v, first + i, rate, epsilon)


@kernel(WHOLE, FLOATS, IDS, IDS, IDS, MATRIX, *(FLOATS,) * 2, IDS, DOUBLES, *(REAL,) * 3, WHOLE, threads=128)
def move_rows(kind, p, rows, found, counts, g, m, v, moved, record, clip, rate, epsilon, step):
    """Rows of the tables; g[i] is the gradient of row rows[i]. A block has a row. Adam remembers when it was moved."""
    scale, width = _scale(record, clip), g.shape[1]
    for slot in range(cuda.blockIdx.x, found[FOUND], cuda.gridDim.x):
        row = rows[slot]
        if scale != 0:
            for column in range(cuda.threadIdx.x, width, cuda.blockDim.x):
                _move(kind, p, scale * g[slot, column], m, v, np.int64(row) * width + column, rate, epsilon)
        if cuda.threadIdx.x == 0:
            counts[row] = 0  # as `list_places` wants to find it
            if kind == ADAM:
                moved[row] = step


@kernel(*(MATRIX,) * 3, IDS, IDS, IDS, WHOLE, float64, REAL, threads=128)
def catch_up(p, m, v, moved, rows, found, step, rate, epsilon):
    """The steps of Adam that rows have missed, before `step`: see `lm.cpu.optimizer.flush_lazy_updates`."""
    for slot in range(cuda.blockIdx.x, found[FOUND], cuda.gridDim.x):
        row = rows[slot]
        last = np.int64(moved[row])
        missed = step - 1 - last
        if last > 0 and missed > 0:
            for column in range(cuda.threadIdx.x, p.shape[1], cuda.blockDim.x):
                mean, square, value = m[row, column], v[row, column], p[row, column]
                first, second = float64(BETA1) ** last, float64(BETA2) ** last
                for _ in range(min(missed, FORGOTTEN)):
                    first *= float64(BETA1)
                    second *= float64(BETA2)
                    mean *= BETA1
                    square *= BETA2
                    rate_s = np.float32(rate * math.sqrt(1 - second) / (1 - first))
                    value -= rate_s * mean / (math.sqrt(square) + epsilon)
                if missed > FORGOTTEN:
                    mean *= BETA1 ** np.float32(missed - FORGOTTEN)
                    square *= BETA2 ** np.float32(missed - FORGOTTEN)
                m[row, column], v[row, column], p[row, column] = mean, square, value
        cuda.syncthreads()
        if cuda.threadIdx.x == 0 and last > 0 and missed > 0:
            moved[row] = step - 1
