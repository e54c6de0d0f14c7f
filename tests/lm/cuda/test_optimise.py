"""Norms, clipping and the moves of the optimisers, as the reference makes them."""

import math
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm import reference
from neglm_cli.lm.cpu.optimizer import Moments, flush_lazy_updates
from neglm_cli.lm.cuda import optimise
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.optimizers import EPSILON, FORGOTTEN, KINDS, step_rate

ROWS, WIDTH = 6, 5
RATE = 0.05
CLIPS = [0.7, 1e9]


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("dense", [0, 11])
def test_loss_and_norm(gpu: Gpu, blocks: int, dense: int) -> None:
    """Twice: the ticket is ready for the next minibatch. Only what belongs to the minibatch counts."""
    random = np.random.default_rng(blocks)
    layers, table, losses = (random.standard_normal(size).astype(np.float32) for size in (67, 13, 9))
    gradients = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
    partial, ticket = gpu.upload(np.full(2 * blocks, np.nan)), gpu.zeros(1, np.int32)
    arrays = [gpu.upload(array) for array in (layers, gradients, np.array([4, 9], np.int32), table, losses)]
    for rows in (9, 5):
        record = gpu.upload(np.full(2, np.nan))
        gpu.launch(optimise.sum_up, blocks, *arrays, partial, ticket, record, rows, dense)
        squares = sum((part.astype(float) ** 2).sum() for part in (layers, gradients[:4], table[:dense]))
        expected = {optimise.LOSS: losses[:rows].astype(float).sum(), optimise.NORM: math.sqrt(squares)}
        np.testing.assert_allclose(gpu.download(record), [expected[0], expected[1]], rtol=1e-6)


class Table:
    """A table that the kernels move, beside the same one of the reference."""

    def __init__(self, gpu: Gpu, kind: str, clip: float = math.inf, exact: bool = False) -> None:
        self.gpu, self.kind, self.clip, self.exact, self.step = gpu, kind, clip, exact, 0
        self.start = np.random.default_rng(2).standard_normal((ROWS, WIDTH)).astype(np.float32)
        self.p = gpu.upload(self.start)
        self.m, self.v = gpu.zeros((ROWS, WIDTH)), gpu.zeros((ROWS, WIDTH))
        self.moved = gpu.zeros(ROWS, np.int32)
        self.expected = reference.Model(self.start.astype(float), [], [], [], np.zeros((1, 1)), np.zeros(1))
        self.optimizer = reference.Optimizer(
            kind, not exact, clip, self.expected.like(), self.expected.like(), epsilon=float(EPSILON)
        )

    def how(self, norm: float) -> tuple[Any, ...]:
        record = self.gpu.upload(np.array([np.nan, norm]))
        return record, min(self.clip, 1e30), step_rate(KINDS[self.kind], RATE, self.step), EPSILON

    def move(self, rows: list[int], norm: float | None = None) -> np.ndarray:
        """One step, with gradients for some rows; returns their counts, which were not zero before."""
        gpu = self.gpu
        self.step += 1
        g = np.random.default_rng(self.step).standard_normal((len(rows), WIDTH)).astype(np.float32)
        words, found = gpu.upload(np.array([*rows, 0], np.int32)), gpu.upload(np.array([len(rows), 0], np.int32))
        counts = gpu.upload(np.arange(1, ROWS + 1, dtype=np.int32))
        if self.exact:
            self.catch_up(rows, self.step)
        gpu.launch(
            optimise.move_rows, 2, KINDS[self.kind], self.p.reshape(-1), words, found, counts, gpu.upload(g),
            self.m.reshape(-1), self.v.reshape(-1), self.moved,
            *self.how(float(np.sqrt((g.astype(float) ** 2).sum())) if norm is None else norm), self.step,
        )  # fmt: skip
        if norm is None:
            gradient = self.expected.like()
            gradient.embedding[rows] = g
            self.optimizer.step(self.expected, gradient, RATE, (np.array(rows), np.zeros(0, np.int64)))
        return gpu.download(counts)

    def catch_up(self, rows: list[int], step: int) -> None:
        gpu = self.gpu
        gpu.launch(
            optimise.catch_up, 2, self.p, self.m, self.v, self.moved, gpu.upload(np.array([*rows, 0], np.int32)),
            gpu.upload(np.array([len(rows), 0], np.int32)), step, RATE, EPSILON,
        )  # fmt: skip

    def compare(self) -> None:
        download = self.gpu.download
        np.testing.assert_allclose(download(self.p), self.expected.embedding, rtol=0, atol=2e-5)
        np.testing.assert_allclose(download(self.v), self.optimizer.exp_avg_sq.embedding, rtol=5e-5)
        np.testing.assert_allclose(download(self.m), self.optimizer.exp_avg.embedding, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_move(gpu: Gpu, kind: str, clip: float) -> None:
    table = Table(gpu, kind, clip)
    for rows in ([0, 4, 2], [5], [2, 0, 1, 4]):
        counts = table.move(rows)
        np.testing.assert_array_equal(np.flatnonzero(counts == 0), sorted(rows))
    table.compare()
    assert gpu.download(table.moved).tolist() == ([3, 3, 3, 0, 3, 2] if kind == "adam" else [0] * ROWS)
    np.testing.assert_array_equal(gpu.download(table.p)[3], table.start[3])


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_nothing_moves_by_what_is_not_a_number(gpu: Gpu, norm: float) -> None:
    """But the rows' counts are ready for the next minibatch."""
    table = Table(gpu, "adam", 0.7)
    counts = table.move([1, 3], norm)
    np.testing.assert_array_equal(gpu.download(table.p), table.start)
    assert not gpu.download(table.m).any()
    assert counts.tolist() == [1, 0, 3, 0, 5, 6]
    flat = [gpu.upload(np.ones(3, np.float32)) for _ in range(4)]
    gpu.launch(optimise.move_all, 1, KINDS["sgd"], *flat, *table.how(norm), 0, 3)
    assert (gpu.download(flat[0]) == 1).all()


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_move_as_rows_do(gpu: Gpu, kind: str, clip: float) -> None:
    """From the second row to the last but one; gradients are those of these rows alone."""
    table, first, count = Table(gpu, kind, clip), WIDTH, (ROWS - 2) * WIDTH
    for _ in range(3):
        table.step += 1
        g = np.random.default_rng(table.step).standard_normal(count).astype(np.float32)
        norm = float(np.sqrt((g.astype(float) ** 2).sum()))
        flat = (array.reshape(-1) for array in (table.m, table.v))
        gpu.launch(
            optimise.move_all, 2, KINDS[kind], table.p.reshape(-1), gpu.upload(np.append(g, np.nan)), *flat,
            *table.how(norm), first, count,
        )  # fmt: skip
        gradient = table.expected.like()
        gradient.embedding[1:-1] = g.reshape(-1, WIDTH)
        table.optimizer.step(table.expected, gradient, RATE, (np.arange(1, ROWS - 1), np.zeros(0, np.int64)))
    table.compare()
    np.testing.assert_array_equal(gpu.download(table.p)[[0, -1]], table.start[[0, -1]])


def test_rows_catch_up_with_exact_adam(gpu: Gpu) -> None:
    """One row always, one now and then, one at first only, one from late on; one never."""
    table = Table(gpu, "adam", exact=True)
    for rows in ([0, 2, 1], [0], [0], [0], [0, 1, 3], [0], [0, 3], [0]):
        table.move(rows)
    before = gpu.download(table.p)
    for _ in range(2):  # the second time there is nothing left to do
        table.catch_up([3, 0, 2, 1, 4], table.step + 1)
        table.compare()
        assert gpu.download(table.moved).tolist() == [table.step] * 4 + [0, 0]
    assert (before != gpu.download(table.p))[[1, 2]].any(axis=1).all()
    np.testing.assert_array_equal(gpu.download(table.p)[4:], table.start[4:])


@pytest.mark.parametrize("missed", [FORGOTTEN, FORGOTTEN + 1, FORGOTTEN + 200])
def test_nothing_moves_any_more_long_after(gpu: Gpu, missed: int) -> None:
    """As on the CPU, whose kernel is tested against the reference over as many steps."""
    table = Table(gpu, "adam", exact=True)
    table.move([1, 2])
    p, m, v, moved = (gpu.download(array).copy() for array in (table.p, table.m, table.v, table.moved))
    step = 2 + missed
    table.catch_up([2, 1], step)
    flush_lazy_updates(Moments(p, m, v), moved, np.array([2, 1], np.int32), step, RATE)
    for found, expected in ((table.p, p), (table.m, m), (table.v, v), (table.moved, moved)):
        np.testing.assert_allclose(gpu.download(found), expected, rtol=1e-5, atol=1e-30)
