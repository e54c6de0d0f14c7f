"""Generating text: sampling, temperature, and the most likely next words."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.generation import Generator, SamplingParams, next_words, probabilities
from tests.lm.making import END_OF_LINE, SMALL, ReferenceTraining, counts, parameters

WORDS = 12
SETTINGS = replace(SMALL, loss="nce", threads=1)


@pytest.fixture
def device() -> CpuDevice:
    return CpuDevice(parameters(SETTINGS, WORDS), SETTINGS, counts(WORDS), END_OF_LINE)


def expected(ids: list[int]) -> np.ndarray:
    """Compute the next-word distribution after these words."""
    inputs = np.array([[*ids]] * WORDS, np.int32)
    targets = inputs.copy()
    targets[:, -1] = np.arange(WORDS)
    training = ReferenceTraining(SETTINGS, WORDS)
    scored = [training.scorer(1).score(i[None], t[None]) for i, t in zip(inputs, targets, strict=True)]
    return np.array([np.exp(scores.log_probabilities[0, -1]) for scores in scored])


def test_the_most_likely_words_match_the_reference(device: CpuDevice) -> None:
    ids = [END_OF_LINE, 5, 1, 7]
    found = next_words(device.scorer(1), np.array(ids), WORDS)
    order = np.argsort(-expected(ids))
    assert [word for word, _ in found] == order.tolist()
    np.testing.assert_allclose([probability for _, probability in found], expected(ids)[order], rtol=1e-4)
    assert next_words(device.scorer(1), np.array(ids), 2) == found[:2]


def test_words_are_drawn_by_their_probability(device: CpuDevice) -> None:
    scorer, beginning = device.scorer(1), np.array([END_OF_LINE, 2])
    generator = Generator(scorer, beginning, 7, SamplingParams())
    drawn = []
    for word in generator.words():
        drawn.append(word)
        generator.restart(beginning)
        if len(drawn) == 2000:
            break
    share = expected([END_OF_LINE, 2])
    squares = (np.bincount(drawn, minlength=WORDS) - 2000 * share) ** 2 / (2000 * share)
    assert squares.sum() < 31.3  # p = 0.1 % with 11 degrees of freedom


def test_the_same_seed_generates_the_same_text(device: CpuDevice) -> None:
    def text(seed: int) -> list[int]:
        return list(islice(Generator(device.scorer(1), np.array([END_OF_LINE]), seed, SamplingParams()).words(), 30))

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_generated_words_are_fed_back(device: CpuDevice) -> None:
    words = list(
        islice(Generator(device.scorer(1), np.array([END_OF_LINE]), 1, SamplingParams(temperature=0)).words(), 5)
    )
    for i in range(5):
        assert words[i] == int(np.argmax(expected([END_OF_LINE, *words[:i]])))


scores = st.lists(st.floats(-20, 0, width=32), min_size=2, max_size=20).map(np.array)


@given(scores, st.floats(0.1, 3), st.integers(0, 25), st.floats(0.01, 1))
def test_truncation_of_the_distribution(
    log_probabilities: np.ndarray, temperature: float, top_k: int, top_p: float
) -> None:
    order, shares = probabilities(log_probabilities, SamplingParams(temperature, top_k, top_p, forbidden=(1,)))
    assert 1 not in order
    assert shares.sum() == pytest.approx(1)
    assert (np.diff(shares) <= 1e-12).all()
    assert len(order) <= (top_k or len(log_probabilities))
    all_words, all_shares = probabilities(log_probabilities, SamplingParams(temperature, top_k, 1.0, forbidden=(1,)))
    assert order.tolist() == all_words[: len(order)].tolist()
    assert len(order) == len(all_words) or all_shares[: len(order)].sum() >= top_p - 1e-9
    assert len(order) == 1 or all_shares[: len(order) - 1].sum() < top_p + 1e-9
    expected_shares = np.exp(log_probabilities[order] / temperature)
    np.testing.assert_allclose(shares, expected_shares / expected_shares.sum(), rtol=1e-9)
