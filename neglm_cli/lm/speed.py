"""How fast a training is, from a few of its minibatches."""

import statistics
import time

from neglm_cli.lm.device import StepResult
from neglm_cli.lm.parameters import Shape
from neglm_cli.lm.trainer import Trainer
from neglm_cli.settings.train_lm import Settings

DIRECTIONS = 3  # a product forward; one for the gradient of its weights, one for that of what they multiply


def seconds_per_word(trainer: Trainer, minibatches: int, seconds: float) -> float:
    """The median over some minibatches, or over those that the time is enough for."""
    times: list[float] = []
    words = 0
    begun = last = time.monotonic()
    for trained in trainer.run():
        now = time.monotonic()
        if isinstance(trained, StepResult):
            times.append(now - last)
            words = max(words, trained.words)
        last = now
        trainer.stopping = len(times) > minibatches or now - begun > seconds
    return statistics.median(times) / words


def flop_per_word(shape: Shape, settings: Settings) -> int:
    """Of the products of matrices in training: those of the layers, and the scores."""
    gates = sum(4 * shape.hidden * (inputs + shape.hidden) for inputs in shape.inputs)
    scored = settings.k + 1 if settings.sampled else shape.words
    return 2 * DIRECTIONS * (gates + scored * shape.hidden)
