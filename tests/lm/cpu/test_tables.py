"""Tables: every occurrence of a word adds to its gradient, and dropout masks are a function of the position."""

from typing import NamedTuple

import numpy as np
import pytest

from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu import tables
from neglm_cli.lm.cpu.arrays import sparse_gradients
from neglm_cli.lm.cpu.gemm import Reduction
from neglm_cli.lm.cpu.tables import Dropout, SparseGradients, gather_gradients, group_occurrences

dropout, lookup = kernel(tables.dropout), kernel(tables.lookup)

WORDS = 40
DROPPED = 0.3
THRESHOLD = round(DROPPED * 65536)
KEY = np.uint64(12345)


class Inputs(NamedTuple):
    ids: np.ndarray
    input_scale: np.ndarray


class Worker(NamedTuple):
    thread: int
    threads: int


def grouped(
    words: np.ndarray, vocabulary: int, threads: int, width: int, source: np.ndarray, parts: int = 1
) -> SparseGradients:
    """Assign occurrences to parts in turn."""
    sparse = sparse_gradients(vocabulary, width, len(words), parts, threads)
    sparse.source[:] = source
    sparse.part[:] = np.arange(len(words)) % parts
    for thread in range(threads):
        group_occurrences(words, sparse, parts, Worker(thread, threads))
    return sparse


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("occurrences", [1, 10, 500])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_one_thread_finds_all_occurrences_of_a_word(threads: int, occurrences: int, parts: int) -> None:
    words = np.random.default_rng(occurrences).integers(0, WORDS, occurrences).astype(np.int32)
    sparse = grouped(words, WORDS, threads, 16, np.zeros(occurrences), parts)
    found = []
    for thread in range(threads):
        start = 0
        for slot in range(sparse.counts[thread, 0]):
            word = sparse.rows[thread][slot]
            found.append(word)
            for part in range(parts):
                end = sparse.ends[thread][slot * parts + part]
                expected = np.flatnonzero((words == word) & (np.arange(occurrences) % parts == part))
                np.testing.assert_array_equal(sparse.order[thread][start:end], expected)
                start = end
    assert sorted(found) == np.unique(words).tolist()
    assert (sparse.slot == -1).all()


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_have_words_of_all_frequencies(threads: int) -> None:
    """Words of similar frequency are spread evenly over threads."""
    for first in (0, 70, 900):
        words = np.arange(first, first + 10 * threads, dtype=np.int32)
        sparse = grouped(words, 1000, threads, 16, np.zeros(len(words)))
        assert (abs(sparse.counts[:, 0] - 10) <= 2).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_gradients_of_a_word_are_summed(threads: int, parts: int) -> None:
    """A second run in the same arrays, with other factors, keeps nothing of the first."""
    occurrences, rows, width = 300, 50, 32
    random = np.random.default_rng(threads)
    source = random.standard_normal((rows, width)).astype(np.float32)
    source_rows = random.integers(0, rows, occurrences)
    words = random.integers(0, WORDS, occurrences).astype(np.int32)
    sparse = grouped(words, WORDS, threads, width, source_rows, parts)
    reduction = Reduction(np.zeros(parts + 1, np.int64), np.full((2, width + 3), np.nan, np.float32))
    for _ in range(2):
        sparse.factors[:] = random.standard_normal(occurrences)
        expected = np.zeros((WORDS, width))
        np.add.at(expected, words, sparse.factors[:, None].astype(np.float64) * source[source_rows])
        found, squares = np.zeros((WORDS, width)), 0.0
        for thread in range(threads):
            squares += gather_gradients(sparse, source, reduction, thread)
            count = sparse.counts[thread, 0]
            found[sparse.rows[thread][:count]] += sparse.values[thread][:count]
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert squares == pytest.approx((expected**2).sum(), rel=1e-5)


def test_lookup() -> None:
    random = np.random.default_rng(0)
    table, ids = random.standard_normal((WORDS, 16)).astype(np.float32), random.integers(0, WORDS, 9)
    x = np.full((9, 16), -1, np.float32)
    scale = np.array([1, 2, 0] * 3, np.float32)
    lookup(table, Inputs(ids, scale), x, 15, 2, 7)
    np.testing.assert_array_equal(x[2:7, :15], scale[2:7, None] * table[ids[2:7], :15])
    assert (x[:, 15:] == -1).all()
    assert (x[:2] == -1).all()
    assert (x[7:] == -1).all()


def dropped_from(
    source: np.ndarray, positions: np.ndarray, key: np.uint64 = KEY, threshold: int = THRESHOLD
) -> np.ndarray:
    """Apply dropout to all units of all rows."""
    target = np.full_like(source, np.nan)
    dropout(source, target, source.shape[1], Dropout(positions, key, threshold), 0, len(source))
    return target


def mask(rows: int, units: int, first: int = 0, key: np.uint64 = KEY) -> np.ndarray:
    positions = np.arange(first, first + rows, dtype=np.uint64)
    return dropped_from(np.ones((rows, units), np.float32), positions, key)


@pytest.mark.parametrize("units", [1, 4, 7, 300])
def test_units_are_dropped_with_the_given_probability(units: int) -> None:
    """Per unit, per row and overall; the remaining units are scaled up."""
    rows = 20_000
    found = mask(rows, units)
    rate = THRESHOLD / 65536
    np.testing.assert_array_equal(np.unique(found), np.array([0, 1 / (1 - rate)], np.float32))
    for axis, of in ((0, rows), (1, units), (None, rows * units)):
        deviation = np.sqrt(rate * (1 - rate) / of)
        assert (abs((found == 0).mean(axis=axis) - rate) < 6 * deviation).all()
    assert found.mean() == pytest.approx(1, abs=6 * np.sqrt(rate / (1 - rate) / found.size))


def test_units_are_dropped_independently() -> None:
    """Units that share a draw are uncorrelated, and so are neighboring rows."""
    left = mask(20_000, 12) > 0
    among_units = np.corrcoef(left.T)
    among_rows = [np.corrcoef(left[:-1, unit], left[1:, unit])[0, 1] for unit in range(12)]
    bound = 6 / np.sqrt(len(left))
    assert (abs(among_units - np.eye(12)) < bound).all()
    assert (np.abs(among_rows) < bound).all()


@pytest.mark.parametrize("units", [3, 4, 9, 30])
def test_the_same_position_and_key_give_the_same_mask(units: int) -> None:
    """Regardless of the row, for values and for their gradients."""
    random = np.random.default_rng(units)
    values, gradients = random.standard_normal((2, 50, units)).astype(np.float32) + 10
    positions = random.permutation(50).astype(np.uint64)
    expected = mask(50, units)[positions.astype(int)]
    np.testing.assert_array_equal(dropped_from(values, positions), values * expected)
    np.testing.assert_array_equal(dropped_from(gradients, positions), gradients * expected)
    np.testing.assert_array_equal(mask(50, units + 2)[:, :units], mask(50, units))


def test_other_positions_and_keys_give_other_masks() -> None:
    for other in (mask(50, 30, first=50), mask(50, 30, key=np.uint64(12346))):
        agreeing = (mask(50, 30) == other).mean()
        assert agreeing == pytest.approx(DROPPED**2 + (1 - DROPPED) ** 2, abs=0.08)


def test_no_dropout() -> None:
    source = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    np.testing.assert_array_equal(dropped_from(source, np.arange(5, dtype=np.uint64), threshold=0), source)


@pytest.mark.parametrize("threshold", [0, THRESHOLD])
@pytest.mark.parametrize("units", [5, 8])
def test_other_rows_and_units_are_unchanged(units: int, threshold: int) -> None:
    source = np.ones((6, 16), np.float32)
    target = np.full((6, 16), -1, np.float32)
    dropout(source, target, units, Dropout(np.arange(6, dtype=np.uint64), KEY, threshold), 2, 4)
    written = np.zeros((6, 16), bool)
    written[2:4, :units] = True
    np.testing.assert_array_equal(target != -1, written)


def test_in_place() -> None:
    array = np.ones((6, 10), np.float32)
    dropout(array, array, 10, Dropout(np.arange(6, dtype=np.uint64), KEY, THRESHOLD), 0, 6)
    np.testing.assert_array_equal(array, mask(6, 10))
