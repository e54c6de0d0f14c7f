"""Language models that change or are helped at test time: dynamic evaluation, a neural cache, an n-gram model.

    p(w) = (1 − λ − µ) · p_model(w) + λ · p_cache(w) + µ · p_ngram(w)

p_model is that of the adapted model, if it adapts, and the cache holds the outputs of that model. While the cache is
empty, its share is the model's. All of them read a text word by word, in order.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from neglm_cli.lm.adaptation import Adaptation, AdaptiveScorer, adaptation_settings
from neglm_cli.lm.device import Device, Scores, Tensors
from neglm_cli.lm.mixture import log_mixture
from neglm_cli.lm.neural_cache import NeuralCache
from neglm_cli.lm.ngram import NgramModel
from neglm_cli.settings.train_lm import Settings

CHUNK = 256  # words of a call

DeviceMaker = Callable[[Settings, bool], Device]  # by settings, and whether it trains


@dataclass(frozen=True)
class Mixing:
    """The additions to a model at test time, and their values."""

    adaptation: Adaptation | None = None
    cache: int = 0  # words; 0 for none
    theta: float = 0.0
    cache_weight: float = 0.0  # λ
    ngram: NgramModel | None = None
    ngram_weight: float = 0.0  # µ

    @property
    def weights(self) -> np.ndarray:
        """The weights of the mixture: of the model, of the cache and of the n-gram model, if there are such."""
        added = [self.cache_weight] * bool(self.cache) + [self.ngram_weight] * (self.ngram is not None)
        return np.array([1 - sum(added), *added])


class TextScorer(Protocol):
    """Scores one text in order; the part of `device.Scorer` that mixtures need."""

    def score(self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True) -> Scores: ...

    def outputs(self) -> np.ndarray: ...


class MixedScorer:
    """Scores one text with a mixture, at most `capacity` words a call."""

    capacity = CHUNK

    def __init__(self, device: Device, bptt: int, mixing: Mixing, thetas: Sequence[float]) -> None:
        """thetas: of the cache. `score` takes one, `terms` any number."""
        self._device, self._mixing, self._thetas = device, mixing, thetas
        self._adaptive = AdaptiveScorer(device, bptt, mixing.adaptation) if mixing.adaptation else None
        self._scorer: TextScorer = self._adaptive or device.scorer(CHUNK)
        self._cache = NeuralCache(mixing.cache, device.shape.hidden) if mixing.cache else None
        self._sums = np.zeros(len(mixing.weights))
        self._words = 0
        if mixing.ngram is not None:
            mixing.ngram.reset()

    def score(self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True) -> Scores:
        """Score targets. inputs, targets: int32 (1, T). log Z of a mixture is NaN: it has none."""
        scores, terms = self.terms(inputs, targets, normalized)
        self._sums += terms.sum(axis=1)
        self._words += inputs.shape[1]
        if len(terms) == 1:
            return scores
        mixture = log_mixture(self._mixing.weights, terms)[None]
        return Scores(mixture, np.full(mixture.shape, np.nan))

    def terms(self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True) -> tuple[Scores, np.ndarray]:
        """Return the model's scores, and the log-probabilities of all terms of the mixture: float64 (K, T).

        The terms are the model, the cache with each θ, and the n-gram model.
        """
        scores = self._scorer.score(inputs, targets, normalized)
        terms = [scores.log_probabilities]
        if self._cache is not None:
            cached = self._cache.score(self._scorer.outputs()[0], targets[0], self._thetas)
            terms.append(np.where(np.isnan(cached), terms[0], cached))  # an empty cache predicts as the model does
        if self._mixing.ngram is not None:
            terms.append(self._mixing.ngram.score(targets[0])[None])
        return scores, np.concatenate(terms)

    @property
    def perplexities(self) -> list[float]:
        """The perplexity of each term by itself, over all words scored."""
        return [math.exp(-total / max(self._words, 1)) if total > -math.inf else math.inf for total in self._sums]

    def parameters(self) -> Tensors:
        """End the text. Return the tensors of the model, adapted to all of it."""
        if self._adaptive is not None:
            self._adaptive.finish()
        return self._device.parameters()


class MixedModel:
    """A language model with additions at test time, in place of a device that scores."""

    def __init__(self, make: DeviceMaker, settings: Settings, mixing: Mixing, reset_at_eos: bool = False) -> None:
        """reset_at_eos: start each line from a zero state, even if the model was not trained so."""
        self.mixing = mixing
        self.settings = replace(settings, reset_at_eos=settings.reset_at_eos or reset_at_eos)
        self._make = make
        self._device: Device | None = None

    def scorer(self, capacity: int = CHUNK, thetas: Sequence[float] = ()) -> MixedScorer:
        """Make a scorer for one text, which starts from the trained model and an empty cache. It ends the one before.

        capacity: at most CHUNK; thetas: see `MixedScorer.terms`.
        """
        self.close()
        adapts = self.mixing.adaptation is not None
        settings = adaptation_settings(self.settings) if adapts else self.settings
        self._device = self._make(settings, adapts)
        return MixedScorer(self._device, settings.bptt, self.mixing, thetas or [self.mixing.theta])

    def close(self) -> None:
        if self._device is not None:
            self._device.close()
            self._device = None


def shifted(ids: np.ndarray, end_of_line: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield inputs and targets of a text, int32 (1, T), at most CHUNK words at a time. It starts as after a line."""
    inputs = np.append(np.int32(end_of_line), ids[:-1]).astype(np.int32)
    for at in range(0, len(ids), CHUNK):
        yield inputs[None, at : at + CHUNK], ids[None, at : at + CHUNK]
