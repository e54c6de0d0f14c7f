"""Linear mixtures of models, word by word: p(w) = Σ weight · p_model(w), and their weights by EM."""

import numpy as np

MAX_ITERATIONS = 1000
TOLERANCE = 1e-9  # nats per word


def log_mixture(weights: np.ndarray, log_probabilities: np.ndarray) -> np.ndarray:
    """Return the log-probability of each word under a mixture. weights: (K,); log_probabilities: (K, N)."""
    with np.errstate(divide="ignore"):
        terms = np.log(weights)[:, None] + log_probabilities
    return np.asarray(np.logaddexp.reduce(terms, axis=0))


def fit_weights(log_probabilities: np.ndarray, given: dict[int, float] | None = None) -> np.ndarray:
    """Return the weights of the most likely mixture, by EM: (K,), for log_probabilities (K, N).

    given: weights that are fixed, by number of the model. The others start alike and share the rest.
    """
    fixed = given or {}
    free = np.array([k for k in range(len(log_probabilities)) if k not in fixed])
    rest = 1 - sum(fixed.values())
    weights = np.empty(len(log_probabilities))
    weights[list(fixed)] = list(fixed.values())
    weights[free] = rest / len(free)
    before = -np.inf
    for _ in range(MAX_ITERATIONS):
        mixture = log_mixture(weights, log_probabilities)
        mean = float(mixture.mean())
        if mean - before < TOLERANCE:
            break
        before = mean
        with np.errstate(divide="ignore"):
            terms = np.log(weights[free])[:, None] + log_probabilities[free] - mixture
        shares = np.exp(terms).sum(axis=1)  # expected number of words from each model
        weights[free] = rest * shares / shares.sum()
    return weights
