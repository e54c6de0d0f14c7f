"""What is added to the product of two vectors to make a score of it, so that the product approximates what it should.

At its optimum the objective's score is log p(y|x)/p_α(y) − log k, the shifted PMI. With an offset of −log(k p_α(y)) the
product is what is left: log p(y|x).
"""

import numpy as np


def score_offsets(objective: str, noise: np.ndarray, k: int) -> np.ndarray:
    """float64 (V,): the offset of every output; `noise` is p_α. Vectors of an unknown objective have none."""
    return -np.log(k * noise) if objective == "cond" else np.zeros(len(noise))
