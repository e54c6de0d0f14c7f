"""L-BFGS: climbing a smooth function of many variables, by its gradients alone."""

from collections.abc import Callable

import numpy as np

MEMORY = 20  # steps that are remembered
HALVINGS = 40
RISE = 1e-4  # of what the slope promises, at least
CURVATURE = 1e-12

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def climb(
    function: Function, point: np.ndarray, done: Callable[[int, float, float], bool], most: int
) -> tuple[np.ndarray, int, bool]:
    """From this point upwards, until `done` (called with the iteration, the value before and the value) says so.

    Returns the point, the number of iterations, and whether it was done, or no step would climb any more.
    """
    value, gradient = function(point)
    steps: list[tuple[np.ndarray, np.ndarray, float]] = []  # s, y and 1/s·y of the last steps
    for iteration in range(1, most + 1):
        direction = _direction(gradient, steps)
        slope = float(direction @ gradient)
        length = 1.0 if steps else 1 / max(1e-300, float(np.abs(gradient).max()))
        for _ in range(HALVINGS):
            new_point = point + length * direction
            new_value, new_gradient = function(new_point)
            if new_value >= value + RISE * length * slope:
                break
            length /= 2
        else:
            if not steps:
                return point, iteration, True
            steps = []  # what is remembered misleads: go on with the gradient
            continue
        s, y = new_point - point, gradient - new_gradient
        if s @ y > CURVATURE * (s @ s):
            steps = [*steps[1 - MEMORY :], (s, y, 1 / float(s @ y))]
        before, point, value, gradient = value, new_point, new_value, new_gradient
        if done(iteration, before, value):
            return point, iteration, True
    return point, most, False


def _direction(gradient: np.ndarray, steps: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """The gradient times the inverse Hessian that the last steps suggest (the two-loop recursion)."""
    direction = gradient.copy()
    weights = []
    for s, y, inverse in reversed(steps):
        weight = inverse * float(s @ direction)
        direction -= weight * y
        weights.append(weight)
    if steps:
        _, y, inverse = steps[-1]
        direction /= inverse * float(y @ y)
    for (s, y, inverse), weight in zip(steps, reversed(weights), strict=True):
        direction += (weight - inverse * float(y @ direction)) * s
    return direction
