"""Where processes meet that went their own ways."""

import numpy as np
import pytest

from neglm_cli.sgns.averaging import ALL_AFTER, ALWAYS, farther, rows_after
from neglm_cli.sgns.trainer import part_of


def test_frequent_rows_are_averaged_more_often() -> None:
    rows = 1_000_000
    often = np.zeros(rows, int)
    for number in range(1, ALL_AFTER + 1):
        often[: rows_after(number, rows)] += 1
    assert often[0] == ALL_AFTER
    assert often[ALWAYS] == ALL_AFTER // 2
    assert often[3 * ALWAYS] == ALL_AFTER // 4
    assert often[-1] == 1
    assert (np.diff(often) <= 0).all()
    assert rows_after(2, 100) == 100


@pytest.mark.parametrize("processes", [2, 7])
def test_as_far_as_one_process_had_gone(processes: int) -> None:
    """On a way of which every step covers the same share of what is left."""
    share, steps = 0.1, np.array([1, 3, 20, 1000])
    one = 1 - (1 - share) ** (steps * processes)
    each = 1 - (1 - share) ** steps
    np.testing.assert_allclose(farther(steps, share, processes) * each, one, rtol=1e-9)


def test_between_a_sum_and_a_mean() -> None:
    factors = farther(np.array([0, 1e-6, 1, 10, 1e6]), 0.1, 4)
    assert factors[0] == pytest.approx(4)
    assert factors[-1] == pytest.approx(1)
    assert (np.diff(factors) <= 1e-9).all()


def test_the_more_processes_the_less_they_do_unseen() -> None:
    together = [processes * part_of(processes) for processes in (2, 3, 4)]
    assert together == sorted(together, reverse=True)
    assert part_of(1000) > 0
