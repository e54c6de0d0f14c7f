"""Offsets of scores: a table of the losses of language models, and the objectives of `embed`.

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
from typing import NamedTuple

import numpy as np


class Loss(NamedTuple):
    bias: bool  # True if words have a learned bias
    corrects: bool  # True if log(k p_α(w)) is added at test time only
    sampled: bool = True


LOSSES = {
    "neglm": Loss(bias=False, corrects=True),
    "neglm-b": Loss(bias=True, corrects=True),
    "nce": Loss(bias=True, corrects=False),
    "neg": Loss(bias=False, corrects=False),
    "softmax": Loss(bias=True, corrects=False, sampled=False),
}


def train_offsets(loss: str, noise: np.ndarray, k: int, log_z: float) -> np.ndarray:
    """Return the offsets added to w·c + b_w in training: float64 (V,). noise: p_α."""
    constant = np.full(len(noise), -log_z)
    return constant - np.log(k * noise) if loss == "nce" else constant


def logit_offsets(loss: str, noise: np.ndarray, k: int, log_z: float) -> np.ndarray:
    """Return the offsets added to w·c + b_w to get logits: float64 (V,)."""
    constant = np.full(len(noise), -log_z)
    return constant + np.log(k * noise) if LOSSES[loss].corrects else constant


def first_log_z(loss: str, k: int) -> float:
    """Return the log Z for which the initial probabilities are those of the unigram model, or 1/V."""
    return math.log(k) if LOSSES[loss].corrects else 0.0


def first_bias(loss: str, words: int) -> float:
    """Return the initial bias. NCE's makes the initial model normalized."""
    return -math.log(words) if loss == "nce" else 0.0


def score_offsets(objective: str, noise: np.ndarray, k: int) -> np.ndarray:
    """Return the offsets added to the dot products of vectors in `embed`: float64 (V,). noise: p_α.

    At its optimum the objective's score is log p(y|x)/p_α(y) − log k, the shifted PMI. With an offset of
    −log(k p_α(y)), the objective `cond`, the dot product is log p(y|x). Other objectives have no offset.
    """
    return -np.log(k * noise) if objective == "cond" else np.zeros(len(noise))
