"""Random numbers: equal in kernels and in NumPy, uniform, and independent across positions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.kernels import kernel
from neglm_cli.objective.random import NOISE, SUBSAMPLE, below, draw, stream, unit

numbers = st.integers(0, 2**64 - 1)


@kernel
def compute(
    key: np.uint64, counters: np.ndarray, limit: np.uint64, bits: np.ndarray, limited: np.ndarray, units: np.ndarray
) -> None:
    for i in range(counters.size):
        bits[i] = draw(key, counters[i])
        limited[i] = below(bits[i], limit)
        units[i] = unit(bits[i])


def plain(key: int, counter: int) -> int:
    """Compute the generator in plain integers, as its authors define it."""
    mask = 2**64 - 1
    z = (key + (counter + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_known_values() -> None:
    """The first outputs of splitmix64 with seed 0."""
    bits = draw(np.zeros(3, np.uint64), np.arange(3, dtype=np.uint64))
    assert bits.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@given(numbers, st.lists(numbers, min_size=1, max_size=20), st.integers(1, 2**32))
def test_kernels_numpy_and_integers_agree(key: int, counters: list[int], limit: int) -> None:
    array = np.array(counters, np.uint64)
    bits, limited = np.empty((2, len(counters)), np.uint64)
    units = np.empty(len(counters), np.float32)
    compute(np.uint64(key), array, np.uint64(limit), bits, limited, units)
    by_numpy = draw(np.array([key], np.uint64), array)
    assert bits.tolist() == by_numpy.tolist() == [plain(key, counter) for counter in counters]
    assert limited.tolist() == below(by_numpy, np.uint64(limit)).tolist()
    assert (limited < limit).all()
    assert units.tolist() == unit(by_numpy).tolist()
    assert ((units >= 0) & (units < 1)).all()


def test_streams_differ_by_seed_purpose_and_epoch() -> None:
    keys = {
        int(stream(seed, purpose, epoch)) for seed in range(20) for purpose in (SUBSAMPLE, NOISE) for epoch in range(20)
    }
    assert len(keys) == 800
    assert stream(3, NOISE, 1) == stream(3, NOISE, 1)


@pytest.mark.parametrize("limit", [2, 3, 10])
def test_uniform(limit: int) -> None:
    count = 100_000
    bits = draw(np.array([stream(1, NOISE)]), np.arange(count, dtype=np.uint64))
    observed = np.bincount(below(bits, np.uint64(limit)).astype(int), minlength=limit)
    assert abs(observed - count / limit).max() < 5 * np.sqrt(count / limit)
    assert abs(unit(bits).mean() - 0.5) < 5 / np.sqrt(12 * count)


def test_adjacent_positions_are_independent() -> None:
    """Bits of adjacent positions are uncorrelated, and so are bits of different streams."""
    counters = np.arange(100_000, dtype=np.uint64)
    one, other = (draw(np.array([stream(1, NOISE, epoch)]), counters) for epoch in (0, 1))
    for left, right in ((one[1:], one[:-1]), (one, other)):
        for shift in range(64):
            same = np.mean(((left >> np.uint64(shift)) ^ (right >> np.uint64(63 - shift))) & np.uint64(1))
            assert abs(same - 0.5) < 0.01
