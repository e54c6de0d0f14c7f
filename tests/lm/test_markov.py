"""The paper's point: negative sampling learns the true distribution with the correction, but not without it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.parameters import Shape, initial_parameters
from neglm_cli.lm.scoring import CHUNK, Reader
from neglm_cli.lm.trainer import Trainer
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings
from tests.lm.corpora import Words

WORDS, TRAIN, TEST = 12, 60_000, 30_000
UNKNOWN, END_OF_LINE = 0, 1
SETTINGS = Settings(
    k=20, hidden=24, layers=1, embedding=16, dropout=0.0, epochs=12, batch=20, bptt=20, optimizer="adam", lr=0.01,
    decay=1.5, decay_from=5, threads=1,
)  # fmt: skip


def chain() -> np.ndarray:
    """Make a transition matrix, one row per word: uneven, and some words are much more frequent."""
    random = np.random.default_rng(5)
    frequent = 1.0 / np.arange(1, WORDS + 1)
    weights = frequent * np.exp(1.2 * random.normal(size=(WORDS, WORDS)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def text(probabilities: np.ndarray, length: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    sums = probabilities.cumsum(axis=1)
    ids = np.empty(length, np.int32)
    word = END_OF_LINE
    for position, number in enumerate(random.random(length)):
        word = min(int(np.searchsorted(sums[word], number)), WORDS - 1)
        ids[position] = word
    return ids


@cache
def texts() -> tuple[np.ndarray, np.ndarray]:
    """Return texts of the chain to train and to test on."""
    return text(chain(), TRAIN, 1), text(chain(), TEST, 2)


def perplexities(settings: Settings) -> tuple[float, float]:
    """Return the test perplexity of the trained model, and that of the chain itself."""
    probabilities, (train, test) = chain(), texts()
    counts = np.maximum(np.bincount(train, minlength=WORDS), 1)
    device = CpuDevice(initial_parameters(Shape.of(WORDS, settings), settings), settings, counts, END_OF_LINE)
    device.prepare_training()
    try:
        for _ in Trainer(Words(train), device, settings, Progress()).run():
            pass
        reader = Reader(device.scorer(CHUNK), counts, UNKNOWN, END_OF_LINE)
        reader.read(test)
    finally:
        device.close()
    before = np.append(END_OF_LINE, test[:-1])
    return reader.tally.perplexity, float(np.exp(-np.log(probabilities[before, test]).mean()))


@pytest.mark.parametrize("loss", ["neglm", "neglm-b", "nce", "softmax"])
def test_learns_the_true_distribution(loss: str) -> None:
    found, true = perplexities(replace(SETTINGS, loss=loss))
    assert found == pytest.approx(true, rel=0.01)


def test_learns_it_with_smoothed_noise() -> None:
    found, true = perplexities(replace(SETTINGS, noise_alpha=0.5))
    assert found == pytest.approx(true, rel=0.01)


def test_negative_sampling_without_the_correction_does_not() -> None:
    found, true = perplexities(replace(SETTINGS, loss="neg"))
    assert found > 1.3 * true
