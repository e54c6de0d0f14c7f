"""CBOW: the kernels against NumPy, reproducibility, and what is learned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.sgns import textsource
from neglm_cli.sgns.cbow import mean_inputs, mean_windows
from neglm_cli.sgns.job import Job
from neglm_cli.sgns.subwords import allocate_composed, train_subwords
from neglm_cli.sgns.tables import Tables
from neglm_cli.sgns.training import Noise, allocate_scratch, allocate_tiles
from tests.sgns import reference
from tests.sgns.making import job_of, resumed_job, some_text
from tests.sgns.test_training import WORDS, noise_for, some_offsets, some_windows

K, RATE, BATCH = 5, 0.02, 3


@pytest.mark.parametrize("size", [1, 17, 100])
def test_kernel_against_numpy(size: int) -> None:
    windows, random, tables = some_windows(300), np.random.default_rng(size), Tables(WORDS, WORDS, size)
    for table in (tables.inputs, tables.outputs):
        table[np.arange(WORDS)] = random.standard_normal((WORDS, size)).astype(np.float32) / np.sqrt(size)
    x, y = (table[:].astype(float) for table in (tables.inputs, tables.outputs))
    means, drawn, expected = mean_windows(windows), noise_for(windows, K), 0.0
    for first in range(0, len(windows.targets), BATCH):
        last = min(first + BATCH, len(windows.targets))
        rows = [windows.contexts[windows.starts[i] : windows.starts[i + 1]] for i in range(first, last)]
        h = np.array([x[contexts].mean(axis=0) for contexts in rows])
        before = h.copy()
        batch = means._replace(
            starts=np.arange(last - first + 1), contexts=np.arange(last - first), targets=means.targets[first:last],
            positions=means.positions[first:last],
        )  # fmt: skip
        expected += reference.train(h, y, batch, drawn[first:], K, some_offsets(), RATE)
        for contexts, update in zip(rows, h - before, strict=True):
            np.add.at(x, contexts, update)
    row_size = tables.inputs.row_size
    composed = allocate_composed(len(windows.targets), means, row_size, BATCH)
    loss = train_subwords(
        mean_inputs(tables.inputs.flat, windows, row_size), tables.outputs.flat, means,
        Noise(drawn, K, some_offsets()), np.float32(RATE), composed, (allocate_tiles(1, K, 1), allocate_scratch(1)),
    )  # fmt: skip
    assert loss == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(tables.inputs[:], x, atol=2e-3)
    np.testing.assert_allclose(tables.outputs[:], y, atol=1e-3)


def test_vectors_start_larger_than_those_of_skip_gram(tmp_path: Path) -> None:
    cbow, skip_gram = (job_of(some_text(), tmp_path, size=10, cbow=kind).tables.inputs[:] for kind in (True, False))
    np.testing.assert_allclose(cbow, 10 * skip_gram, rtol=1e-6)
    assert 0.45 < abs(cbow).max() <= 0.5


@pytest.fixture
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textsource, "SEGMENT", 1000)


def trained(job: Job) -> list[np.ndarray]:
    for _ in job.trainer().run():
        pass
    return [job.tables.inputs[:], job.tables.outputs[:]]


@pytest.mark.usefixtures("_small_segments")
@pytest.mark.parametrize("settings", [{"deterministic": True, "threads": 2}, {"threads": 1}])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings |= {"cbow": True}
    whole = trained(job_of(some_text(), tmp_path, **settings))
    for mine, expected in zip(trained(resumed_job(tmp_path, **settings)), whole, strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("settings", [{}, {"deterministic": True, "threads": 2}])
def test_words_of_the_same_sentences_are_alike(tmp_path: Path, settings: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    lines = []
    for _ in range(4000):
        stem, numbers = random.choice([b"a", b"b"]), random.integers(0, 20, 8)
        lines.append(b" ".join(b"%b%d" % (stem, number) for number in numbers.tolist()))
    job = job_of(b"\n".join(lines) + b"\n", tmp_path, cbow=True, epochs=5, lr=0.05, sample=0.0, **settings)
    inputs, _ = trained(job)
    units = inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
    cosines, first = units @ units.T, np.array([word.startswith(b"a") for word in job.words])
    same = first[:, None] == first
    assert cosines[same].min() > cosines[~same].max()
