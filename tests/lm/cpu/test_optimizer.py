"""Optimizers that skip rows without a gradient agree with the reference, which updates all rows."""

import math

import numpy as np
import pytest

from neglm_cli.kernels import kernel
from neglm_cli.lm import reference
from neglm_cli.lm.cpu.arrays import StepConfig
from neglm_cli.lm.cpu.optimizer import (
    Moments,
    Update,
    flush_decay,
    flush_lazy_updates,
    make_update,
    update_range,
    update_rows,
)
from neglm_cli.lm.optimizers import KINDS

RATE = 0.01
ROWS, WIDTH = 5, 6


@kernel
def update_rows_2_and_3(moments: Moments, g: np.ndarray, kind: int, step: int, clip: float) -> None:
    update_range(moments, g, 2, 4, make_update(kind, step, RATE, clip, 1.0))


def model_of(table: np.ndarray) -> reference.Model:
    return reference.Model(table, [], [], [], np.zeros((1, 1)), np.zeros(1))


def config(kind: str, step: int, clip: float) -> StepConfig:
    return StepConfig(1, 1, 1, 0, 0, np.float32(0), np.float32(1), clip, KINDS[kind], step, RATE)


class Table:
    """A table that the kernels update, and the same table updated by the reference."""

    def __init__(self, kind: str, exact: bool) -> None:
        self.kind, self.exact, self.step = kind, exact, 0
        self.start = np.random.default_rng(2).standard_normal((ROWS, WIDTH)).astype(np.float32)
        self.moments = Moments(self.start.copy(), *np.zeros((2, ROWS, WIDTH), np.float32))
        self.last_update_step = np.zeros(ROWS, np.int32)
        self.expected = model_of(self.start.astype(np.float64))
        self.optimizer = reference.Optimizer(kind, not exact, math.inf, self.expected.like(), self.expected.like())

    def train(self, rows: list[int], scale: float = 1.0) -> None:
        """Take one step, with gradients for some rows."""
        self.step += 1
        g = np.random.default_rng(self.step).standard_normal((len(rows), WIDTH)).astype(np.float32)
        words = np.array(rows, np.int32)
        if self.exact:
            self._flush(words, self.step)
        update_rows(self.moments, words, g, self.last_update_step, config(self.kind, self.step, scale), 1.0)
        gradient = self.expected.like()
        gradient.embedding[words] = scale * g
        self.optimizer.step(self.expected, gradient, RATE, (words, np.zeros(0, np.int64)))

    def _flush(self, words: np.ndarray, step: int) -> None:
        flush_lazy_updates(self.moments, self.last_update_step, words, step, RATE)

    @property
    def p(self) -> np.ndarray:
        return self.moments.parameter

    def compare(self) -> None:
        if self.exact:
            self._flush(np.arange(ROWS, dtype=np.int32), self.step + 1)
        np.testing.assert_allclose(self.p, self.expected.embedding, rtol=0, atol=2e-5)
        np.testing.assert_allclose(self.moments.exp_avg_sq, self.optimizer.exp_avg_sq.embedding, rtol=5e-5)
        np.testing.assert_allclose(self.moments.exp_avg, self.optimizer.exp_avg.embedding, rtol=1e-5, atol=1e-6)


def rows_at(step: int, gap: int) -> list[int]:
    """One row has a gradient at every step, one occasionally, one late, one only at first, one never."""
    return [0] + [1] * (step % (gap + 1) == 0) + [2] * (step > gap) + [3] * (step == 1)


@pytest.mark.parametrize("gap", [1, 5, 400])
def test_exact_adam_applies_skipped_updates(gap: int) -> None:
    table = Table("adam", exact=True)
    for step in range(2 * gap + 4):
        table.train(rows_at(step, gap))
    table.compare()
    np.testing.assert_array_equal(table.p[4], table.start[4])
    assert table.last_update_step.tolist() == [table.step] * 4 + [0]


@pytest.mark.parametrize("gap", [1, 5, 400])
@pytest.mark.parametrize("kind", KINDS)
def test_lazy_updates(kind: str, gap: int) -> None:
    table = Table(kind, exact=False)
    for step in range(2 * gap + 4):
        table.train(rows_at(step, gap), scale=0.3)
    table.compare()
    np.testing.assert_array_equal(table.p[4], table.start[4])


@pytest.mark.parametrize("gap", [1, 5, 400])
def test_anchored_rows_apply_skipped_decay(gap: int) -> None:
    decay, all_rows = 0.01, np.arange(ROWS, dtype=np.int32)
    start = np.random.default_rng(2).standard_normal((ROWS, WIDTH)).astype(np.float32)
    moments = Moments(start.copy(), start.copy(), np.zeros((1, 1), np.float32))
    last_update_step, expected = np.zeros(ROWS, np.int32), start.astype(float)
    steps = 2 * gap + 4
    for step in range(1, steps + 1):
        rows = np.array(rows_at(step, gap), np.int32)
        g = np.random.default_rng(step).standard_normal((len(rows), WIDTH)).astype(np.float32)
        flush_decay(moments, last_update_step, rows, step, decay)
        update_rows(moments, rows, g, last_update_step, config("anchored", step, 1.0)._replace(decay=decay), 1.0)
        gradient = np.zeros_like(expected)
        gradient[rows] = g
        expected += decay * (start - expected) - RATE * gradient
    assert (abs(moments.parameter - expected).max(axis=1) > 1e-4).any()  # rows still lag
    for _ in range(2):  # flushing twice is flushing once
        flush_decay(moments, last_update_step, all_rows, steps + 1, decay)
        np.testing.assert_allclose(moments.parameter, expected, rtol=0, atol=2e-5)
    np.testing.assert_array_equal(moments.parameter[4], start[4])


def test_skipped_updates_matter() -> None:
    """Otherwise, the tests above would be vacuous."""
    ends = []
    for exact in (False, True):
        table = Table("adam", exact)
        for step in range(20):
            table.train(rows_at(step, 5))
        table.compare()
        ends.append(table.p)
    assert (abs(ends[0] - ends[1])[[1, 3]] > 1e-3).any(axis=1).all()


def test_flushing_twice_is_flushing_once() -> None:
    table = Table("adam", exact=True)
    for step in range(10):
        table.train(rows_at(step, 4))
    table.compare()
    before = table.p.copy()
    table.compare()
    np.testing.assert_array_equal(table.p, before)


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_are_updated_as_rows_are(kind: str) -> None:
    random = np.random.default_rng(4)
    start, g = random.standard_normal((2, ROWS, WIDTH)).astype(np.float32)
    ranged, expected = (Moments(start.copy(), *np.zeros((2, ROWS, WIDTH), np.float32)) for _ in range(2))
    rows, clip = np.array([2, 3], np.int32), 0.5
    for step in range(1, 4):
        update_rows_2_and_3(ranged, g, KINDS[kind], step, clip)
        update_rows(expected, rows, g[rows], np.zeros(ROWS, np.int32), config(kind, step, clip), 1.0)
    for found, wanted in zip(ranged, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal((ranged.parameter != start).any(axis=1), [False, False, True, True, False])


@pytest.mark.parametrize(("norm", "scale"), [(0.5, 1.0), (2.0, 1.0), (8.0, 0.25)])
def test_clipping(norm: float, scale: float) -> None:
    update = Update(*kernel(make_update)(KINDS["sgd"], 1, RATE, 2.0, norm, 0.0))
    assert update.scale == scale
