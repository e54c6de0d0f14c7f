"""Norms, clipping and the updates of the optimizers, against the reference."""

import math
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm import reference
from neglm_cli.lm.cpu.optimizer import Moments, flush_lazy_updates
from neglm_cli.lm.cuda import arrays, optimizer
from neglm_cli.lm.cuda.arrays import SparseGradients
from neglm_cli.lm.cuda.functions import DROPOUT_KEYS, STEP
from neglm_cli.lm.cuda.gpu import Array, Gpu
from neglm_cli.lm.cuda.optimizer import Reduction, Update
from neglm_cli.lm.cuda.staging import step_values
from neglm_cli.lm.optimizers import KINDS, MAX_LAZY_STEPS

ROWS, WIDTH = 6, 5
RATE = 0.05
CLIPS = [0.7, 1e9]


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("dense", [0, 11])
def test_loss_and_norm(gpu: Gpu, blocks: int, dense: int) -> None:
    """Twice, because the ticket must be reset for the next minibatch. Only values of the minibatch count."""
    random = np.random.default_rng(blocks)
    layers, table, losses = (random.standard_normal(size).astype(np.float32) for size in (67, 13, 9))
    gradients = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
    partial, ticket = gpu.upload(np.full(2 * blocks, np.nan)), gpu.zeros(1, np.int32)
    counts = gpu.upload(np.array([4, 9], np.int32))
    arguments = {
        "layers": gpu.upload(layers), "sparse": SparseGradients(gpu.zeros(4, np.int32), counts, gpu.upload(gradients)),
        "dense": gpu.upload(table), "losses": gpu.upload(losses),
    }  # fmt: skip
    for rows in (9, 5):
        result = gpu.upload(np.full(2, np.nan))
        gpu.launch(
            optimizer.loss_and_gradient_norm, blocks, reduction=Reduction(partial, ticket, result), rows=rows,
            dense_size=dense, **arguments,
        )  # fmt: skip
        squares = sum((part.astype(float) ** 2).sum() for part in (layers, gradients[:4], table[:dense]))
        expected = {optimizer.LOSS: losses[:rows].astype(float).sum(), optimizer.NORM: math.sqrt(squares)}
        np.testing.assert_allclose(gpu.download(result), [expected[0], expected[1]], rtol=1e-6)


class Table:
    """A table updated by the kernels, and one updated by the reference."""

    def __init__(self, gpu: Gpu, kind: str, clip: float = math.inf, exact: bool = False) -> None:
        self.gpu, self.kind, self.clip, self.exact, self.step = gpu, kind, clip, exact, 0
        self.start = np.random.default_rng(2).standard_normal((ROWS, WIDTH)).astype(np.float32)
        self.p = gpu.upload(self.start)
        self.m, self.v = gpu.zeros((ROWS, WIDTH)), gpu.zeros((ROWS, WIDTH))
        self.last_update_step = gpu.zeros(ROWS, np.int32)
        self.expected = reference.Model(self.start.astype(float), [], [], [], np.zeros((1, 1)), np.zeros(1))
        self.optimizer = reference.Optimizer(kind, not exact, clip, self.expected.like(), self.expected.like())

    def moments(self) -> arrays.Moments:
        return arrays.Moments(*(array.reshape(-1) for array in (self.p, self.m, self.v)))

    def how(self, norm: float) -> dict[str, Any]:
        """Return arguments common to both kernels that update parameters."""
        update = Update(KINDS[self.kind], min(self.clip, 1e30), self.header(self.step))
        return {"update": update, "result": self.gpu.upload(np.array([np.nan, norm]))}

    def header(self, step: int) -> Array:
        header = np.zeros(DROPOUT_KEYS, np.uint64)
        header[STEP:DROPOUT_KEYS] = step_values(self.kind, step, RATE)
        return self.gpu.upload(header)

    def sparse(self, rows: list[int], values: Array) -> SparseGradients:
        upload = self.gpu.upload
        return SparseGradients(
            upload(np.array([*rows, 0], np.int32)), upload(np.array([len(rows), 0], np.int32)), values
        )  # fmt: skip

    def update(self, rows: list[int], norm: float | None = None) -> None:
        """Update once, with gradients for some rows."""
        gpu = self.gpu
        self.step += 1
        g = np.random.default_rng(self.step).standard_normal((len(rows), WIDTH)).astype(np.float32)
        if self.exact:
            self.flush(rows, self.step)
        gpu.launch(
            optimizer.update_rows, 2, moments=self.moments(), sparse=self.sparse(rows, gpu.upload(g)),
            last_update_step=self.last_update_step,
            **self.how(float(np.sqrt((g.astype(float) ** 2).sum())) if norm is None else norm),
        )  # fmt: skip
        if norm is None:
            gradient = self.expected.like()
            gradient.embedding[rows] = g
            self.optimizer.step(self.expected, gradient, RATE, (np.array(rows), np.zeros(0, np.int64)))

    def flush(self, rows: list[int], step: int) -> None:
        ids, counts, _ = self.sparse(rows, None)
        self.gpu.launch(
            optimizer.flush_lazy_updates, 2, moments=self.moments(), width=WIDTH,
            last_update_step=self.last_update_step, rows=ids, counts=counts,
            header=self.header(step), corrections=self.gpu.upload(optimizer.bias_corrections()),
        )  # fmt: skip

    def compare(self) -> None:
        download = self.gpu.download
        np.testing.assert_allclose(download(self.p), self.expected.embedding, rtol=0, atol=2e-5)
        np.testing.assert_allclose(download(self.v), self.optimizer.exp_avg_sq.embedding, rtol=5e-5)
        np.testing.assert_allclose(download(self.m), self.optimizer.exp_avg.embedding, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_updated(gpu: Gpu, kind: str, clip: float) -> None:
    table = Table(gpu, kind, clip)
    for rows in ([0, 4, 2], [5], [2, 0, 1, 4]):
        table.update(rows)
    table.compare()
    assert gpu.download(table.last_update_step).tolist() == (
        [3, 3, 3, 0, 3, 2] if kind in ("adam", "anchored") else [0] * ROWS
    )
    np.testing.assert_array_equal(gpu.download(table.p)[3], table.start[3])


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_nothing_is_updated_if_the_norm_is_not_finite(gpu: Gpu, norm: float) -> None:
    table = Table(gpu, "adam", 0.7)
    table.update([1, 3], norm)
    np.testing.assert_array_equal(gpu.download(table.p), table.start)
    assert not gpu.download(table.m).any()
    flat = [gpu.upload(np.ones(3, np.float32)) for _ in range(4)]
    gpu.launch(
        optimizer.update_range, 1, moments=arrays.Moments(*flat[:3]), gradients=flat[3], first=0, count=3,
        **Table(gpu, "sgd", 0.7).how(norm),
    )  # fmt: skip
    assert (gpu.download(flat[0]) == 1).all()


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", KINDS)
def test_ranges_are_updated_as_rows_are(gpu: Gpu, kind: str, clip: float) -> None:
    """From the second row to the second last, with gradients of only these rows."""
    table, first, count = Table(gpu, kind, clip), WIDTH, (ROWS - 2) * WIDTH
    for _ in range(3):
        table.step += 1
        g = np.random.default_rng(table.step).standard_normal(count).astype(np.float32)
        norm = float(np.sqrt((g.astype(float) ** 2).sum()))
        gpu.launch(
            optimizer.update_range, 2, moments=table.moments(), gradients=gpu.upload(np.append(g, np.nan)), first=first,
            count=count, **table.how(norm),
        )  # fmt: skip
        gradient = table.expected.like()
        gradient.embedding[1:-1] = g.reshape(-1, WIDTH)
        table.optimizer.step(table.expected, gradient, RATE, (np.arange(1, ROWS - 1), np.zeros(0, np.int64)))
    table.compare()
    np.testing.assert_array_equal(gpu.download(table.p)[[0, -1]], table.start[[0, -1]])


def test_exact_adam_flushes_lazy_updates(gpu: Gpu) -> None:
    """Rows touched in every step, now and then, only at first, only late, and never."""
    table = Table(gpu, "adam", exact=True)
    for rows in ([0, 2, 1], [0], [0], [0], [0, 1, 3], [0], [0, 3], [0]):
        table.update(rows)
    before = gpu.download(table.p)
    for _ in range(2):  # the second call does nothing
        table.flush([3, 0, 2, 1, 4], table.step + 1)
        table.compare()
        assert gpu.download(table.last_update_step).tolist() == [table.step] * 4 + [0, 0]
    assert (before != gpu.download(table.p))[[1, 2]].any(axis=1).all()
    np.testing.assert_array_equal(gpu.download(table.p)[4:], table.start[4:])


@pytest.mark.parametrize("missed", [MAX_LAZY_STEPS, MAX_LAZY_STEPS + 1, MAX_LAZY_STEPS + 200])
def test_updates_vanish_after_many_steps(gpu: Gpu, missed: int) -> None:
    """As on the CPU, whose kernel is tested against the reference over as many steps."""
    table = Table(gpu, "adam", exact=True)
    table.update([1, 2])
    p, m, v, last_update_step = (
        gpu.download(array).copy() for array in (table.p, table.m, table.v, table.last_update_step)
    )
    step = 2 + missed
    table.flush([2, 1], step)
    flush_lazy_updates(Moments(p, m, v), last_update_step, np.array([2, 1], np.int32), step, RATE)
    pairs = ((table.p, p), (table.m, m), (table.v, v), (table.last_update_step, last_update_step))
    for found, expected in pairs:
        np.testing.assert_allclose(gpu.download(found), expected, rtol=1e-5, atol=1e-30)
