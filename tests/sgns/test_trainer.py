"""The trainer: learns, resumes, and detects divergence."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.settings.embed import Settings
from neglm_cli.sgns import textsource
from neglm_cli.sgns.job import Job, pairs_job, resume
from neglm_cli.sgns.trainer import DivergedError, Trained
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors
from tests.sgns.making import job_of, some_text


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textsource, "SEGMENT", 1000)


def trained(job: Job) -> tuple[np.ndarray, np.ndarray]:
    for _ in job.trainer().run():
        pass
    return job.tables.inputs[:], job.tables.outputs[:]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_deterministic(tmp_path: Path, threads: int) -> None:
    def run(seed: int = 1) -> np.ndarray:
        return trained(job_of(some_text(), tmp_path, threads=threads, deterministic=True, seed=seed))[0]

    first = run()
    np.testing.assert_array_equal(run(), first)
    assert (run(seed=2) != first).any()


@pytest.mark.parametrize("settings", [{"deterministic": True, "threads": 2}, {"threads": 1}])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, settings: dict[str, Any]) -> None:
    whole = trained(job_of(some_text(), tmp_path, **settings))
    for stop in (1, 7, 19, 24):  # segments; an epoch has 21
        job = job_of(some_text(), tmp_path, **settings)
        trainer = job.trainer()
        running = trainer.run()
        for _ in range(stop):
            next(running)
        running.close()
        job.done = trainer.done
        assert 0 < job.done < job.total
        job.save(str(tmp_path / "partial"))
        other = job_of(some_text(), tmp_path, **settings)
        resume(other, Vectors.load(str(tmp_path / "partial")), "partial")
        assert other.done == job.done
        for mine, expected in zip(trained(other), whole, strict=True):
            np.testing.assert_array_equal(mine, expected)


def test_drain(tmp_path: Path) -> None:
    """Submitted segments are finished and counted once."""
    job = job_of(some_text(), tmp_path, threads=2)
    trainer = job.trainer()
    running = trainer.run()
    pairs = next(running).pairs
    before = trainer.done
    pairs += sum(finished.pairs for finished in trainer.drain())
    assert trainer.done > before
    pairs += sum(finished.pairs for finished in running)
    assert trainer.done == job.total
    expected = sum(segment.windows().pairs for epoch in range(2) for segment in job.source.segments(epoch, 0))
    assert pairs == expected


def test_words_that_co_occur_become_similar(tmp_path: Path) -> None:
    for settings in ({"threads": 2}, {"threads": 2, "deterministic": True}):
        job = job_of(some_text(100_000), tmp_path, epochs=5, lr=0.05, **settings)
        vectors, _ = trained(job)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        numbers = np.array([int(word[1:]) for word in job.words])
        rare = numbers > 30
        cosines, distance = unit[rare] @ unit[rare].T, abs(numbers[rare][:, None] - numbers[rare])
        assert (
            cosines[(distance > 0) & (distance < 4)].mean() > cosines[(distance > 40) & (distance < 100)].mean() + 0.3
        )


def mean_loss(results: list[Trained]) -> float:
    return sum(result.loss for result in results) / sum(result.pairs for result in results)


def test_the_loss(tmp_path: Path) -> None:
    """6 log 2 at the start, for a pair and five noise words, then decreasing."""
    still = list(job_of(some_text(5000), tmp_path, lr=1e-9).trainer().run())
    assert mean_loss(still) == pytest.approx(6 * math.log(2), rel=1e-4)
    results = list(job_of(some_text(50_000), tmp_path, epochs=3).trainer().run())
    assert mean_loss(results[-10:]) < 0.9 * mean_loss(results[:10]) < 0.9 * 6 * math.log(2)


def test_divergence_raises(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="learning rate of 1e[+]30 is too high; use a smaller --lr"):
        trained(job_of(some_text(), tmp_path, lr=1e30))


def small_pairs() -> tuple[Pairs, np.ndarray]:
    """Return a table of pairs with known PMI, and p(x,y)."""
    table = np.array([[400, 100, 20], [50, 300, 50], [10, 20, 500], [100, 100, 100]])
    rows, columns = np.indices(table.shape)
    words = WordIndex.of([b"a", b"b", b"c", b"d"], table.sum(1))
    contexts = WordIndex.of([b"x", b"y", b"z"], table.sum(0))
    return Pairs(words, contexts, rows.ravel(), columns.ravel(), table.ravel() * 100), table / table.sum()


@pytest.mark.parametrize("objective", ["pmi", "cond"])
@pytest.mark.parametrize("noise_alpha", [1.0, 0.5])
def test_sampled_pairs_approach_the_optimum(objective: str, noise_alpha: float) -> None:
    pairs, p = small_pairs()
    settings = Settings(
        size=8, k=3, noise_alpha=noise_alpha, min_count=1, epochs=40, lr=0.02, objective=objective, threads=1
    )
    x, y = trained(pairs_job(pairs, settings))
    counts = pairs.contexts.counts.astype(float) ** noise_alpha
    noise = counts / counts.sum()
    scores = x.astype(float) @ y.T
    if objective == "pmi":
        expected = np.log(p / (p.sum(1, keepdims=True) * noise)) - np.log(3)
    else:
        expected = np.log(p / p.sum(1, keepdims=True))
    weight = p / p.sum()
    assert (weight * abs(scores - expected)).sum() < 0.05
    assert abs(scores - expected).max() < 0.35
