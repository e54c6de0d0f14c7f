"""The optimizers: names and constants that every backend shares."""

import math

import numpy as np
from numba.extending import register_jitable

SGD, ADAGRAD, ADAM = range(3)
KINDS = {"sgd": SGD, "adagrad": ADAGRAD, "adam": ADAM}
BETA1, BETA2 = np.float32(0.9), np.float32(0.999)
EPSILON = np.float32(1e-8)
FORGOTTEN = 300  # steps after which nothing is left of Adam's means: 0.9^300 = 2e-14


@register_jitable
def step_rate(kind, rate, step):
    """The learning rate of a step, with Adam's bias correction."""
    if kind == ADAM:
        rate *= math.sqrt(1 - np.float64(BETA2) ** step) / (1 - np.float64(BETA1) ** step)
    return np.float32(rate)
