"""Dynamic evaluation: a model that keeps learning from the text that it scores (Krause et al., 2018).

A text is scored in segments of `bptt` words. After each one, the model takes a gradient step on it, with its own loss
and without dropout, and all parameters decay to the trained ones p₀:

    p −= rate · g − decay · (p₀ − p)

With negative sampling, a step touches the rows of the segment's words and of k noise words per word. Other rows of the
tables apply their decay when they are needed next: the time of a step does not depend on the size of the vocabulary.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.device import Device, Minibatch, Scores
from neglm_cli.settings.parameters import ANCHORED
from neglm_cli.settings.train_lm import Settings


class Adaptation(NamedTuple):
    """The steps of dynamic evaluation."""

    rate: float
    decay: float  # share of the distance to the trained parameters, per step


class AdaptationDivergedError(NeglmError):
    """Dynamic evaluation took too large steps."""


def adaptation_settings(settings: Settings) -> Settings:
    """Return the settings of a device that adapts: one text, no dropout, no average."""
    without_dropout = replace(settings, dropout=0.0, embedding_dropout=0.0, recurrent_dropout=0.0)
    return replace(without_dropout, batch=1, optimizer=ANCHORED, average=0)


class AdaptiveScorer:
    """Scores one text in order, and adapts the device's model to it; calls may cut the text anywhere.

    The device has the settings of `adaptation_settings`, and is prepared for training.
    """

    def __init__(self, device: Device, bptt: int, adaptation: Adaptation) -> None:
        self.capacity = bptt
        self._device = device
        self._scorer = device.scorer(bptt)
        self._adaptation = adaptation
        self._segment = np.empty((2, bptt), np.int32)  # inputs and targets that no step has seen yet
        self._filled = self._steps = self._words = 0
        self._outputs = np.empty((1, 0, device.shape.hidden), np.float32)

    def score(self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True) -> Scores:
        """Score targets, and adapt after each full segment. inputs, targets: int32 (1, T), of any T."""
        scores, outputs, at = [], [], 0
        while at < inputs.shape[1]:
            end = min(at + self.capacity - self._filled, inputs.shape[1])
            piece = inputs[:, at:end], targets[:, at:end]
            if self._steps:
                needed = None if normalized else piece[1]  # normalizing reads the whole output table
                self._device.flush_decay(self._steps, self._adaptation.decay, piece[0], needed)
            scores.append(self._scorer.score(*piece, normalized))
            outputs.append(self._scorer.outputs())
            self._segment[:, self._filled : self._filled + end - at] = np.concatenate(piece)
            self._filled, at = self._filled + end - at, end
            if self._filled == self.capacity:
                self._adapt()
        self._outputs = np.concatenate(outputs, axis=1)
        return Scores(*(np.concatenate(parts, axis=1) for parts in zip(*scores, strict=True)))

    def outputs(self) -> np.ndarray:
        return self._outputs

    def finish(self) -> None:
        """Adapt to the last words, too, and apply all skipped decay: the device then has the adapted model."""
        if self._filled:
            self._adapt()
        self._device.flush_decay(self._steps, self._adaptation.decay, None, None)

    def _adapt(self) -> None:
        inputs, targets = self._segment[:, None, : self._filled].copy()
        positions = np.arange(self._words + 1, self._words + self._filled + 1, dtype=np.uint64)[None]
        rate, decay = self._adaptation
        minibatch = Minibatch(inputs, targets, positions, 0, self._steps, self._steps + 1, rate, decay)
        result = self._device.train(minibatch).result()
        self._scorer.parameters_changed()
        self._words, self._steps, self._filled = self._words + self._filled, self._steps + 1, 0
        if not (math.isfinite(result.loss) and math.isfinite(result.norm)):
            raise AdaptationDivergedError(
                f"the model diverges after {self._words:,} words of adaptation: use a smaller rate than {rate:g}"
            )
