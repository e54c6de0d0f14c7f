"""FLOPs of a training, and its speed, measured by a simulated clock."""

from typing import Any

import pytest

from neglm_cli.lm import speed
from neglm_cli.lm.device import Minibatch
from neglm_cli.lm.parameters import Shape
from neglm_cli.lm.speed import flop_per_word, seconds_per_word
from neglm_cli.lm.trainer import QUEUED, Trainer
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings
from tests.lm.corpora import Words
from tests.lm.test_trainer import IDS, SETTINGS, Recorder


def test_flop_of_the_papers_model() -> None:
    """Each word takes three multiply-adds per weight of the layers, and per value of a scored row."""
    shape = Shape(words=10_000, embedding=300, hidden=300, layers=2)
    layers = 2 * (300 + 300) * 1200
    assert flop_per_word(shape, Settings()) == 6 * (layers + 101 * 300)
    assert flop_per_word(shape, Settings(loss="softmax")) == 6 * (layers + 10_000 * 300)
    assert flop_per_word(Shape(9, 7, 5, 1), Settings(k=2)) == 6 * (20 * (7 + 5) + 3 * 5)


class Clock(Recorder):
    """A device on which each word takes half a second, and the first minibatch an hour, as if it were compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def train(self, minibatch: Minibatch) -> Any:
        self.now += 0.5 * minibatch.inputs.size + 3600 * (minibatch.step == 1)
        return super().train(minibatch)


@pytest.mark.parametrize(("minibatches", "seconds", "steps"), [(4, 1e9, 5), (1000, 3670.0, 4)])
def test_seconds_per_word(monkeypatch: pytest.MonkeyPatch, minibatches: int, seconds: float, steps: int) -> None:
    """The first minibatch, which is not typical, does not count; both limits end the measurement."""
    clock: Any = Clock()
    monkeypatch.setattr(speed, "time", clock)
    progress = Progress()
    found = seconds_per_word(Trainer(Words(IDS), clock, SETTINGS, progress), minibatches, seconds)
    assert progress.step == steps + QUEUED
    assert found == pytest.approx(0.5)
