"""Logits at the optimum of each loss: log-probabilities for all but `neg`."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from neglm_cli.objective.losses import initial_bias, logit_offsets, train_offsets
from neglm_cli.objective.noise import probabilities
from neglm_cli.settings.losses import LOSSES

COUNTS = np.array([600, 250, 100, 40, 10])
K, LOG_Z = 3, 0.7
# p(w|c), 3 contexts × 5 words
CONDITIONAL = np.array([[0.7, 0.1, 0.1, 0.05, 0.05], [0.2, 0.2, 0.2, 0.2, 0.2], [0.01, 0.04, 0.05, 0.3, 0.6]])


@pytest.mark.parametrize("alpha", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_difference_between_logit_and_training_score(loss: str, alpha: float) -> None:
    noise = probabilities(COUNTS, alpha)
    added = logit_offsets(loss, noise, K, LOG_Z) - train_offsets(loss, noise, K, LOG_Z)
    np.testing.assert_allclose(added, 0 if loss in ("neg", "softmax") else np.log(K * noise), atol=1e-12)


def test_only_nce_trains_with_the_correction() -> None:
    noise = probabilities(COUNTS, 0.75)
    for loss in set(LOSSES) - {"nce"}:
        np.testing.assert_allclose(train_offsets(loss, noise, K, LOG_Z), -LOG_Z)
    np.testing.assert_allclose(logit_offsets("nce", noise, K, LOG_Z), -LOG_Z)


def test_initial_bias() -> None:
    assert {loss: initial_bias(loss, 50) for loss in LOSSES} == {
        "neglm": 0, "neglm-b": 0, "nce": -math.log(50), "neg": 0, "softmax": 0,
    }  # fmt: skip


def test_which_losses_have_biases_and_noise_words() -> None:
    assert [loss for loss in LOSSES if LOSSES[loss].bias] == ["neglm-b", "nce", "softmax"]
    assert [loss for loss in LOSSES if LOSSES[loss].sampled] == ["neglm", "neglm-b", "nce", "neg"]


def best_scores(noise: np.ndarray) -> np.ndarray:
    """Search for the training scores (3, 5) that maximize the expected objective."""

    def best(probability: float, noise_probability: float) -> float:
        def loss(score: float) -> float:
            return float(
                probability * np.logaddexp(0, -score) + K * noise_probability * np.logaddexp(0, score)
            )  # -log σ(s), and K times -log σ(-s)

        return float(minimize_scalar(loss, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}).x)

    return np.array([[best(p, q) for p, q in zip(row, noise, strict=True)] for row in CONDITIONAL])


def logits_at_the_optimum(loss: str, alpha: float) -> np.ndarray:
    noise = probabilities(COUNTS, alpha)
    learned = best_scores(noise) - train_offsets(loss, noise, K, LOG_Z)  # w·c + b_w
    return learned + logit_offsets(loss, noise, K, LOG_Z)


@pytest.mark.parametrize("alpha", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("loss", ["neglm", "neglm-b", "nce"])
def test_logits_are_log_probabilities(loss: str, alpha: float) -> None:
    np.testing.assert_allclose(np.exp(logits_at_the_optimum(loss, alpha)), CONDITIONAL, rtol=1e-5)


def test_neglm_can_start_as_the_unigram_model() -> None:
    """With log Z = log k and w·c = 0."""
    unigram = probabilities(COUNTS, 1.0)
    np.testing.assert_allclose(np.exp(logit_offsets("neglm", unigram, K, math.log(K))), unigram)


@pytest.mark.parametrize("alpha", [0.75, 1.0])
def test_neg_gives_other_probabilities(alpha: float) -> None:
    """Even when normalized: frequent words get too little."""
    powers = np.exp(logits_at_the_optimum("neg", alpha))
    normalized = powers / powers.sum(axis=1, keepdims=True)
    assert (normalized[:, 0] < 0.6 * CONDITIONAL[:, 0]).all()
    assert (normalized[:2, -1] > 2 * CONDITIONAL[:2, -1]).all()
