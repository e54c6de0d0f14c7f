"""The optimizers: numbers and constants that all backends share; their state is in `settings.parameters`."""

import math

import numpy as np
from numba.extending import register_jitable

from neglm_cli.settings.parameters import OPTIMIZERS

SGD, ADAGRAD, ADAM = range(len(OPTIMIZERS))
KINDS = {name: number for number, name in enumerate(OPTIMIZERS)}
BETA1, BETA2 = np.float32(0.9), np.float32(0.999)
EPSILON = np.float32(1e-8)
FORGOTTEN = 300  # zero-gradient steps after which exp_avg has decayed to nothing: 0.9^300 = 2e-14


@register_jitable
def step_rate(kind, rate, step):
    """The learning rate of a step, with Adam's bias correction."""
    if kind == ADAM:
        rate *= math.sqrt(1 - np.float64(BETA2) ** step) / (1 - np.float64(BETA1) ** step)
    return np.float32(rate)
