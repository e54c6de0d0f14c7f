"""The optimizers, written once for all backends: the update of one parameter.

    SGD       p −= rate · g
    Adagrad   v += g²                                       p −= rate · g / (√v + ε)
    Adam      m = β₁m + (1−β₁)g    v = β₂v + (1−β₂)g²       p −= rate_t · m / (√v + ε)
              rate_t = rate · √(1−β₂^t) / (1−β₁^t)
    anchored  p −= rate · g − decay · (p₀ − p)              SGD with decay to p₀, for dynamic evaluation

Before a step of the first three, weight decay shrinks p: p −= rate · λ · p, apart from the gradient, as in AdamW. Rows
of tables that have no gradient are not shrunk.

Kernels compile these functions for float32, and `reference` calls them with float64 arrays. The state of each
optimizer is declared in `settings.parameters`.
"""

import math

import numpy as np

from neglm_cli.kernels import overload, register_jitable
from neglm_cli.settings.parameters import ALL_OPTIMIZERS

SGD, ADAGRAD, ADAM, ANCHORED = range(len(ALL_OPTIMIZERS))
KINDS = {name: number for number, name in enumerate(ALL_OPTIMIZERS)}
ONE = np.float32(1)
BETA1, BETA2 = np.float32(0.9), np.float32(0.999)
EPSILON = np.float32(1e-8)
MAX_LAZY_STEPS = 300  # zero-gradient steps after which exp_avg has decayed to nothing: 0.9^300 = 2e-14


def sqrt(x):
    return np.sqrt(x)


@overload(sqrt)
def _sqrt_in_kernels(x):
    return lambda x: math.sqrt(x)  # CUDA has no np.sqrt


@register_jitable
def clip_scale(clip, norm):
    """Return the factor that clips gradients of this norm, over all parameters: float64."""
    return clip / norm if norm > clip else 1.0


@register_jitable
def shrink(p, decay):
    """Return p after weight decay, by the share `decay`."""
    return p - decay * p


@register_jitable
def sgd(p, g, rate):
    return p - rate * g


@register_jitable
def adagrad(p, v, g, rate):
    """Return p and v."""
    v = v + g * g
    return p - rate * g / (sqrt(v) + EPSILON), v


@register_jitable
def adam(p, m, v, g, rate):
    """Return p, m and v. rate: of `step_rate`."""
    m = BETA1 * m + (ONE - BETA1) * g
    v = BETA2 * v + (ONE - BETA2) * g * g
    return p - rate * m / (sqrt(v) + EPSILON), m, v


@register_jitable
def adam_without_gradient(p, m, v, rate):
    """Return p, m and v after a step whose gradient is zero. rate: of `step_rate`."""
    m = BETA1 * m
    v = BETA2 * v
    return p - rate * m / (sqrt(v) + EPSILON), m, v


@register_jitable
def decay_moments(m, v, steps):
    """Return m and v after `steps` steps without gradients, which are too late to change p: see MAX_LAZY_STEPS."""
    return m * BETA1 ** np.float32(steps), v * BETA2 ** np.float32(steps)


@register_jitable
def anchored(p, anchor, g, rate, decay):
    """Return p after a step of SGD that also moves it to its anchor, by the share `decay` of the distance."""
    return p - rate * g + decay * (anchor - p)


@register_jitable
def anchored_without_gradient(p, anchor, kept):
    """Return p after steps whose gradient is zero. kept: of `kept_distance`."""
    return anchor + kept * (p - anchor)


@register_jitable
def kept_distance(decay, steps):
    """Return the share of a parameter's distance to its anchor that `steps` steps without gradients keep."""
    return (ONE - np.float32(decay)) ** np.float32(steps)


@register_jitable
def bias_correction(beta1_power, beta2_power):
    """Return Adam's factor of the learning rate, from β₁^t and β₂^t in float64."""
    return math.sqrt(1 - beta2_power) / (1 - beta1_power)


@register_jitable
def step_rate(kind, rate, step):
    """Return the learning rate of a step, with Adam's bias correction."""
    if kind == ADAM:
        rate *= bias_correction(np.float64(BETA1) ** step, np.float64(BETA2) ** step)
    return np.float32(rate)
