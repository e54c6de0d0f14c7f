"""The kernels against the reference, and the reference against the numerical gradient of the objective."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.sgns.source import Windows
from neglm_cli.sgns.tables import Tables
from neglm_cli.sgns.tiles import Embeddings
from neglm_cli.sgns.training import (
    Noise,
    Worker,
    allocate_scratch,
    allocate_team,
    allocate_tiles,
    draw_noise,
    fill_noise,
    train,
    train_deterministic,
)
from tests.sgns import reference

WORDS = 300


def some_windows(count: int, most: int = 10, words: int = WORDS) -> Windows:
    """Return windows of 1 to `most` contexts; with few words, many are equal."""
    random = np.random.default_rng(count)
    sizes = random.integers(1, most + 1, count)
    return Windows(
        np.concatenate([[0], np.cumsum(sizes)]),
        random.integers(0, words, sizes.sum()).astype(np.int32),
        random.integers(0, words, count).astype(np.int32),
        np.sort(random.choice(10 * count, count, replace=False)),
    )


def some_tables(size: int, parts: int = 1, words: int = WORDS) -> Tables:
    random = np.random.default_rng(size)
    tables = Tables(words, words, size, parts)
    for table in (tables.inputs, tables.outputs):
        table[np.arange(words)] = random.standard_normal((words, size)).astype(np.float32) / np.sqrt(size)
    return tables


def noise_for(windows: Windows, k: int, words: int = WORDS) -> np.ndarray:
    counts = 1 + np.arange(words)[::-1] ** 2
    return draw_noise(windows.positions, alias_table(probabilities(counts, 0.75)), np.uint64(9), k)


def some_offsets(words: int = WORDS) -> np.ndarray:
    return np.random.default_rng(4).standard_normal(words).astype(np.float32)


def train_with_kernel(tables: Tables, windows: Windows, drawn: np.ndarray, k: int, rate: float) -> float:
    embeddings = Embeddings(tables.inputs.flat, tables.outputs.flat, tables.inputs.row_size)
    noise = Noise(drawn, k, some_offsets())
    return train(embeddings, windows, noise, np.float32(rate), allocate_tiles(1, k, 10), allocate_scratch(10))


def test_no_windows_need_no_noise() -> None:
    """Also run in Python, where indexing out of bounds is an error."""
    no_positions, noise = np.empty(0, np.int64), alias_table(np.array([0.5, 0.5]))
    fill_noise.py_func(no_positions, noise, np.uint64(9), np.empty((0, 1), np.int32))  # type: ignore[attr-defined]
    assert draw_noise(no_positions, noise, np.uint64(9), 5).size == 0


@pytest.mark.parametrize("size", [1, 16, 17, 100, 304])
@pytest.mark.parametrize("k", [1, 5, 7, 8, 20])
def test_kernel_against_reference(size: int, k: int) -> None:
    windows, tables = some_windows(150), some_tables(size)
    drawn = noise_for(windows, k)
    x, y = tables.inputs[:].astype(float), tables.outputs[:].astype(float)
    expected = reference.train(x, y, windows, drawn, k, some_offsets(), 0.1)
    loss = train_with_kernel(tables, windows, drawn, k, 0.1)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(tables.inputs[:], x, atol=1e-4)
    np.testing.assert_allclose(tables.outputs[:], y, atol=1e-4)


def test_noise_words_drawn_twice_or_equal_to_the_target() -> None:
    """With three words nearly all of them are, and tiles are not full."""
    windows, tables = some_windows(100, words=3), some_tables(20)
    drawn = noise_for(windows, 20, words=3)
    x, y = tables.inputs[:].astype(float), tables.outputs[:].astype(float)
    expected = reference.train(x, y, windows, drawn, 20, some_offsets(), 0.05)
    assert train_with_kernel(tables, windows, drawn, 20, 0.05) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(tables.inputs[:], x, atol=1e-4)
    np.testing.assert_allclose(tables.outputs[:], y, atol=1e-4)


def test_scores_far_from_zero() -> None:
    """σ and the loss are correct where exponentials overflow."""
    windows, tables = some_windows(50), some_tables(100)
    tables.inputs.flat[:] *= 300
    drawn = noise_for(windows, 5)
    x, y = tables.inputs[:].astype(float), tables.outputs[:].astype(float)
    expected = reference.train(x, y, windows, drawn, 5, some_offsets(), 1e-6)
    assert train_with_kernel(tables, windows, drawn, 5, 1e-6) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(tables.outputs[:], y, rtol=1e-4, atol=1e-4)


def test_the_loss_of_nan_is_nan() -> None:
    windows, tables = some_windows(50), some_tables(100)
    tables.inputs[np.array([windows.contexts[7]])] = np.full((1, 100), np.nan, np.float32)
    assert np.isnan(train_with_kernel(tables, windows, noise_for(windows, 5), 5, 0.1))


def test_no_windows() -> None:
    nothing = Windows(np.zeros(1, np.int64), *(np.empty(0, np.int32),) * 2, np.empty(0, np.int64))
    tables = some_tables(10)
    before = tables.inputs[:]
    drawn = np.empty((96, 1), np.int32)
    assert train_with_kernel(tables, nothing, drawn, 5, 0.1) == 0
    np.testing.assert_array_equal(tables.inputs[:], before)


def test_reference_follows_the_gradient() -> None:
    """Each tile adds rate times the numerical gradient of the objective to its rows."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal((2, 4)), random.standard_normal((6, 4))
    positive, total = np.array([1.0, 0, 0, 0, 0, 0]), np.array([1.5, 1, 2, 0.7, 0.7, 0.7])
    offsets = random.standard_normal(6)
    contexts, outputs = [0, 1], list(range(6))
    new_x, new_y, rate, h = x.copy(), y.copy(), 1e-3, 1e-6
    reference.train_tile(new_x, new_y, contexts, outputs, positive, total, offsets, rate)

    def objective() -> float:
        return -reference.loss_of(x @ y.T + offsets, positive, total)

    for table, updated in ((x, new_x), (y, new_y)):
        before = table.copy()
        for index in np.ndindex(*table.shape):
            table[index] += h
            above = objective()
            table[index] -= 2 * h
            slope = (above - objective()) / (2 * h)
            table[index] += h
            assert updated[index] - before[index] == pytest.approx(rate * slope, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", [10, 100])
def test_deterministic_training_gives_the_same_bytes(threads: int, size: int) -> None:
    """For any timing of the threads; and nearly the values of `train`, because batches are small."""
    windows, k = some_windows(500), 10
    drawn = noise_for(windows, k)
    noise = Noise(drawn, k, some_offsets())
    results = []
    for _ in range(3):
        tables = some_tables(size, threads)
        inputs, outputs = tables.inputs, tables.outputs
        team = allocate_team(threads, k, 10)
        with ThreadPoolExecutor(threads) as pool:
            tasks = [
                pool.submit(
                    train_deterministic, Embeddings(inputs.parts[thread], outputs.parts[thread], inputs.row_size),
                    windows, noise, np.float32(1e-3), team, allocate_scratch(10),
                    Worker(thread, threads, team.barrier),
                )
                for thread in range(threads)
            ]  # fmt: skip
            losses = [task.result() for task in tasks]
        assert len(set(losses)) == 1
        results.append((losses[0], tables.inputs[:], tables.outputs[:]))
    for loss, x, y in results[1:]:
        assert loss == results[0][0]
        np.testing.assert_array_equal(x, results[0][1])
        np.testing.assert_array_equal(y, results[0][2])
    tables = some_tables(size)
    before = tables.inputs[:]
    loss = train_with_kernel(tables, windows, drawn, k, 1e-3)
    assert results[0][0] == pytest.approx(loss, rel=1e-3)
    updated = tables.inputs[:] - before
    np.testing.assert_allclose(results[0][1] - before, updated, atol=0.05 * abs(updated).max())


def test_noise_words_serve_several_windows() -> None:
    windows = some_windows(200)
    drawn = noise_for(windows, 5)
    assert drawn.shape == (200 + 96, 1)
    key, table = np.uint64(9), alias_table(probabilities(1 + np.arange(WORDS)[::-1] ** 2, 0.75))
    other = draw_noise(windows.positions[100:], table, key, 5)
    np.testing.assert_array_equal(drawn[96 + 100 :], other[96:])  # a window's own are a function of its position
    assert len(np.unique(drawn[:96])) > 30
