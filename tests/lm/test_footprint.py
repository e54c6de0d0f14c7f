"""The memory that is announced is the memory that is taken."""

from dataclasses import replace
from typing import Any

import pytest

from neglm_cli.lm.footprint import footprint
from neglm_cli.lm.settings import Settings
from tests.lm.making import device

VARIANTS: list[dict[str, Any]] = [
    {},
    {"optimizer": "adam", "layers": 1},
    {"optimizer": "adagrad", "noise": "batch"},
    {"noise": "step", "embedding": 48},
    {"loss": "softmax"},
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_what_is_taken(variant: dict[str, Any]) -> None:
    settings = replace(Settings(hidden=64, embedding=64, k=50, threads=2), **variant)
    made = device(settings, 3000)
    expected, taken = footprint(made.shape, settings), made.memory()
    made.close()
    for purpose, size in taken.items():
        assert expected[purpose] == pytest.approx(size, rel=0.1), purpose
