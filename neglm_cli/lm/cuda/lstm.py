"""A layer of an LSTM over T steps of B rows, forward and backward.

Rows are (t·B + b). One array has all that a step's gates are made of, and one all weights, so that the gradient of a
layer is one product, `xh`ᵀ · `z`:

    xh       (N + B, D + 1 + H)   input, a 1, and the state h that the step begins with
    weights  (D + 1 + H, 4H)      of the input, bias, of the state; gates are i, f, g and o, H of each
    z        (N, 4H)              D + 1 columns of xh times weights; then gates; then their gradients
    c        (N + B, H)           the memory that the step begins with

A step is a product of B rows with the cell right behind it, in the registers of the thread that made the product.
Either each step is a launch, or one launch makes all steps: then a block keeps the recurrent weights of some units in
its shared memory from the first step to the last, and all blocks wait for each other after each.
"""

import math
from typing import NamedTuple

from numba import float32

from neglm_cli.lm.cuda.functions import ONE, ZERO, inlined, keep, mask, sigmoid
from neglm_cli.lm.cuda.gpu import BITS, MATRIX, WHOLE, Kernel, cuda, kernel

GATES = 4
ROWS = 4  # of each thread of the persistent kernels


@inlined
def _cell_forward(row, unit, zi, zf, zg, zo, batch, rows, inputs, units, xh, z, c, out, out_row, words, head, place, dropped, end):  # fmt: skip  # noqa: E501
    i, f, g, o = sigmoid(zi), sigmoid(zf), math.tanh(zg), sigmoid(zo)
    z[row, unit], z[row, units + unit], z[row, 2 * units + unit], z[row, 3 * units + unit] = i, f, g, o
    memory = f * c[row, unit] + i * g
    h = o * math.tanh(memory)
    kept = keep(words, row + batch, rows, end)
    c[row + batch, unit] = kept * memory
    xh[row + batch, inputs + 1 + unit] = kept * h
    out[out_row + row, unit] = h * mask(head, place, row, batch, unit, dropped)


@inlined
def _cell_backward(row, unit, d_later, is_last, batch, rows, units, z, c, d_out, d_c, words, head, place, dropped, end):  # fmt: skip  # noqa: E501
    """d_later: the gradient of h that comes from the next step; d_c (B, H): that of c, likewise."""
    i, f, g, o = z[row, unit], z[row, units + unit], z[row, 2 * units + unit], z[row, 3 * units + unit]
    before = c[row, unit]
    bent = math.tanh(f * before + i * g)
    d_h = d_out[row, unit] * mask(head, place, row, batch, unit, dropped)
    d_memory = ZERO
    if not is_last:
        kept = keep(words, row + batch, rows, end)
        d_h += kept * d_later
        d_memory = kept * d_c[row % batch, unit]
    d_memory += d_h * o * (ONE - bent * bent)
    d_c[row % batch, unit] = d_memory * f
    z[row, unit] = d_memory * g * i * (ONE - i)
    z[row, units + unit] = d_memory * before * f * (ONE - f)
    z[row, 2 * units + unit] = d_memory * i * (ONE - g * g)
    z[row, 3 * units + unit] = d_h * bent * o * (ONE - o)


# --- a launch per step ----------------------------------------------------------------------------------

FORWARD = (WHOLE,) * 5 + (MATRIX,) * 5 + (WHOLE, BITS, BITS, WHOLE, WHOLE, WHOLE)
BACKWARD = (WHOLE,) * 5 + (MATRIX,) * 5 + (BITS, BITS, WHOLE, WHOLE, WHOLE)


def step_forward_kernel(side: int, square: int, depth: int, name: str = "step_forward") -> Kernel:
    """side × side threads, each with one unit's four gates in `square` rows."""
    tile, threads = side * square, side * side
    pitch = tile + 1

    @kernel(*FORWARD, threads=threads, tile=(tile, side), name=name)
    def step_forward(
        step, batch, steps, inputs, units, xh, weights, z, c, out, out_row, words, head, place, dropped, end
    ):  # fmt: skip
        h_part = cuda.shared.array((depth, pitch), float32)
        u_part = cuda.shared.array((depth, GATES, side), float32)
        sums = cuda.local.array((square, GATES), float32)
        thread = cuda.threadIdx.x
        down, right = thread // side, thread % side
        top, left = cuda.blockIdx.y * tile, cuda.blockIdx.x * side
        row = step * batch
        for i in range(square):
            for gate in range(GATES):
                sums[i, gate] = ZERO
        for first in range(0, units, depth):
            for at in range(thread, tile * depth, threads):
                deep, across = at % depth, at // depth
                if first + deep < units and top + across < batch:
                    h_part[deep, across] = xh[row + top + across, inputs + 1 + first + deep]
                else:
                    h_part[deep, across] = ZERO
            for at in range(thread, depth * GATES * side, threads):
                deep, gate, across = at // (GATES * side), at // side % GATES, at % side
                if first + deep < units and left + across < units:
                    u_part[deep, gate, across] = weights[inputs + 1 + first + deep, gate * units + left + across]
                else:
                    u_part[deep, gate, across] = ZERO
            cuda.syncthreads()
            for deep in range(depth):
                for i in range(square):
                    h = h_part[deep, down + i * side]
                    for gate in range(GATES):
                        sums[i, gate] += h * u_part[deep, gate, right]
            cuda.syncthreads()
        unit = left + right
        for i in range(square):
            b = top + down + i * side
            if b < batch and unit < units:
                at = row + b
                _cell_forward(
                    at, unit, z[at, unit] + sums[i, 0], z[at, units + unit] + sums[i, 1],
                    z[at, 2 * units + unit] + sums[i, 2], z[at, 3 * units + unit] + sums[i, 3], batch, steps * batch,
                    inputs, units, xh, z, c, out, out_row, words, head, place, dropped, end,
                )  # fmt: skip

    return step_forward


def step_backward_kernel(side: int, square: int, depth: int, name: str = "step_backward") -> Kernel:
    """side × side threads, each with square × square rows and units."""
    tile, threads = side * square, side * side
    pitch = tile + 1

    @kernel(*BACKWARD, threads=threads, tile=(tile, tile), name=name)
    def step_backward(
        step, batch, steps, inputs, units, weights, z, c, d_out, d_c, words, head, place, dropped, end
    ):  # fmt: skip
        z_part = cuda.shared.array((depth, pitch), float32)
        u_part = cuda.shared.array((depth, pitch), float32)
        sums = cuda.local.array((square, square), float32)
        u_own = cuda.local.array(square, float32)
        thread = cuda.threadIdx.x
        down, right = thread // side, thread % side
        top, left = cuda.blockIdx.y * tile, cuda.blockIdx.x * tile
        row = step * batch
        is_last = step == steps - 1
        for i in range(square):
            for j in range(square):
                sums[i, j] = ZERO
        for first in range(0, 0 if is_last else GATES * units, depth):
            for at in range(thread, tile * depth, threads):
                deep, across = at % depth, at // depth
                inside = first + deep < GATES * units
                if inside and top + across < batch:
                    z_part[deep, across] = z[row + batch + top + across, first + deep]
                else:
                    z_part[deep, across] = ZERO
                if inside and left + across < units:
                    u_part[deep, across] = weights[inputs + 1 + left + across, first + deep]
                else:
                    u_part[deep, across] = ZERO
            cuda.syncthreads()
            for deep in range(depth):
                for j in range(square):
                    u_own[j] = u_part[deep, right + j * side]
                for i in range(square):
                    d_z = z_part[deep, down + i * side]
                    for j in range(square):
                        sums[i, j] += d_z * u_own[j]
            cuda.syncthreads()
        for i in range(square):
            for j in range(square):
                b, unit = top + down + i * side, left + right + j * side
                if b < batch and unit < units:
                    _cell_backward(
                        row + b, unit, sums[i, j], is_last, batch, steps * batch, units, z, c, d_out, d_c, words, head,
                        place, dropped, end,
                    )  # fmt: skip

    return step_backward


class Steps(NamedTuple):
    """Kernels that make one step."""

    forward: Kernel
    backward: Kernel


STEPS = Steps(step_forward_kernel(16, 4, 16), step_backward_kernel(16, 2, 32))


# --- all steps in one launch ----------------------------------------------------------------------------


@kernel(*FORWARD, WHOLE, WHOLE, WHOLE, WHOLE, threads=256, cooperative=True)
def forward(
    step, batch, steps, inputs, units, xh, weights, z, c, out, out_row, words, head, place, dropped, end,
    own, at_once, slices, depth,
):  # fmt: skip
    """All steps from `step` on. A block has `own` units, and all rows, `at_once` of them at a time.

    A thread has one unit and ROWS rows; its sums are over every `slices`-th number of the state, and are added up in
    shared memory, which holds recurrent weights (H, 4, own), and `depth` numbers of the state of some rows, or sums.
    """
    memory = cuda.shared.array(0, float32)
    grid = cuda.cg.this_grid()
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    left = cuda.blockIdx.x * own
    room = units * GATES * own
    sums = cuda.local.array((ROWS, GATES), float32)
    part, unit = thread // own, thread % own
    row_group, part = part % (at_once // ROWS), part // (at_once // ROWS)
    for at in range(thread, room, threads):
        deep, gate, across = at // (GATES * own), at // own % GATES, at % own
        memory[at] = weights[inputs + 1 + deep, gate * units + left + across] if left + across < units else ZERO
    while step < steps:
        for top in range(step * batch, (step + 1) * batch, at_once):
            bottom = min(top + at_once, (step + 1) * batch)
            for i in range(ROWS):
                for gate in range(GATES):
                    sums[i, gate] = ZERO
            for first in range(0, units, depth):
                count = min(depth, units - first)
                cuda.syncthreads()
                for at in range(thread, at_once * count, threads):
                    deep, across = at % count, at // count
                    inside = top + across < bottom
                    value = xh[top + across, inputs + 1 + first + deep] if inside else ZERO
                    memory[room + deep * at_once + across] = value
                cuda.syncthreads()
                if part < slices:
                    for deep in range(part, count, slices):
                        for i in range(ROWS):
                            h = memory[room + deep * at_once + row_group * ROWS + i]
                            for gate in range(GATES):
                                sums[i, gate] += h * memory[((first + deep) * GATES + gate) * own + unit]
            cuda.syncthreads()
            if part < slices:
                for i in range(ROWS):
                    for gate in range(GATES):
                        at = ((part * at_once + row_group * ROWS + i) * GATES + gate) * own + unit
                        memory[room + at] = sums[i, gate]
            cuda.syncthreads()
            for at in range(thread, at_once * own, threads):
                across, column = at // own, at % own
                row = top + across
                if row < bottom and left + column < units:
                    zi = z[row, left + column]
                    zf = z[row, units + left + column]
                    zg = z[row, 2 * units + left + column]
                    zo = z[row, 3 * units + left + column]
                    for s in range(slices):
                        base = room + (s * at_once + across) * GATES * own + column
                        zi += memory[base]
                        zf += memory[base + own]
                        zg += memory[base + 2 * own]
                        zo += memory[base + 3 * own]
                    _cell_forward(
                        row, left + column, zi, zf, zg, zo, batch, steps * batch, inputs, units, xh, z, c, out,
                        out_row, words, head, place, dropped, end,
                    )  # fmt: skip
        step += 1
        if step < steps:
            grid.sync()


@kernel(*BACKWARD, WHOLE, WHOLE, WHOLE, WHOLE, threads=256, cooperative=True)
def backward(
    step, batch, steps, inputs, units, weights, z, c, d_out, d_c, words, head, place, dropped, end,
    own, at_once, slices, depth,
):  # fmt: skip
    """All steps from `step` down to the first; as `forward`, with recurrent weights (4H, own), and with gradients of
    gates in place of the state."""
    memory = cuda.shared.array(0, float32)
    grid = cuda.cg.this_grid()
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    left = cuda.blockIdx.x * own
    gates = GATES * units
    room = gates * own
    sums = cuda.local.array(ROWS, float32)
    part, unit = thread // own, thread % own
    row_group, part = part % (at_once // ROWS), part // (at_once // ROWS)
    for at in range(thread, room, threads):
        deep, across = at % gates, at // gates
        memory[deep * own + across] = weights[inputs + 1 + left + across, deep] if left + across < units else ZERO
    while step >= 0:
        is_last = step == steps - 1
        for top in range(step * batch, (step + 1) * batch, at_once):
            bottom = min(top + at_once, (step + 1) * batch)
            for i in range(ROWS):
                sums[i] = ZERO
            for first in range(0, 0 if is_last else gates, depth):
                count = min(depth, gates - first)
                cuda.syncthreads()
                for at in range(thread, at_once * count, threads):
                    deep, across = at % count, at // count
                    value = z[top + batch + across, first + deep] if top + across < bottom else ZERO
                    memory[room + deep * at_once + across] = value
                cuda.syncthreads()
                if part < slices:
                    for deep in range(part, count, slices):
                        u = memory[(first + deep) * own + unit]
                        for i in range(ROWS):
                            sums[i] += memory[room + deep * at_once + row_group * ROWS + i] * u
            cuda.syncthreads()
            if part < slices:
                for i in range(ROWS):
                    memory[room + (part * at_once + row_group * ROWS + i) * own + unit] = sums[i]
            cuda.syncthreads()
            for at in range(thread, at_once * own, threads):
                across, column = at // own, at % own
                row = top + across
                if row < bottom and left + column < units:
                    d_later = ZERO
                    for s in range(slices):
                        d_later += memory[room + (s * at_once + across) * own + column]
                    _cell_backward(
                        row, left + column, d_later, is_last, batch, steps * batch, units, z, c, d_out, d_c, words,
                        head, place, dropped, end,
                    )  # fmt: skip
        step -= 1
        if step >= 0:
            grid.sync()
