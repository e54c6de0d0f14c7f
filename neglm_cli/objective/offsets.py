"""What is added to a score in training, so that the product of two vectors approximates what it should.

At its optimum the objective's score is log p(y|x)/p_α(y) − log k, the shifted PMI. With an offset of −log(k p_α(y)) the
product is what is left: log p(y|x).
"""

import numpy as np

OBJECTIVES = ("pmi", "cond")


def train_offsets(objective: str, noise: np.ndarray, k: int) -> np.ndarray:
    """float32 (V,): the offset of every output; `noise` is p_α."""
    return (np.zeros(len(noise)) if objective == "pmi" else -np.log(k * noise)).astype(np.float32)
