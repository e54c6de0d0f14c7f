"""Memory estimates match the memory that is allocated."""

import resource
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.footprint import footprint
from neglm_cli.lm.parameters import Shape
from neglm_cli.settings.train_lm import Settings
from tests.lm.making import device

VARIANTS: list[dict[str, Any]] = [
    {},
    {"optimizer": "adam", "layers": 1},
    {"optimizer": "adagrad", "noise": "batch"},
    {"noise": "step", "embedding": 48},
    {"loss": "softmax"},
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_estimate_matches_allocation(variant: dict[str, Any]) -> None:
    settings = replace(Settings(hidden=64, embedding=64, k=50, threads=2), **variant)
    announced = footprint(Shape(3000, settings.embedding, 64, settings.layers), settings, np.ones(3000))
    device(settings, 3).close()  # compiles kernels, which takes memory, too
    tracemalloc.start()
    made = device(settings, 3000)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    made.close()
    assert sum(announced.values()) == pytest.approx(allocated, rel=0.02)


def test_estimating_takes_no_memory() -> None:
    """Not even for a model that fits no machine."""
    shape, settings = Shape(1_000, 100_000, 100_000, 8), Settings(embedding=100_000, hidden=100_000, layers=8, k=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    announced = footprint(shape, settings, np.ones(shape.words))
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert announced["parameters"] > 2e12
    assert taken < 1e8
