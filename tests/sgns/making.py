"""Texts and jobs for tests of training."""

from pathlib import Path
from typing import Any

import numpy as np

from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.job import Job, resume, text_job
from neglm_cli.sgns.textsource import words_with_vectors
from neglm_cli.text.corpus import open_corpus
from neglm_cli.vectors.vectors import Vectors
from tests.text.making import vocabulary_of

SMALL: dict[str, Any] = {"size": 20, "min_count": 1, "sample": 0.01, "epochs": 2}


def some_text(words: int = 20_000, seed: int = 1, vocabulary: int = 200) -> bytes:
    """Return lines of frequent and rare words; words with similar numbers co-occur."""
    random = np.random.default_rng(seed)
    lines, left = [], words
    while left > 0:
        length = min(left, int(random.integers(1, 40)))
        topic = random.integers(0, vocabulary)
        near = np.abs(topic + random.normal(0, 5, length)).astype(int) % vocabulary
        frequent = random.geometric(0.3, length) % vocabulary
        ids = np.where(random.random(length) < 0.5, near, frequent)
        lines.append(b" ".join(b"w%d" % i for i in ids.tolist()))
        left -= length
    return b"\n".join(lines) + b"\n"


def job_of(text: bytes, directory: Path, **settings: Any) -> Job:
    chosen = Settings(**(SMALL | settings))
    vocabulary = vocabulary_of(text, directory=directory)
    words = words_with_vectors(vocabulary, chosen.min_count)
    return text_job(words, open_corpus([str(directory / "0")]), vocabulary.files, chosen, None, lambda sentence: None)


def resumed_job(directory: Path, **settings: Any) -> Job:
    """Return a job that continues one that was interrupted after seven segments."""
    job = job_of(some_text(), directory, **settings)
    trainer = job.trainer()
    running = trainer.run()
    for _ in range(7):
        next(running)
    running.close()
    job.done = trainer.done
    job.save(str(directory / "partial"))
    other = job_of(some_text(), directory, **settings)
    resume(other, Vectors.load(str(directory / "partial")), "partial")
    return other
