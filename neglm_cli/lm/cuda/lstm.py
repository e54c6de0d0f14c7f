"""One LSTM layer over T time steps of B rows, forward and backward.

Row t·B + b of an array is time step t of batch row b, N = B·T in all. The input, a 1 and the hidden state lie side by
side, and so do all weights, so that one product, `xh`ᵀ · `z`, gives the whole gradient of a layer:

    xh       (N + B, D + 1 + H)   input, a 1, and the hidden state h before the time step
    weights  (D + 1 + H, 4H)      of the input, bias, of the state; gates are i, f, g and o, H of each
    z        (N, 4H)              input and bias times weights; then gates; then gradients of their pre-activations
    c        (N + B, H)           the cell state before the time step

A time step is a product of B rows, followed by the cell, in the registers of the thread that computed the product.
Either each time step is a launch, or one launch computes all of them: then a block keeps the recurrent weights of some
units in its shared memory from the first step to the last, and all blocks synchronize after each. With cuBLAS, a time
step of a large batch is its product, and a launch for the cells.
"""

from typing import NamedTuple

import numpy as np
from numba import float32

from neglm_cli.lm import scalar
from neglm_cli.lm.cuda.arrays import BatchArrays, StepConfig
from neglm_cli.lm.cuda.functions import ZERO, dropout_mask, index, inlined, state_mask
from neglm_cli.lm.cuda.gemm import MatrixView
from neglm_cli.lm.cuda.gpu import Int, Kernel, Matrix, cuda, kernel

GATES = 4
ROWS = 4  # of each thread of the persistent kernels
LANES = 32  # threads that copy a row to shared memory


class LayerArrays(NamedTuple):
    """The weights and activations of a layer."""

    number: Int  # from 1 on: of the dropout after it
    inputs: Int  # D
    units: Int  # H
    xh: Matrix
    weights: Matrix
    z: Matrix
    c: Matrix


class OutputGradients(NamedTuple):
    """Gradients that the backward pass of a layer starts from."""

    d_out: Matrix  # (N, ·): of the layer's output
    d_c: Matrix  # (B, H): of the cell state, from the next time step


class Tiling(NamedTuple):
    """How the persistent kernels divide their work; see `forward`."""

    block_units: Int
    rows_at_once: Int
    slices: Int
    depth: Int


@inlined
def cell_forward(row, unit, z, layer, out, batch, config):
    """Compute gates from pre-activations z = (i, f, g, o), then the next state and the layer's output."""
    units = layer.units
    i, f, g, o, cell_state, h = scalar.cell_forward(z[0], z[1], z[2], z[3], layer.c[row, unit])
    gates = layer.z
    gates[row, unit], gates[row, units + unit] = i, f
    gates[row, 2 * units + unit], gates[row, 3 * units + unit] = g, o
    mask = state_mask(batch, config, row + config.batch)
    layer.c[row + config.batch, unit] = mask * cell_state
    layer.xh[row + config.batch, layer.inputs + 1 + unit] = mask * h
    out.array[out.row + row, unit] = h * dropout_mask(batch, config, layer.number, row, unit)


@inlined
def cell_backward(row, unit, d_next, is_last, layer, gradients, batch, config):
    """Turn gates into gradients of their pre-activations. d_next: the gradient of h from the next time step."""
    z, units = layer.z, layer.units
    i, f, g, o = z[row, unit], z[row, units + unit], z[row, 2 * units + unit], z[row, 3 * units + unit]
    d_h = gradients.d_out[row, unit] * dropout_mask(batch, config, layer.number, row, unit)
    d_c = ZERO
    if not is_last:
        mask = state_mask(batch, config, row + config.batch)
        d_h += mask * d_next
        d_c = mask * gradients.d_c[row % config.batch, unit]
    d_i, d_f, d_g, d_o, d_c = scalar.cell_backward(i, f, g, o, layer.c[row, unit], d_h, d_c)
    gradients.d_c[row % config.batch, unit] = d_c
    z[row, unit], z[row, units + unit] = d_i, d_f
    z[row, 2 * units + unit], z[row, 3 * units + unit] = d_g, d_o


# --- a launch per time step -----------------------------------------------------------------------------


def step_forward_kernel(side: int, square: int, depth: int, name: str = "step_forward") -> Kernel:
    """One time step by side × side threads, each with one unit's four gates in `square` rows."""
    tile, threads = side * square, side * side
    pitch = tile + 1

    @kernel(threads=threads, tile=(tile, side), name=name)
    def step_forward(step: Int, layer: LayerArrays, out: MatrixView, batch: BatchArrays, config: StepConfig) -> None:
        h_part = cuda.shared.array((depth, pitch), float32)
        u_part = cuda.shared.array((depth, GATES, side), float32)
        sums = cuda.local.array((square, GATES), float32)
        _, inputs, units, xh, weights, z, _ = layer
        thread = cuda.threadIdx.x
        down, right = thread // side, thread % side
        top, left = cuda.blockIdx.y * tile, cuda.blockIdx.x * side
        row = step * config.batch
        for i in range(square):
            for gate in range(GATES):
                sums[i, gate] = ZERO
        for first in range(0, units, depth):
            for at in range(thread, tile * depth, threads):
                deep, across = at % depth, at // depth
                if first + deep < units and top + across < config.batch:
                    h_part[index(deep), index(across)] = xh[index(row + top + across), index(inputs + 1 + first + deep)]
                else:
                    h_part[index(deep), index(across)] = ZERO
            for at in range(thread, depth * GATES * side, threads):
                deep, gate, across = at // (GATES * side), at // side % GATES, at % side
                if first + deep < units and left + across < units:
                    u_part[index(deep), index(gate), index(across)] = weights[
                        index(inputs + 1 + first + deep), index(gate * units + left + across)
                    ]
                else:
                    u_part[index(deep), index(gate), index(across)] = ZERO
            cuda.syncthreads()
            for deep in range(depth):
                for i in range(square):
                    h = h_part[index(deep), index(down + i * side)]
                    for gate in range(GATES):
                        sums[i, gate] += h * u_part[index(deep), index(gate), index(right)]
            cuda.syncthreads()
        unit = left + right
        for i in range(square):
            b = top + down + i * side
            if b < config.batch and unit < units:
                at = row + b
                pre_activations = (
                    z[at, unit] + sums[i, 0], z[at, units + unit] + sums[i, 1], z[at, 2 * units + unit] + sums[i, 2],
                    z[at, 3 * units + unit] + sums[i, 3],
                )  # fmt: skip
                cell_forward(at, unit, pre_activations, layer, out, batch, config)

    return step_forward


def step_backward_kernel(side: int, square: int, depth: int, name: str = "step_backward") -> Kernel:
    """One time step back by side × side threads, each with square × square rows and units."""
    tile, threads = side * square, side * side
    pitch = tile + 1

    @kernel(threads=threads, tile=(tile, tile), name=name)
    def step_backward(
        step: Int, layer: LayerArrays, gradients: OutputGradients, batch: BatchArrays, config: StepConfig
    ) -> None:
        z_part = cuda.shared.array((depth, pitch), float32)
        u_part = cuda.shared.array((depth, pitch), float32)
        sums = cuda.local.array((square, square), float32)
        u_own = cuda.local.array(square, float32)
        _, inputs, units, _, weights, z, _ = layer
        thread = cuda.threadIdx.x
        down, right = thread // side, thread % side
        top, left = cuda.blockIdx.y * tile, cuda.blockIdx.x * tile
        row = step * config.batch
        is_last = step == config.steps - 1
        for i in range(square):
            for j in range(square):
                sums[i, j] = ZERO
        for first in range(0, 0 if is_last else GATES * units, depth):
            for at in range(thread, tile * depth, threads):
                deep, across = at % depth, at // depth
                inside = first + deep < GATES * units
                if inside and top + across < config.batch:
                    z_part[index(deep), index(across)] = z[
                        index(row + config.batch + top + across), index(first + deep)
                    ]
                else:
                    z_part[index(deep), index(across)] = ZERO
                if inside and left + across < units:
                    u_part[index(deep), index(across)] = weights[index(inputs + 1 + left + across), index(first + deep)]
                else:
                    u_part[index(deep), index(across)] = ZERO
            cuda.syncthreads()
            for deep in range(depth):
                for j in range(square):
                    u_own[j] = u_part[index(deep), index(right + j * side)]
                for i in range(square):
                    d_z = z_part[index(deep), index(down + i * side)]
                    for j in range(square):
                        sums[i, j] += d_z * u_own[j]
            cuda.syncthreads()
        for i in range(square):
            for j in range(square):
                b, unit = top + down + i * side, left + right + j * side
                if b < config.batch and unit < units:
                    cell_backward(row + b, unit, sums[i, j], is_last, layer, gradients, batch, config)

    return step_backward


class StepKernels(NamedTuple):
    """The kernels of one time step."""

    forward: Kernel
    backward: Kernel


STEP_KERNELS = StepKernels(step_forward_kernel(16, 4, 16), step_backward_kernel(16, 2, 32))


# --- cells only, after a product ------------------------------------------------------------------------


@kernel(threads=128)
def cell_step_forward(step: Int, layer: LayerArrays, out: MatrixView, batch: BatchArrays, config: StepConfig) -> None:
    """Compute the cells of one time step from the pre-activations in z; a block for each row."""
    units, z = layer.units, layer.z
    row = step * config.batch + cuda.blockIdx.x
    for unit in range(cuda.threadIdx.x, units, cuda.blockDim.x):
        pre_activations = z[row, unit], z[row, units + unit], z[row, 2 * units + unit], z[row, 3 * units + unit]
        cell_forward(row, unit, pre_activations, layer, out, batch, config)


@kernel(threads=128)
def cell_step_backward(
    step: Int, layer: LayerArrays, gradients: OutputGradients, d_h: Matrix, batch: BatchArrays, config: StepConfig
) -> None:
    """Compute the gradients of one time step's pre-activations; a block for each row.

    d_h: (B, H): of the hidden state, from the next time step.
    """
    b, is_last = cuda.blockIdx.x, step == config.steps - 1
    for unit in range(cuda.threadIdx.x, layer.units, cuda.blockDim.x):
        cell_backward(step * config.batch + b, unit, d_h[b, unit], is_last, layer, gradients, batch, config)


# --- all time steps in one launch -----------------------------------------------------------------------


@inlined
def stage_row(array, row, column, inside, shared, start, pitch, lane, count, lanes=LANES):
    """Copy every `lanes`-th of `count` values of a row to shared memory, `pitch` apart, or zeros if not `inside`.

    Four loads are in flight at a time.
    """
    deep = lane
    if inside:
        while deep + 3 * lanes < count:
            a, b = array[index(row), index(column + deep)], array[index(row), index(column + deep + lanes)]
            c = array[index(row), index(column + deep + 2 * lanes)]
            d = array[index(row), index(column + deep + 3 * lanes)]
            shared[index(start + deep * pitch)] = a
            shared[index(start + (deep + lanes) * pitch)] = b
            shared[index(start + (deep + 2 * lanes) * pitch)] = c
            shared[index(start + (deep + 3 * lanes) * pitch)] = d
            deep += 4 * lanes
    while deep < count:
        shared[index(start + deep * pitch)] = array[index(row), index(column + deep)] if inside else ZERO
        deep += lanes


@kernel(threads=256, cooperative=True)
def forward(
    step: Int, layer: LayerArrays, out: MatrixView, batch: BatchArrays, config: StepConfig, tiling: Tiling
) -> None:
    """Run all time steps from `step` on. A block has `block_units` units, and all rows, `rows_at_once` at a time.

    A thread has one unit and ROWS rows; its sums are over every `slices`-th value of the state, and are added up in
    shared memory, which holds recurrent weights (H, 4, block_units), and `depth` values of the state of some rows, or
    sums.
    """
    shared = cuda.shared.array(0, float32)
    _, inputs, units, xh, weights, z, _ = layer
    block_units, at_once, slices, depth = tiling
    rows, steps = config.batch, config.steps
    grid = cuda.cg.this_grid()
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    left = cuda.blockIdx.x * block_units
    offset = units * GATES * block_units
    sums = cuda.local.array((ROWS, GATES), float32)
    part, unit = thread // block_units, thread % block_units
    row_group, part = part % (at_once // ROWS), part // (at_once // ROWS)
    lane, warp, warps = thread % LANES, thread // LANES, threads // LANES
    for deep in range(thread, units, threads):
        for gate in range(GATES):
            for across in range(block_units):
                value = weights[inputs + 1 + deep, gate * units + left + across] if left + across < units else ZERO
                shared[index((deep * GATES + gate) * block_units + across)] = value
    while step < steps:
        for top in range(step * rows, (step + 1) * rows, at_once):
            bottom = min(top + at_once, (step + 1) * rows)
            for i in range(ROWS):
                for gate in range(GATES):
                    sums[i, gate] = ZERO
            for first in range(0, units, depth):
                count = min(depth, units - first)
                cuda.syncthreads()
                for across in range(warp, at_once, warps):
                    stage_row(xh, top + across, inputs + 1 + first, top + across < bottom, shared, offset + across,
                              at_once, lane, count)  # fmt: skip
                cuda.syncthreads()
                if part < slices:
                    h_at = offset + part * at_once + row_group * ROWS
                    u_at = (first + part) * GATES * block_units + unit
                    for _ in range(part, count, slices):
                        u_i, u_f = shared[index(u_at)], shared[index(u_at + block_units)]
                        u_g, u_o = shared[index(u_at + 2 * block_units)], shared[index(u_at + 3 * block_units)]
                        for i in range(ROWS):
                            h = shared[index(h_at + i)]
                            sums[i, 0] += h * u_i
                            sums[i, 1] += h * u_f
                            sums[i, 2] += h * u_g
                            sums[i, 3] += h * u_o
                        h_at += slices * at_once
                        u_at += slices * GATES * block_units
            cuda.syncthreads()
            if part < slices:
                for i in range(ROWS):
                    for gate in range(GATES):
                        at = ((part * at_once + row_group * ROWS + i) * GATES + gate) * block_units + unit
                        shared[offset + at] = sums[i, gate]
            cuda.syncthreads()
            for at in range(thread, at_once * block_units, threads):
                across, column = at // block_units, at % block_units
                row = top + across
                if row < bottom and left + column < units:
                    zi = z[row, left + column]
                    zf = z[row, units + left + column]
                    zg = z[row, 2 * units + left + column]
                    zo = z[row, 3 * units + left + column]
                    for s in range(slices):
                        base = offset + (s * at_once + across) * GATES * block_units + column
                        zi += shared[base]
                        zf += shared[base + block_units]
                        zg += shared[base + 2 * block_units]
                        zo += shared[base + 3 * block_units]
                    cell_forward(row, left + column, (zi, zf, zg, zo), layer, out, batch, config)
        step += 1
        if step < steps:
            grid.sync()


@kernel(threads=256, cooperative=True)
def backward(
    step: Int, layer: LayerArrays, gradients: OutputGradients, batch: BatchArrays, config: StepConfig, tiling: Tiling
) -> None:
    """Run all time steps from `step` down to the first: like `forward`, with recurrent weights (4H, block_units), and
    with gradients of pre-activations instead of the state."""
    shared = cuda.shared.array(0, float32)
    _, inputs, units, _, weights, z, _ = layer
    block_units, at_once, slices, depth = tiling
    rows, steps = config.batch, config.steps
    grid = cuda.cg.this_grid()
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    left = cuda.blockIdx.x * block_units
    gates = GATES * units
    offset = gates * block_units
    sums = cuda.local.array(ROWS, float32)
    part, unit = thread // block_units, thread % block_units
    row_group, part = part % (at_once // ROWS), part // (at_once // ROWS)
    lane, warp, warps = thread % LANES, thread // LANES, threads // LANES
    for across in range(block_units):
        stage_row(weights, inputs + 1 + left + across, 0, left + across < units, shared, across, block_units, thread,
                  gates, threads)  # fmt: skip
    while step >= 0:
        is_last = step == steps - 1
        for top in range(step * rows, (step + 1) * rows, at_once):
            bottom = min(top + at_once, (step + 1) * rows)
            for i in range(ROWS):
                sums[i] = ZERO
            for first in range(0, 0 if is_last else gates, depth):
                count = min(depth, gates - first)
                cuda.syncthreads()
                for across in range(warp, at_once, warps):
                    stage_row(z, top + rows + across, first, top + across < bottom, shared, offset + across, at_once,
                              lane, count)  # fmt: skip
                cuda.syncthreads()
                if part < slices:
                    z_at = offset + part * at_once + row_group * ROWS
                    u_at = (first + part) * block_units + unit
                    for _ in range(part, count, slices):
                        u = shared[index(u_at)]
                        for i in range(ROWS):
                            sums[i] += shared[index(z_at + i)] * u
                        z_at += slices * at_once
                        u_at += slices * block_units
            cuda.syncthreads()
            if part < slices:
                for i in range(ROWS):
                    shared[offset + (part * at_once + row_group * ROWS + i) * block_units + unit] = sums[i]
            cuda.syncthreads()
            for at in range(thread, at_once * block_units, threads):
                across, column = at // block_units, at % block_units
                row = top + across
                if row < bottom and left + column < units:
                    d_next = ZERO
                    for s in range(slices):
                        d_next += shared[offset + (s * at_once + across) * block_units + column]
                    cell_backward(row, left + column, d_next, is_last, layer, gradients, batch, config)
        step -= 1
        if step >= 0:
            grid.sync()


# --- recurrent dropout ----------------------------------------------------------------------------------


@kernel(threads=128)
def drop_recurrent(
    source: Matrix, target: Matrix, batch: BatchArrays, config: StepConfig, key: Int, first: Int, units: Int
) -> None:
    """Copy the weights of a layer, or their gradients, with dropout of the recurrent ones; a block for each row.

    key: where the layer's key is in the header; first: the first row of recurrent weights; units: H.
    """
    row = cuda.blockIdx.x
    for column in range(cuda.threadIdx.x, source.shape[1], cuda.blockDim.x):
        value = source[row, column]
        if row >= first:
            gate, unit = np.uint64(column // units), np.uint64(column % units)
            row_unit, threshold = np.uint64(row - first), config.recurrent_threshold
            value *= scalar.recurrent_mask(batch.header[key], row_unit, gate, unit, threshold)
        target[row, column] = value
