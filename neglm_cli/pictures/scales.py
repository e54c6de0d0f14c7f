"""Round ticks and readable units for axes."""

import math
from typing import NamedTuple

STEPS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))  # times powers of ten


class Unit(NamedTuple):
    name: str
    size: float


def words(most: float) -> Unit:
    for name, size in (("billion words", 1e9), ("million words", 1e6), ("thousand words", 1e3)):
        if most >= 2 * size:
            return Unit(name, size)
    return Unit("words", 1)


def clock(most: float) -> Unit:
    for name, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if most >= 2 * size:
            return Unit(name, size)
    return Unit("seconds", 1)


def nice_ticks(low: float, high: float, most: int, logarithmic: bool = False) -> list[float]:
    """Return round numbers from low to high, as many as possible but at most `most`."""
    if logarithmic:
        choices = [_powers(low, high, factors) for factors in STEPS]
        found = max((ticks for ticks in choices if len(ticks) <= most), key=len, default=choices[0])
        if len(found) >= 3:
            return found[:: math.ceil(len(found) / most)]
    if not high > low:
        return [low]
    steps = _round_steps((high - low) / most)
    return next(ticks for step in steps if len(ticks := _multiples(low, high, step)) <= most)


def _multiples(low: float, high: float, step: float) -> list[float]:
    return [round(i * step, 12) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float, steps: tuple[float, ...]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [t for power in range(first, last + 1) for s in steps if low <= (t := round(s * 10.0**power, 12)) <= high]


def _round_steps(least: float) -> list[float]:
    power = 10.0 ** math.floor(math.log10(least))
    return [factor * power for factor in (1, 2, 5, 10, 20, 50)]
