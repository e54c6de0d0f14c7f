"""Averaging over ranks."""

import numpy as np
import pytest

from neglm_cli.sgns.averaging import ALL_AFTER, EVERY_ROUND, rows_after, step_scale
from neglm_cli.sgns.trainer import round_size


def test_frequent_rows_are_averaged_more_often() -> None:
    rows = 1_000_000
    often = np.zeros(rows, int)
    for number in range(1, ALL_AFTER + 1):
        often[: rows_after(number, rows)] += 1
    assert often[0] == ALL_AFTER
    assert often[EVERY_ROUND] == ALL_AFTER // 2
    assert often[3 * EVERY_ROUND] == ALL_AFTER // 4
    assert often[-1] == 1
    assert (np.diff(often) <= 0).all()
    assert rows_after(2, 100) == 100


@pytest.mark.parametrize("ranks", [2, 7])
def test_average_equals_as_many_updates_of_one_rank(ranks: int) -> None:
    """If every update covers the same fraction of the distance to the optimum."""
    fraction, updates = 0.1, np.array([1, 3, 20, 1000])
    one = 1 - (1 - fraction) ** (updates * ranks)
    each = 1 - (1 - fraction) ** updates
    np.testing.assert_allclose(step_scale(updates, fraction, ranks) * each, one, rtol=1e-9)


def test_between_a_sum_and_a_mean() -> None:
    factors = step_scale(np.array([0, 1e-6, 1, 10, 1e6]), 0.1, 4)
    assert factors[0] == pytest.approx(4)
    assert factors[-1] == pytest.approx(1)
    assert (np.diff(factors) <= 1e-9).all()


def test_more_ranks_have_shorter_rounds() -> None:
    totals = [ranks * round_size(ranks) for ranks in (2, 3, 4)]
    assert totals == sorted(totals, reverse=True)
    assert round_size(1000) > 0
