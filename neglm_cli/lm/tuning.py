"""Values of a model's additions at test time, chosen on a validation text: small grids, and weights by EM."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.adaptation import Adaptation, AdaptationDivergedError
from neglm_cli.lm.mixing import MixedModel, Mixing, shifted
from neglm_cli.lm.mixture import fit_weights, log_mixture

RATES = (0.01, 0.03, 0.1, 0.3)
DECAYS = (0.0, 0.001, 0.003, 0.01)
THETAS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Given:
    """Values that are not tuned; None for those that are."""

    rate: float | None = None
    decay: float | None = None
    theta: float | None = None
    cache_weight: float | None = None
    ngram_weight: float | None = None


class Trial(NamedTuple):
    """Values that were tried, by name, and the perplexity of the text with them."""

    values: dict[str, float]
    perplexity: float


class Tuner:
    """Chooses values on one text."""

    def __init__(
        self, model: MixedModel, ids: np.ndarray, end_of_line: int, report: Callable[[Trial], None] = lambda _: None
    ) -> None:
        """model: whose additions have values that do not matter; ids: int32 (N,); report: takes each trial."""
        self._model, self._ids, self._end, self._report = model, ids, end_of_line, report

    def tune(self, given: Given) -> Mixing:
        """Choose the rate, then the decay, with the model alone; then θ and the weights of the mixture. The model has
        them from then on."""
        mixing = self._model.mixing
        if mixing.adaptation is not None:
            mixing = replace(mixing, adaptation=self._adaptation(given))
        if len(mixing.weights) > 1:
            mixing = self._mixture(mixing, given)
        self._model.mixing = mixing
        return mixing

    def _adaptation(self, given: Given) -> Adaptation:
        rates = RATES if given.rate is None else (given.rate,)
        decays = DECAYS if given.decay is None else (given.decay,)
        if len(rates) == len(decays) == 1:
            return Adaptation(rates[0], decays[0])
        found: dict[Adaptation, float] = {}
        self._climb([Adaptation(rate, decays[0]) for rate in rates], found)
        rate = min(found, key=found.__getitem__).rate
        self._climb([Adaptation(rate, decay) for decay in decays], found)
        return min(found, key=found.__getitem__)

    def _climb(self, grid: list[Adaptation], found: dict[Adaptation, float]) -> None:
        """Try ever larger values, until the perplexity rises."""
        before = math.inf
        for steps in grid:
            if steps not in found:
                found[steps] = self._try_steps(steps)
            if found[steps] > before:
                return
            before = found[steps]

    def _try_steps(self, steps: Adaptation) -> float:
        """Return the perplexity of the adapted model alone; infinity if it diverges."""
        try:
            (log_probabilities,) = self._terms(Mixing(adaptation=steps), [])
            perplexity = _perplexity(log_probabilities)
        except AdaptationDivergedError:
            perplexity = math.inf
        self._report(Trial({"rate": steps.rate, "decay": steps.decay}, perplexity))
        return perplexity

    def _mixture(self, mixing: Mixing, given: Given) -> Mixing:
        """Choose θ by its best weights. All θ are tried in one pass over the text."""
        thetas = THETAS if given.theta is None else (given.theta,)
        if not mixing.cache:
            thetas = thetas[:1]
        names = ["theta", "cache_weight"] * bool(mixing.cache) + ["ngram_weight"] * (mixing.ngram is not None)
        terms = self._terms(mixing, thetas)
        fixed = dict(enumerate((getattr(given, name) for name in names if name.endswith("weight")), 1))
        best, chosen = math.inf, mixing
        for number, theta in enumerate(thetas):
            used = terms[[0, *[1 + number] * bool(mixing.cache), *[-1] * (mixing.ngram is not None)]]
            weights = fit_weights(used, {k: weight for k, weight in fixed.items() if weight is not None})
            values = dict(zip(names, [theta] * bool(mixing.cache) + weights[1:].tolist(), strict=True))
            perplexity = _perplexity(log_mixture(weights, used))
            self._report(Trial(values, perplexity))
            if perplexity < best:
                best, chosen = perplexity, replace(mixing, **values)
        return chosen

    def _terms(self, mixing: Mixing, thetas: Sequence[float]) -> np.ndarray:
        """Score the whole text: the terms of the mixture, (K, N)."""
        self._model.mixing = mixing
        scorer = self._model.scorer(thetas=thetas)
        parts = [scorer.terms(inputs, targets)[1] for inputs, targets in shifted(self._ids, self._end)]
        return np.concatenate(parts, axis=1)


def _perplexity(log_probabilities: np.ndarray) -> float:
    return math.exp(min(-float(log_probabilities.mean()), 700))
