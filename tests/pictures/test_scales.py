"""Ticks are round, and not too many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.pictures.scales import clock, nice_ticks, words


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.booleans())
def test_ticks(low: float, span: float, logarithmic: bool) -> None:
    logarithmic = logarithmic and low > 1e-6
    ticks = nice_ticks(low, low + span, 6, logarithmic)
    assert 2 <= len(ticks) <= 6
    assert ticks == sorted(set(ticks))
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)


def test_round_numbers() -> None:
    assert nice_ticks(0, 35, 7) == [0, 10, 20, 30]
    assert nice_ticks(-0.7, 2.8, 5) == [0, 1, 2]
    assert nice_ticks(0.3, 0.31, 5) == pytest.approx([0.3, 0.305, 0.31])
    assert nice_ticks(90, 450, 5, logarithmic=True) == [100, 150, 200, 300]
    assert nice_ticks(4, 4, 5) == [4]
    assert nice_ticks(0.5e-4, 2e6, 4, logarithmic=True) == [1e-4, 0.1, 100, 1e5]


def test_units() -> None:
    assert words(35e6).name == "million words"
    assert words(1500).name == "words"
    assert clock(7199).name == "minutes"
    assert clock(7200).name == "hours"
