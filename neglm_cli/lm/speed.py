"""The speed of a training, measured on a few minibatches, and its FLOPs."""

import statistics
import time

from neglm_cli.lm.device import StepResult
from neglm_cli.lm.parameters import Shape
from neglm_cli.lm.trainer import Trainer
from neglm_cli.settings.train_lm import Settings

GEMMS_PER_WEIGHT = 3  # forward, gradient of the weights, gradient of the inputs


def seconds_per_word(trainer: Trainer, minibatches: int, seconds: float) -> float:
    """Return the median time per word over `minibatches` steps, stopping after `seconds`."""
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
    """Return the FLOPs of the matrix products in training: LSTM layers and scores."""
    scored = settings.k + 1 if settings.sampled else shape.words
    return 2 * GEMMS_PER_WEIGHT * (shape.lstm_macs + scored * shape.hidden)
