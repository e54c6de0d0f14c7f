"""The LSTM cell and dropout masks, written once for all backends: the mathematics of one unit.

    i, f, o = σ(z_i), σ(z_f), σ(z_o)    g = tanh(z_g)
    c_t = f·c_{t−1} + i·g               h_t = o·tanh(c_t)

Kernels compile these functions for float32 numbers, and `reference` calls them with float64 arrays. The CPU has
vectorized variants, `cpu.cell`, `cpu.tables.dropout` and `cpu.lstm.drop_recurrent`, which tests compare with these.
"""

import math
from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import overload, register_jitable
from neglm_cli.objective.random import DROPOUT, EMBEDDING_DROPOUT, RECURRENT_DROPOUT, draw, stream
from neglm_cli.settings.train_lm import DROPOUT_UNITS, Settings

ONE = np.float32(1)
FOUR, SIXTEEN, SIXTEEN_BITS = np.uint64(4), np.uint64(16), np.uint64(0xFFFF)


def exp(x):
    return np.exp(x)


@overload(exp)
def _exp_in_kernels(x):
    return lambda x: math.exp(x)  # CUDA has no np.exp


@register_jitable
def sigmoid(x):
    return ONE / (ONE + exp(-x))


@register_jitable
def cell_forward(z_i, z_f, z_g, z_o, c):
    """Compute gates, c_t and h_t from pre-activations and c_{t−1}: (i, f, g, o, c_t, h_t)."""
    i, f, g, o = sigmoid(z_i), sigmoid(z_f), np.tanh(z_g), sigmoid(z_o)
    cell_state = f * c + i * g
    return i, f, g, o, cell_state, o * np.tanh(cell_state)


@register_jitable
def cell_backward(i, f, g, o, c, d_h, d_c):
    """Compute gradients of the pre-activations and of c_{t−1} from those of h_t and c_t: (d_i, d_f, d_g, d_o, d_c).

    c: c_{t−1}; d_c: through c_{t+1} alone.
    """
    tanh_c = np.tanh(f * c + i * g)
    d_cell = d_c + d_h * o * (ONE - tanh_c * tanh_c)
    d_i = d_cell * g * i * (ONE - i)
    d_f = d_cell * c * f * (ONE - f)
    d_g = d_cell * i * (ONE - g * g)
    d_o = d_h * tanh_c * o * (ONE - o)
    return d_i, d_f, d_g, d_o, d_cell * f


@register_jitable
def dropout_scale(threshold):
    """Return the factor of units that are not dropped, which preserves the mean."""
    return np.float32(DROPOUT_UNITS / (DROPOUT_UNITS - threshold))


@register_jitable
def dropout_mask(row_key, unit, threshold):
    """Return the factor of a unit: 0 if it is dropped, else that of `dropout_scale`.

    row_key: uint64, drawn from a layer's key for a position in the corpus; unit: uint64; threshold: see
    `Settings.dropout_threshold`. A unit takes 16 random bits, so that one draw serves four units.
    """
    bits = draw(row_key, unit // FOUR) >> (SIXTEEN * (unit % FOUR))
    return np.float32((bits & SIXTEEN_BITS) >= np.uint64(threshold)) * dropout_scale(threshold)


@register_jitable
def recurrent_mask(layer_key, row, gate, unit, threshold):
    """Return the factor of a recurrent weight, from unit `row` to a gate of `unit`: see `dropout_mask`. All uint64."""
    return dropout_mask(draw(layer_key, FOUR * row + gate), unit, threshold)


class DropoutKeys(NamedTuple):
    """The keys of a minibatch's dropout masks."""

    units: np.ndarray  # uint64 (L + 1,): before each layer and before the output, the same for the whole epoch
    words: np.uint64  # of embedding dropout, whose units are words
    recurrent: np.ndarray  # uint64 (L,)


def dropout_keys(settings: Settings, epoch: int, number: int, layers: int) -> DropoutKeys:
    """Return the keys of minibatch `number` of an epoch."""
    seed, of_layers = settings.seed, np.arange(layers + 1, dtype=np.uint64)
    words, recurrent = (
        draw(np.array([stream(seed, purpose, epoch)]), np.array([number], np.uint64))
        for purpose in (EMBEDDING_DROPOUT, RECURRENT_DROPOUT)
    )
    units = draw(np.array([stream(seed, DROPOUT, epoch)]), of_layers)
    return DropoutKeys(units, words[0], draw(recurrent, of_layers[:-1]))


def dropout_positions(settings: Settings, positions: np.ndarray) -> np.ndarray:
    """Return the positions by which dropout masks are drawn. positions: uint64 (B, T), of the targets in the corpus."""
    return np.broadcast_to(positions[:, :1], positions.shape) if settings.variational else positions
