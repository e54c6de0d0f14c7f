"""Surprisal and entropy equal the reference's distribution, line by line and carried."""

from collections.abc import Iterator

import numpy as np
import pytest

from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import Device
from neglm_cli.lm.lines import Lines
from neglm_cli.lm.reference_device import ReferenceDevice
from neglm_cli.lm.surprisal import SurprisalMeter, surprisal_and_entropy
from tests.lm.making import END_OF_LINE, SMALL, counts, parameters

WORDS = 13


def some_lines(lengths: list[int]) -> Lines:
    random = np.random.default_rng(5)
    return Lines.of([random.integers(0, WORDS, length).astype(np.int32) for length in lengths], END_OF_LINE)


def distributions(text: np.ndarray) -> np.ndarray:
    """Return log p of all words after each prefix of a text, which follows an end of line."""
    inputs = np.concatenate([[END_OF_LINE], text[:-1]])[None]
    device = ReferenceDevice(parameters(SMALL, WORDS), SMALL, counts(WORDS), END_OF_LINE)
    return np.stack(
        [device.scorer(1).score(inputs, np.full_like(inputs, word)).log_probabilities[0] for word in range(WORDS)],
        axis=1,
    )


@pytest.fixture(params=[CpuDevice, ReferenceDevice])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    made: Device = request.param(parameters(SMALL, WORDS), SMALL, counts(WORDS), END_OF_LINE)
    yield made
    made.close()


@pytest.mark.parametrize("capacity", [2, 64])
def test_independent_lines(device: Device, capacity: int) -> None:
    lines = some_lines([3, 0, 6, 3, 1])
    found = SurprisalMeter(device.scorer(capacity), WORDS, END_OF_LINE).measure(lines)
    for tokens, surprisal, entropy in zip(*map(lines.split, (lines.tokens, *found)), strict=True):
        check(tokens, surprisal, entropy)


def test_a_text_is_carried_across_lines_and_calls(device: Device) -> None:
    first, second = some_lines([3, 0, 6]), some_lines([2, 4])
    meter = SurprisalMeter(device.scorer(64), WORDS, END_OF_LINE)
    parts = [meter.measure_text(lines) for lines in (first, Lines.of([], END_OF_LINE), second)]
    tokens = np.concatenate([first.tokens, second.tokens])
    check(tokens, *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def check(tokens: np.ndarray, surprisal: np.ndarray, entropy: np.ndarray) -> None:
    log_p = distributions(tokens)
    np.testing.assert_allclose(surprisal, -log_p[np.arange(len(tokens)), tokens], atol=1e-4)
    np.testing.assert_allclose(entropy, -(np.exp(log_p) * log_p).sum(axis=1), atol=1e-4)


def test_large_logits() -> None:
    surprisal, entropy = surprisal_and_entropy(np.array([[1e4, 1e4, -1e4]], np.float32), np.array([1]))
    np.testing.assert_allclose((surprisal[0], entropy[0]), np.log([2, 2]))


def test_entropy_of_a_large_vocabulary() -> None:
    logits = 3 * np.random.default_rng(1).standard_normal((2, 400_000), np.float32)
    _, entropy = surprisal_and_entropy(logits, np.array([1, 2]))
    s = logits.astype(np.float64)
    log_p = s - np.log(np.exp(s).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(entropy, -(np.exp(log_p) * log_p).sum(axis=1), atol=1e-5)
