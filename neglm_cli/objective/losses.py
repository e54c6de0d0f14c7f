"""The one table that every loss of a language model is a row of.

    loss      training score s                   bias starts at   log Z   test logit
    neglm     w·c − log Z                        –                log k   w·c − log Z + log(k p_α(w))
    neglm-b   w·c + b_w − log Z                  0                log k   w·c + b_w − log Z + log(k p_α(w))
    nce       w·c + b_w − log Z − log(k p_α(w))  −log V           0       w·c + b_w − log Z
    neg       w·c                                –                –       w·c
    softmax   w·c + b_w                          0                –       w·c + b_w

At the optimum of negative sampling s is log p(w|c) − log(k p_α(w)), so s + log(k p_α(w)) is log p(w|c): that is what
a test has to add. `neg` is the wrong way, kept to show it.

log Z is a constant, 0 in the paper. It changes no probability, for these are normalised, but it says where training
starts, when w·c is 0. With log Z = log k, neglm starts as the unigram model, and w·c is the PMI itself at the optimum;
with 0 it starts with noise words as likely as the true one, and much of an epoch goes into learning that they are not.
"""

import math
from typing import NamedTuple

import numpy as np


class Loss(NamedTuple):
    bias: bool  # whether words have a learned bias
    corrects: bool  # whether its training score leaves log(k p_α(w)) to the test
    sampled: bool = True


LOSSES = {
    "neglm": Loss(bias=False, corrects=True),
    "neglm-b": Loss(bias=True, corrects=True),
    "nce": Loss(bias=True, corrects=False),
    "neg": Loss(bias=False, corrects=False),
    "softmax": Loss(bias=True, corrects=False, sampled=False),
}


def train_offsets(loss: str, noise: np.ndarray, k: int, log_z: float) -> np.ndarray:
    """float64 (V,): what is added to w·c + b_w in training; `noise` is p_α."""
    constant = np.full(len(noise), -log_z)
    return constant - np.log(k * noise) if loss == "nce" else constant


def logit_offsets(loss: str, noise: np.ndarray, k: int, log_z: float) -> np.ndarray:
    """float64 (V,): what is added to w·c + b_w to make a logit."""
    constant = np.full(len(noise), -log_z)
    return constant + np.log(k * noise) if LOSSES[loss].corrects else constant


def first_log_z(loss: str, k: int) -> float:
    """The constant with which training starts at probabilities that make sense: those of single words, or 1/V."""
    return math.log(k) if LOSSES[loss].corrects else 0.0


def first_bias(loss: str, words: int) -> float:
    """Where biases start: NCE's make the model a probability from the start."""
    return -math.log(words) if loss == "nce" else 0.0
