"""Sums of exponentials by SIMD agree with NumPy's."""

import numpy as np
import pytest

from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu.softmax import LOWEST, _accumulate_row


@kernel
def accumulate(scores, offsets, starts, words, highest, sums):  # type: ignore[no-untyped-def]
    """Add blocks of scores, one after the other, to the log-sum-exp of row 1."""
    for start in starts:
        _accumulate_row(scores, offsets, (start, start), words, highest, sums, 1)


def log_sum_exp(scores: np.ndarray, offsets: np.ndarray, starts: list[int], words: int) -> float:
    highest, sums = np.full(2, LOWEST), np.zeros(2)
    accumulate(scores[None], offsets, np.array(starts), words, highest, sums)
    assert (highest[0], sums[0]) == (LOWEST, 0)
    return float(highest[1] + np.log(sums[1]))


@pytest.mark.parametrize("words", [1, 7, 16, 33, 48])
@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_blocks_of_scores(words: int, scale: float) -> None:
    random = np.random.default_rng(words)
    scores, offsets = random.normal(scale=scale, size=(2, 150)).astype(np.float32)
    starts = [50, 0, 100]
    read = [(scores + offsets)[start : start + words].astype(np.float64) for start in starts]
    wanted = np.logaddexp.reduce(np.concatenate(read))
    assert log_sum_exp(scores, offsets, starts, words) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_nan_stays_nan() -> None:
    scores, offsets = np.zeros((2, 40), np.float32)
    for position in (3, 36):
        broken = scores.copy()
        broken[position] = np.nan
        assert np.isnan(log_sum_exp(broken, offsets, [0], 40))
