"""Dynamic evaluation: devices agree with the reference, calls may cut a text anywhere, and the model learns."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.adaptation import Adaptation, AdaptationDivergedError, AdaptiveScorer, adaptation_settings
from neglm_cli.lm.checks import changed_settings
from neglm_cli.lm.device import Device, Scores
from neglm_cli.lm.reference_device import ReferenceDevice
from neglm_cli.settings.train_lm import Settings
from tests.lm.making import END_OF_LINE, SMALL, counts, device, model_of, parameters

WORDS = 90
STEPS = Adaptation(0.3, 0.05)
VARIANTS: dict[str, dict[str, Any]] = {
    "neglm": {},
    "nce": {"loss": "nce", "log_z": 0.5},
    "softmax": {"loss": "softmax"},
    "trained with Adam": {"optimizer": "adam", "adam": "exact"},
    "noise words of a step": {"noise": "step"},
    "reset": {"reset_at_eos": True},
    "tied": {"tie": True, "embedding_dropout": 0.2, "recurrent_dropout": 0.2, "average": 1},
    "tied, softmax": {"tie": True, "loss": "softmax"},
}


def text(words: int = 52) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets, (1, words) each."""
    ids = np.random.default_rng(5).integers(0, WORDS, words + 1).astype(np.int32)
    ids[::9] = END_OF_LINE
    return ids[None, :-1], ids[None, 1:]


def settings_of(**changes: Any) -> Settings:
    return adaptation_settings(changed_settings(SMALL, changes))


def reference_device(settings: Settings) -> ReferenceDevice:
    made = ReferenceDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)
    made.prepare_training()
    return made


def adapted(on: Device, settings: Settings, steps: Adaptation = STEPS, normalized: bool = True) -> np.ndarray:
    scorer = AdaptiveScorer(on, settings.bptt, steps)
    found = scorer.score(*text(), normalized).log_probabilities[0]
    scorer.finish()
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_matches_the_reference(variant: str) -> None:
    settings = settings_of(**VARIANTS[variant])
    on_cpu, expected = device(settings, WORDS), reference_device(settings)
    np.testing.assert_allclose(adapted(on_cpu, settings), adapted(expected, settings), atol=5e-4)
    for found, wanted in zip(model_of(on_cpu.parameters(), settings).arrays(), expected.model.arrays(), strict=True):
        np.testing.assert_allclose(found, wanted, atol=5e-5, rtol=2e-4)
    on_cpu.close()


def test_the_algorithm_by_hand() -> None:
    """Score a segment, take a step on it, decay all parameters: with the reference, written out."""
    settings, (inputs, targets) = settings_of(), text(12)
    by_hand, once = reference_device(settings), reference_device(settings)
    trained = [array.copy() for array in once.model.arrays()]
    expected = []
    scorer = by_hand.scorer(settings.bptt)
    for number, at in enumerate(range(0, 12, settings.bptt)):
        segment = slice(at, at + settings.bptt)
        expected.append(scorer.score(inputs[:, segment], targets[:, segment]).log_probabilities[0])
        before = [array.copy() for array in by_hand.model.arrays()]
        positions = 1 + np.arange(12, dtype=np.uint64)[None, segment]
        sgd = reference_device(settings)
        sgd.model, sgd.h, sgd.c = by_hand.model, by_hand.h, by_hand.c
        sgd.train(_minibatch(inputs[:, segment], targets[:, segment], positions, number, STEPS.rate))  # without decay
        by_hand.h, by_hand.c = sgd.h, sgd.c
        for array, start, anchor in zip(by_hand.model.arrays(), before, trained, strict=True):
            array += STEPS.decay * (anchor - start)
    found = AdaptiveScorer(once, settings.bptt, STEPS).score(inputs, targets)
    np.testing.assert_allclose(found.log_probabilities[0], np.concatenate(expected), rtol=1e-9)


def _minibatch(inputs: np.ndarray, targets: np.ndarray, positions: np.ndarray, number: int, rate: float) -> Any:
    from neglm_cli.lm.device import Minibatch

    return Minibatch(inputs, targets, positions, 0, number, number + 1, rate)


@pytest.mark.parametrize("cut", [1, 3, 7, 52])
def test_calls_may_cut_a_text_anywhere(cut: int) -> None:
    settings, (inputs, targets) = settings_of(), text()
    whole, parts = device(settings, WORDS), device(settings, WORDS)
    expected = adapted(whole, settings)
    scorer = AdaptiveScorer(parts, settings.bptt, STEPS)
    found: list[Scores] = []
    outputs = []
    for at in range(0, 52, cut):
        found.append(scorer.score(inputs[:, at : at + cut], targets[:, at : at + cut]))
        outputs.append(scorer.outputs())
    scorer.finish()
    np.testing.assert_allclose(np.concatenate([scores.log_probabilities[0] for scores in found]), expected, atol=1e-5)
    assert np.concatenate(outputs, axis=1).shape == (1, 52, settings.hidden)
    for one, other in zip(
        model_of(whole.parameters(), settings).arrays(), model_of(parts.parameters(), settings).arrays(),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(one, other, atol=1e-6)
    whole.close()
    parts.close()


def test_two_runs_are_the_same() -> None:
    settings = settings_of()
    runs = []
    for _ in range(2):
        on = device(settings, WORDS)
        runs.append(adapted(on, settings))
        on.close()
    np.testing.assert_array_equal(runs[0], runs[1])


def test_unnormalized_scores_are_those_of_the_same_model() -> None:
    """Only rows that are read have decayed by then."""
    settings = settings_of()
    on_cpu, expected = device(settings, WORDS), reference_device(settings)
    found = adapted(on_cpu, settings, normalized=False)
    np.testing.assert_allclose(found, adapted(expected, settings, normalized=False), atol=5e-4)
    on_cpu.close()


def test_rate_0_is_the_trained_model() -> None:
    settings = settings_of()
    adaptive, plain = device(settings, WORDS), device(settings, WORDS)
    found = adapted(adaptive, settings, Adaptation(0.0, 0.5))
    expected = plain.scorer(52).score(*text()).log_probabilities[0]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    adaptive.close()
    plain.close()


@pytest.mark.parametrize("loss", ["neglm", "softmax"])
def test_a_repetitive_text_becomes_likely(loss: str) -> None:
    settings = settings_of(loss=loss)
    ids = np.tile(np.arange(4, 12, dtype=np.int32), 40)
    on = device(settings, WORDS)
    scorer = AdaptiveScorer(on, settings.bptt, Adaptation(0.5, 0.0))
    found = scorer.score(ids[None, :-1], ids[None, 1:]).log_probabilities[0]
    first, last = (math.exp(-part.mean()) for part in (found[:20], found[-20:]))
    assert last < first / 2
    on.close()


def test_decay_1_forgets_each_step() -> None:
    """p − (p₀ − p) is p₀: nothing is learned beyond the gradient of the last segment."""
    settings = settings_of()
    on = device(settings, WORDS)
    start = model_of(on.parameters(), settings).arrays()
    scorer = AdaptiveScorer(on, settings.bptt, Adaptation(0.0, 1.0))
    scorer.score(*text())
    scorer.finish()
    for found, trained in zip(model_of(on.parameters(), settings).arrays(), start, strict=True):
        np.testing.assert_array_equal(found, trained)
    on.close()


def test_divergence() -> None:
    settings = replace(settings_of(), clip=1e30)
    on = device(settings, WORDS)
    with pytest.raises(AdaptationDivergedError, match="use a smaller rate than 1e\\+30"):
        adapted(on, settings, Adaptation(1e30, 0.0))
    on.close()
