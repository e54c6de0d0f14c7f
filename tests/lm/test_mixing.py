"""Neural cache, mixtures and their tuning, against plain Python."""

import math
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.lm.adaptation import Adaptation
from neglm_cli.lm.device import Device
from neglm_cli.lm.mixing import MixedModel, Mixing, shifted
from neglm_cli.lm.mixture import fit_weights, log_mixture
from neglm_cli.lm.neural_cache import NeuralCache
from neglm_cli.lm.tuning import DECAYS, RATES, THETAS, Given, Trial, Tuner
from neglm_cli.settings.train_lm import Settings
from tests.lm.making import END_OF_LINE, SMALL, counts, device, materialize, parameters
from tests.lm.test_adaptation import reference_device

WORDS = 90


def by_formula(outputs: np.ndarray, words: list[int], size: int, theta: float) -> list[float]:
    """Return p_cache of each word, in plain Python; NaN for the first."""
    found = []
    for t, word in enumerate(words):
        seen = range(max(0, t - size), t)
        strength = [
            math.exp(theta * sum(float(a) * float(b) for a, b in zip(outputs[t], outputs[i], strict=True)))
            for i in seen
        ]
        matching = sum(value for i, value in zip(seen, strength, strict=True) if words[i] == word)
        found.append(matching / sum(strength) if t else math.nan)
    return found


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("cut", [1, 3, 40])
def test_the_cache_is_its_formula(size: int, cut: int) -> None:
    random = np.random.default_rng(size)
    outputs, words = random.standard_normal((40, 5)).astype(np.float32), random.integers(0, 6, 40).astype(np.int32)
    thetas = [0.0, 0.3, 2.0]
    cache = NeuralCache(size, 5)
    found = np.concatenate(
        [cache.score(outputs[at : at + cut], words[at : at + cut], thetas) for at in range(0, 40, cut)], axis=1
    )
    for theta, row in zip(thetas, found, strict=True):
        np.testing.assert_allclose(np.exp(row), by_formula(outputs, words.tolist(), size, theta), rtol=1e-5)


def test_a_cache_larger_than_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    outputs, words = random.standard_normal((300, 4)).astype(np.float32), random.integers(0, 9, 300).astype(np.int32)
    expected = NeuralCache(50, 4).score(outputs, words, [0.5])
    monkeypatch.setattr("neglm_cli.lm.neural_cache.MAX_SCORES", 51 * 7)
    np.testing.assert_allclose(NeuralCache(50, 4).score(outputs, words, [0.5]), expected, rtol=1e-5)


def test_large_scores_do_not_overflow() -> None:
    outputs = np.full((3, 2), 30, np.float32)
    found = NeuralCache(5, 2).score(outputs, np.array([7, 7, 8], np.int32), [10.0])
    assert math.isnan(found[0, 0])
    assert found[0, 1:].tolist() == [0.0, -math.inf]


def test_a_full_distribution_sums_to_1() -> None:
    """Over all words that may come next, with the same past."""
    random = np.random.default_rng(1)
    outputs, words = random.standard_normal((9, 4)).astype(np.float32), random.integers(0, 5, 9).astype(np.int32)
    total = 0.0
    for word in range(5):
        cache = NeuralCache(6, 4)
        cache.score(outputs[:8], words[:8], [0.7])
        total += math.exp(cache.score(outputs[8:], np.array([word], np.int32), [0.7])[0, 0])
    assert total == pytest.approx(1)


# --- mixtures -----------------------------------------------------------------------------------------------

probabilities = st.lists(st.floats(0.001, 1), min_size=3, max_size=3)


@given(st.lists(probabilities, min_size=1, max_size=30))
def test_em_finds_the_best_weights(rows: list[list[float]]) -> None:
    log_p = np.log(np.array(rows).T)
    weights = fit_weights(log_p)
    assert weights.sum() == pytest.approx(1)
    best = log_mixture(weights, log_p).mean()
    for a in np.linspace(0, 1, 11):
        for b in np.linspace(0, 1 - a, 6):
            assert log_mixture(np.array([a, b, 1 - a - b]), log_p).mean() <= best + 1e-4


def test_em_keeps_given_weights() -> None:
    log_p = np.log(np.random.default_rng(1).uniform(0.01, 1, (3, 50)))
    weights = fit_weights(log_p, {1: 0.25})
    assert weights[1] == 0.25
    assert weights.sum() == pytest.approx(1)
    shares = [log_mixture(np.array([a, 0.25, 0.75 - a]), log_p).mean() for a in np.linspace(0, 0.75, 51)]
    assert log_mixture(weights, log_p).mean() >= max(shares) - 1e-7


def test_a_model_that_excludes_a_word_may_still_take_part() -> None:
    log_p = np.array([[-2.0, -2.0, -2.0], [-0.1, -math.inf, -0.1]])
    weights = fit_weights(log_p)
    assert 0 < weights[1] < 1
    expected = np.log(weights[0] * np.exp(-2) + weights[1] * np.exp([-0.1, -math.inf, -0.1]))
    np.testing.assert_allclose(log_mixture(weights, log_p), expected)


# --- a mixed model ------------------------------------------------------------------------------------------


def on_cpu(settings: Settings, training: bool) -> Device:
    return device(settings, WORDS)


def by_reference(settings: Settings, training: bool) -> Device:
    return reference_device(settings)


def some_ids(words: int = 150) -> np.ndarray:
    ids = np.random.default_rng(9).integers(4, 24, words).astype(np.int32)
    ids[::11] = END_OF_LINE
    return ids


def scores_of(model: MixedModel, ids: np.ndarray) -> np.ndarray:
    with closing(model):
        scorer = model.scorer()
        parts = [scorer.score(*piece).log_probabilities[0] for piece in shifted(ids, END_OF_LINE)]
    return np.concatenate(parts)


MIXINGS = {
    "cache": Mixing(cache=30, theta=0.5, cache_weight=0.2),
    "adapted": Mixing(Adaptation(0.2, 0.01)),
    "both": Mixing(Adaptation(0.2, 0.01), cache=30, theta=0.5, cache_weight=0.2),
}


@pytest.mark.parametrize("name", MIXINGS)
def test_devices_agree(name: str) -> None:
    ids = some_ids()
    found, expected = (scores_of(MixedModel(make, SMALL, MIXINGS[name]), ids) for make in (on_cpu, by_reference))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("name", MIXINGS)
def test_texts_start_from_the_trained_model(name: str) -> None:
    model = MixedModel(on_cpu, SMALL, MIXINGS[name])
    np.testing.assert_array_equal(scores_of(model, some_ids()), scores_of(model, some_ids()))


def test_the_mixture_by_hand() -> None:
    ids = some_ids(40)
    plain = device(SMALL, WORDS)
    scorer = plain.scorer(40)
    ((inputs, targets),) = shifted(ids, END_OF_LINE)
    alone = scorer.score(inputs, targets).log_probabilities[0]
    cached = np.array(by_formula(scorer.outputs()[0], ids.tolist(), 30, 0.5))
    cached[0] = math.exp(alone[0])
    found = scores_of(MixedModel(on_cpu, SMALL, MIXINGS["cache"]), ids)
    np.testing.assert_allclose(found, np.log(0.8 * np.exp(alone) + 0.2 * cached), atol=1e-5)
    plain.close()


def test_lines_from_zero_states() -> None:
    """As if the model was trained with --reset-at-eos."""
    settings = replace(SMALL, reset_at_eos=True)
    reset = scores_of(MixedModel(on_cpu, SMALL, MIXINGS["both"], reset_at_eos=True), some_ids())
    np.testing.assert_array_equal(reset, scores_of(MixedModel(on_cpu, settings, MIXINGS["both"]), some_ids()))
    assert (reset != scores_of(MixedModel(on_cpu, SMALL, MIXINGS["both"]), some_ids())).any()


def test_the_end_of_a_text() -> None:
    """The parameters at the end are those that the next segment would be scored with."""
    ids, bptt = some_ids(100), SMALL.bptt
    model = MixedModel(on_cpu, SMALL, MIXINGS["adapted"])
    with closing(model):
        scorer = model.scorer()
        for piece in shifted(ids, END_OF_LINE):
            scorer.score(*piece)
        tensors = {name: array.copy() for name, array in materialize(scorer.parameters()).items()}
    assert len(ids) % bptt == 0
    made = parameters(SMALL, WORDS)
    assert any((tensors[name] != array).any() for name, array in made.tensors().items())
    for name, array in made.tensors().items():
        array[...] = tensors[name]
    from neglm_cli.lm.cpu.device import CpuDevice

    ended = CpuDevice(made, SMALL, counts(WORDS), END_OF_LINE)
    (inputs, targets), *_ = shifted(ids[:bptt], END_OF_LINE)
    expected = ended.scorer(bptt).score(inputs, targets).log_probabilities
    ended.close()
    with closing(model):
        scorer = model.scorer()
        for piece in shifted(ids, END_OF_LINE):
            scorer.score(*piece)
        scorer._device.flush_decay(20, 0.01, None, None)
        found = scorer._device.scorer(bptt).score(inputs, targets).log_probabilities
    np.testing.assert_array_equal(found, expected)


# --- tuning -------------------------------------------------------------------------------------------------


def tuned(mixing: Mixing, ids: np.ndarray, **values: Any) -> tuple[Mixing, list[Trial]]:
    trials: list[Trial] = []
    tuner = Tuner(MixedModel(on_cpu, SMALL, mixing), ids, END_OF_LINE, trials.append)
    return tuner.tune(Given(**values)), trials


def perplexity_of(mixing: Mixing, ids: np.ndarray) -> float:
    return math.exp(-scores_of(MixedModel(on_cpu, SMALL, mixing), ids).mean())


def test_tuned_values_have_the_printed_perplexity() -> None:
    ids = some_ids()
    mixing, trials = tuned(MIXINGS["both"], ids)
    steps, mixed = trials[: -len(THETAS)], trials[-len(THETAS) :]
    assert 3 <= len(steps) <= len(RATES) + len(DECAYS) - 1
    assert [trial.values["theta"] for trial in mixed] == list(THETAS)
    best = min(mixed, key=lambda trial: trial.perplexity)
    assert (mixing.theta, mixing.cache_weight) == (best.values["theta"], best.values["cache_weight"])
    assert perplexity_of(mixing, ids) == pytest.approx(best.perplexity, rel=1e-6)
    alone = min(steps, key=lambda trial: trial.perplexity)
    assert mixing.adaptation == Adaptation(alone.values["rate"], alone.values["decay"])
    assert perplexity_of(Mixing(mixing.adaptation), ids) == pytest.approx(alone.perplexity, rel=1e-6)
    assert best.perplexity < alone.perplexity < perplexity_of(Mixing(), ids)


def test_given_values_are_kept() -> None:
    mixing, trials = tuned(MIXINGS["both"], some_ids(), rate=0.05, theta=0.7)
    assert {trial.values.get("rate") for trial in trials} == {0.05, None}
    decays = [trial.values["decay"] for trial in trials[:-1]]
    assert decays == list(DECAYS[: len(decays)])
    assert mixing.adaptation is not None
    assert (mixing.adaptation.rate, mixing.theta) == (0.05, 0.7)
    assert 0 < mixing.cache_weight < 1


def test_steps_that_diverge_are_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neglm_cli.lm.tuning.RATES", (0.1, 1e38))
    settings = replace(SMALL, clip=1e30)
    trials: list[Trial] = []
    mixing = Tuner(MixedModel(on_cpu, settings, MIXINGS["adapted"]), some_ids(), END_OF_LINE, trials.append).tune(
        Given()
    )
    assert mixing.adaptation is not None
    assert mixing.adaptation.rate == 0.1
    assert trials[1].perplexity > 1e100
