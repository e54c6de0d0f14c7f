"""Optimisers that look only at some rows end where the reference does, which looks at all."""

import math

import numpy as np
import pytest

from neglm_cli.lm import reference
from neglm_cli.lm.cpu.optimise import catch_up, move_panels, move_rows
from neglm_cli.lm.optimisers import EPSILON, KINDS

RATE = 0.01
ROWS, WIDTH = 5, 6


def model_of(table: np.ndarray) -> reference.Model:
    return reference.Model(table, [], [], [], np.zeros((1, 1)), np.zeros(1))


class Table:
    """A table that the kernels move, beside the same one of the reference."""

    def __init__(self, kind: str, exact: bool) -> None:
        self.kind, self.exact, self.step = kind, exact, 0
        self.start = np.random.default_rng(2).standard_normal((ROWS, WIDTH)).astype(np.float32)
        self.p = self.start.copy()
        self.m, self.v = np.zeros((2, ROWS, WIDTH), np.float32)
        self.moved = np.zeros(ROWS, np.int32)
        self.expected = model_of(self.start.astype(np.float64))
        self.optimiser = reference.Optimiser(
            kind, not exact, math.inf, self.expected.like(), self.expected.like(), epsilon=float(EPSILON)
        )

    def train(self, rows: list[int], scale: float = 1.0) -> None:
        """One step, with gradients for some rows."""
        self.step += 1
        g = np.random.default_rng(self.step).standard_normal((len(rows), WIDTH)).astype(np.float32)
        words = np.array(rows, np.int32)
        if self.exact:
            self._catch_up(words, self.step)
        rate = RATE
        if self.kind == "adam":
            rate *= math.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step)
        move_rows(
            KINDS[self.kind], self.p, words, len(rows), g, self.m, self.v, self.moved, self.step,
            np.float32(scale), np.float32(rate), EPSILON,
        )  # fmt: skip
        gradient = self.expected.like()
        gradient.embedding[words] = scale * g
        self.optimiser.move(self.expected, gradient, RATE, (words, np.zeros(0, np.int64)))

    def _catch_up(self, words: np.ndarray, step: int) -> None:
        catch_up(self.p, self.m, self.v, self.moved, words, len(words), step, RATE, EPSILON)

    def compare(self) -> None:
        if self.exact:
            self._catch_up(np.arange(ROWS, dtype=np.int32), self.step + 1)
        np.testing.assert_allclose(self.p, self.expected.embedding, rtol=0, atol=2e-5)
        np.testing.assert_allclose(self.v, self.optimiser.squares.embedding, rtol=5e-5)
        np.testing.assert_allclose(self.m, self.optimiser.means.embedding, rtol=1e-5, atol=1e-6)


def rows_at(step: int, gap: int) -> list[int]:
    """One row always, one now and then, one from late on, one at first only, one never."""
    return [0] + [1] * (step % (gap + 1) == 0) + [2] * (step > gap) + [3] * (step == 1)


@pytest.mark.parametrize("gap", [1, 5, 400])
def test_rows_catch_up_with_exact_adam(gap: int) -> None:
    table = Table("adam", exact=True)
    for step in range(2 * gap + 4):
        table.train(rows_at(step, gap))
    table.compare()
    np.testing.assert_array_equal(table.p[4], table.start[4])
    assert table.moved.tolist() == [table.step] * 4 + [0]


@pytest.mark.parametrize("gap", [1, 5, 400])
@pytest.mark.parametrize("kind", KINDS)
def test_lazy_moves(kind: str, gap: int) -> None:
    table = Table(kind, exact=False)
    for step in range(2 * gap + 4):
        table.train(rows_at(step, gap), scale=0.3)
    table.compare()
    np.testing.assert_array_equal(table.p[4], table.start[4])


def test_catching_up_changes_where_rows_end() -> None:
    """Else the tests above would say nothing."""
    ends = []
    for exact in (False, True):
        table = Table("adam", exact)
        for step in range(20):
            table.train(rows_at(step, 5))
        table.compare()
        ends.append(table.p)
    assert (abs(ends[0] - ends[1])[[1, 3]] > 1e-3).any(axis=1).all()


def test_catching_up_twice_is_catching_up_once() -> None:
    table = Table("adam", exact=True)
    for step in range(10):
        table.train(rows_at(step, 4))
    table.compare()
    before = table.p.copy()
    table.compare()
    np.testing.assert_array_equal(table.p, before)


@pytest.mark.parametrize("kind", KINDS)
def test_panels_move_as_rows_do(kind: str) -> None:
    random = np.random.default_rng(4)
    start, g = random.standard_normal((2, ROWS, WIDTH)).astype(np.float32)
    scale, rate = np.float32(0.5), np.float32(RATE)
    p, expected = start.copy(), start.copy()
    m, v, other_m, other_v = np.zeros((4, ROWS, WIDTH), np.float32)
    rows = np.array([2, 3], np.int32)
    for _ in range(3):
        move_panels(KINDS[kind], p, g, m, v, scale, rate, EPSILON, 2, 4)
        moved = np.zeros(ROWS, np.int32)
        move_rows(KINDS[kind], expected, rows, 2, g[rows], other_m, other_v, moved, 1, scale, rate, EPSILON)
    for found, wanted in ((p, expected), (m, other_m), (v, other_v)):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal((p != start).any(axis=1), [False, False, True, True, False])
