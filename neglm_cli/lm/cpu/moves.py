"""Parameters move along the gradient, which is shortened to the length `clip`: each thread moves what belongs to it.

`training` and `numbers` are those of `step`.
"""

import numpy as np

from neglm_cli.kernels import outlined
from neglm_cli.lm.cpu import lstm
from neglm_cli.lm.cpu.optimise import catch_up, move_panels, move_rows
from neglm_cli.lm.cpu.softmax import BLOCK
from neglm_cli.lm.optimisers import rate_of
from neglm_cli.lm.settings import SOFTMAX


@outlined
def move_all(training, numbers, norm, thread):
    weights, means, squares = training.weights, training.means, training.squares
    inputs, outputs = training.inputs, training.outputs
    move_layers(training, numbers, norm, thread)
    move_touched(
        weights.embedding, inputs.distinct[thread], inputs.found[thread, 0], inputs.gradients[thread],
        means.embedding, squares.embedding, training.moved[0], numbers, norm, False,
    )  # fmt: skip
    if numbers.mode == SOFTMAX:
        move_output(training, numbers, norm, thread)
    else:
        move_touched(
            weights.output, outputs.distinct[thread], outputs.found[thread, 0], outputs.gradients[thread],
            means.output, squares.output, training.moved[1], numbers, norm, False,
        )  # fmt: skip


@outlined
def _shortened(norm, clip):
    return np.float32(clip / norm if norm > clip else 1.0)


@outlined
def move_layers(training, numbers, norm, thread):
    weights, gradients, means, squares = training.weights, training.gradients, training.means, training.squares
    own, back, kind, epsilon = training.own, training.back, numbers.kind, numbers.epsilon
    first, last = own.panels[thread], own.panels[thread + 1]
    scale, rate = _shortened(norm, numbers.clip), rate_of(kind, numbers.rate, numbers.step)
    for layer in range(weights.w.shape[0]):
        for p, g, m, v in (
            (weights.w[layer], gradients.w[layer], means.w[layer], squares.w[layer]),
            (weights.u[layer], gradients.u[layer], means.u[layer], squares.u[layer]),
        ):
            panels = p.shape[0]
            move_panels(
                kind, p.reshape(panels, -1), g.reshape(panels, -1), m.reshape(panels, -1), v.reshape(panels, -1),
                scale, rate, epsilon, first, last,
            )  # fmt: skip
        move_panels(
            kind, weights.b[layer], gradients.b[layer], means.b[layer], squares.b[layer], scale, rate, epsilon,
            first, last,
        )  # fmt: skip
        lstm.transpose(weights.w[layer], back.w[layer], back.w_starts, back.w_ends[layer], first, last)
        lstm.transpose(weights.u[layer], back.u[layer], back.u_starts, back.u_ends, first, last)


@outlined
def move_touched(table, rows, count, gradients, means, squares, moved, numbers, norm, untouched):
    """untouched: there may be rows among them that no word of this process has let catch up."""
    kind, rate, epsilon = numbers.kind, numbers.rate, numbers.epsilon
    if untouched and numbers.exact:
        catch_up(table, means, squares, moved, rows, count, numbers.step, rate, epsilon)
    scale = _shortened(norm, numbers.clip)
    step_rate = rate_of(kind, rate, numbers.step)
    move_rows(kind, table, rows, count, gradients, means, squares, moved, numbers.step, scale, step_rate, epsilon)


@outlined
def move_output(training, numbers, norm, thread):
    """All words, as softmax does."""
    weights, gradients, means, squares = training.weights, training.gradients, training.means, training.squares
    blocks, kind = training.own.blocks, numbers.kind
    begin, end = blocks[thread] * BLOCK, min(blocks[thread + 1] * BLOCK, weights.output.shape[0])
    scale, rate = _shortened(norm, numbers.clip), rate_of(kind, numbers.rate, numbers.step)
    move_panels(
        kind, weights.output, gradients.output, means.output, squares.output, scale, rate, numbers.epsilon, begin, end
    )
