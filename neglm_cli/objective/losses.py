"""Offsets of scores: those of the losses of language models, declared in `settings.losses`, and of `embed`.

    loss      training score s                   bias starts at   log Z   test logit
    neglm     w·c − log Z                        –                log k   w·c − log Z + log(k p_α(w))
    neglm-b   w·c + b_w − log Z                  0                log k   w·c + b_w − log Z + log(k p_α(w))
    nce       w·c + b_w − log Z − log(k p_α(w))  −log V           0       w·c + b_w − log Z
    neg       w·c                                –                –       w·c
    softmax   w·c + b_w                          0                –       w·c + b_w

At the optimum of negative sampling s is log p(w|c) − log(k p_α(w)), so the test logit s + log(k p_α(w)) is log p(w|c).
`neg` omits this correction, for comparison.

log Z is a constant, 0 in the paper. It does not affect probabilities, which are normalized, but it determines where
training starts, when w·c is 0. With log Z = log k, neglm starts as the unigram model, and w·c is the PMI itself at the
optimum; with 0, noise words start as likely as the true one, and unlearning that takes much of an epoch.
"""

import math

import numpy as np

from neglm_cli.settings.losses import LOSSES


def train_offsets(loss: str, noise: np.ndarray, k: int, log_z: float) -> np.ndarray:
    """Return the offsets added to w·c + b_w in training: float64 (V,). noise: p_α."""
    constant = np.full(len(noise), -log_z)
    return constant - np.log(k * noise) if LOSSES[loss].train_correction else constant


def logit_offsets(loss: str, noise: np.ndarray, k: int, log_z: float) -> np.ndarray:
    """Return the offsets added to w·c + b_w to get logits: float64 (V,)."""
    constant = np.full(len(noise), -log_z)
    return constant + np.log(k * noise) if LOSSES[loss].test_correction else constant


def initial_log_z(loss: str, k: int) -> float:
    """Return the log Z for which the initial probabilities are those of the unigram model, or 1/V."""
    return math.log(k) if LOSSES[loss].test_correction else 0.0


def initial_bias(loss: str, words: int) -> float:
    """Return the initial bias. NCE's makes the initial model normalized."""
    return -math.log(words) if LOSSES[loss].train_correction else 0.0


def score_offsets(objective: str, noise: np.ndarray, k: int) -> np.ndarray:
    """Return the offsets added to the dot products of vectors in `embed`: float64 (V,). noise: p_α.

    At its optimum the objective's score is log p(y|x)/p_α(y) − log k, the shifted PMI. With an offset of
    −log(k p_α(y)), the objective `cond`, the dot product is log p(y|x). Other objectives have no offset.
    """
    return -np.log(k * noise) if objective == "cond" else np.zeros(len(noise))
