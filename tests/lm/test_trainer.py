"""The trainer: the minibatches it passes to a device, stopping, and resuming."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.device import Minibatch, StepResult
from neglm_cli.lm.trainer import MAX_LOSS_RATIO, WINDOW, DivergedError, EpochEnd, Stopped, Trainer
from neglm_cli.settings.parameters import OPTIMIZERS
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import AVERAGE_EVERY, Settings
from tests.lm.corpora import Words
from tests.lm.making import SMALL, device, materialize

LENGTH = 203
IDS = np.random.default_rng(0).integers(0, 50, LENGTH)
SETTINGS = Settings(batch=4, bptt=7, epochs=3, lr=1.0, decay=2.0, decay_from=2)


class Recorder:
    """A device that records its minibatches and trains nothing; `loss` gives the result of each."""

    def __init__(self, loss: Callable[[int], float] = lambda step: 1.0) -> None:
        self.given: list[Minibatch] = []
        self._loss = loss
        self.snapshots: list[tuple[int, int]] = []  # step and number of each
        self.swaps = 0

    def train(self, minibatch: Minibatch) -> "Future[StepResult]":
        self.given.append(minibatch)
        words = minibatch.inputs.size
        future: Future[StepResult] = Future()
        future.set_result(StepResult(self._loss(minibatch.step) * words, words, 1.0))
        return future

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        pass

    def add_to_average(self, number: int) -> None:
        self.snapshots.append((self.given[-1].step, number))

    def swap_average(self) -> None:
        self.swaps += 1


def run(settings: Settings, recorder: Any, progress: Progress | None = None, **options: Any) -> list[Any]:
    return list(Trainer(Words(IDS), recorder, settings, progress or Progress(), **options).run())


def test_every_word_is_a_target_once_per_epoch_at_its_position() -> None:
    recorder = Recorder()
    run(SETTINGS, recorder)
    segment = (LENGTH - 1) // 4
    for epoch in range(3):
        batches = [batch for batch in recorder.given if batch.epoch == epoch]
        assert [batch.number for batch in batches] == list(range(len(batches)))
        positions = np.concatenate([batch.positions for batch in batches], axis=1)
        np.testing.assert_array_equal(positions.reshape(-1), np.arange(1, 4 * segment + 1))
        for batch in batches:
            np.testing.assert_array_equal(batch.targets, IDS[batch.positions.astype(int)])
            np.testing.assert_array_equal(batch.inputs, IDS[batch.positions.astype(int) - 1])
    assert [batch.step for batch in recorder.given] == list(range(1, len(recorder.given) + 1))


def test_the_learning_rate_decays_as_in_the_paper() -> None:
    """Divided by 1.2 after every epoch starting with the sixth, so the seventh is the first with a lower rate."""
    rates = [Settings().rate(epoch) for epoch in range(9)]
    assert rates == pytest.approx([1] * 6 + [1 / 1.2, 1 / 1.2**2, 1 / 1.2**3])
    recorder = Recorder()
    run(SETTINGS, recorder)
    assert [batch.rate for batch in recorder.given if batch.number == 0] == [1.0, 1.0, 0.5]


def test_the_cosine_schedule_falls_at_every_minibatch() -> None:
    recorder = Recorder()
    ends = [end for end in run(replace(SETTINGS, schedule="cosine"), recorder) if isinstance(end, EpochEnd)]
    minibatches = len(recorder.given)
    expected = (1 + np.cos(np.pi * np.arange(minibatches) / minibatches)) / 2
    assert [batch.rate for batch in recorder.given] == pytest.approx(expected)
    assert [end.rate for end in ends] == [
        recorder.given[last].rate for last in (minibatches // 3 - 1, minibatches * 2 // 3 - 1, -1)
    ]


def test_weight_decay_is_a_share_of_the_learning_rate() -> None:
    recorder = Recorder()
    run(replace(SETTINGS, schedule="cosine", weight_decay=0.25), recorder)
    assert [batch.decay for batch in recorder.given] == pytest.approx([batch.rate / 4 for batch in recorder.given])


def test_the_plateau_schedule_decays_after_an_epoch_without_improvement() -> None:
    found = iter([3.0, 2.0, 2.5, 2.0, 1.0, 0.5])
    recorder = Recorder()
    run(replace(SETTINGS, schedule="plateau", epochs=6), recorder, validate=lambda: next(found))
    assert [batch.rate for batch in recorder.given if batch.number == 0] == [1.0, 1.0, 1.0, 0.5, 0.25, 0.25]


def test_epochs_end_with_the_mean_loss_and_the_validation() -> None:
    found = iter([30.0, 20.0, 25.0])
    progress = Progress()
    results = run(SETTINGS, Recorder(), progress, validate=lambda: next(found))
    ends = [result for result in results if isinstance(result, EpochEnd)]
    assert [(end.epoch, end.perplexity, end.best) for end in ends] == [(1, 30, True), (2, 20, True), (3, 25, False)]
    assert [end.loss for end in ends] == pytest.approx([1, 1, 1])
    assert (progress.best, progress.best_epoch, progress.epoch) == (20, 2, 3)
    assert progress.words == 3 * 4 * ((LENGTH - 1) // 4)


def test_patience() -> None:
    found = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    results = run(replace(SETTINGS, epochs=50, patience=2), Recorder(), validate=lambda: next(found))
    assert sum(isinstance(result, EpochEnd) for result in results) == 4


def test_nan_raises() -> None:
    with pytest.raises(DivergedError, match="step 5 .* smaller --lr than 1, or a smaller --clip than 5"):
        run(SETTINGS, Recorder(lambda step: 1.0 if step != 5 else float("nan")))


def test_an_increasing_loss_raises() -> None:
    many = replace(SETTINGS, epochs=10 * WINDOW)
    with pytest.raises(DivergedError, match="was 2.000 nats per word and has risen to 5"):
        run(many, Recorder(lambda step: 2.0 if step <= 2 * WINDOW else 5.0))


def test_a_loss_far_above_the_first_one_raises_at_once() -> None:
    """The ratio is of nats per word: minibatches at the end of an epoch are smaller."""
    jump = 6
    with pytest.raises(DivergedError, match=r"step 6 .* the loss was 2\.000 nats per word and is 2002"):
        run(SETTINGS, Recorder(lambda step: 2.0 if step != jump else 2.0 * MAX_LOSS_RATIO + 2))
    run(SETTINGS, Recorder(lambda step: 2.0 if step != jump else 2.0 * MAX_LOSS_RATIO))


def stop_after(trainer: Trainer, minibatches: int) -> None:
    for count, _ in enumerate(trainer.run(), 1):
        trainer.stopping = count >= minibatches


def test_stopping_counts_submitted_minibatches() -> None:
    recorder, progress = Recorder(), Progress()
    as_device: Any = recorder
    stop_after(Trainer(Words(IDS), as_device, SETTINGS, progress), 4)
    assert 4 < progress.step == len(recorder.given) < 10


def test_stopping_during_validation_leaves_the_epoch_unfinished() -> None:
    def validate() -> float:
        raise Stopped

    progress = Progress()
    results = run(SETTINGS, Recorder(), progress, validate=validate)
    assert not [result for result in results if isinstance(result, EpochEnd)]
    assert progress.epoch == 0
    assert progress.minibatch == len(results)
    found = iter([9.0, 8.0, 7.0])
    ends = [
        end for end in run(SETTINGS, Recorder(), progress, validate=lambda: next(found)) if isinstance(end, EpochEnd)
    ]
    assert [end.perplexity for end in ends] == [9, 8, 7]


def test_the_average_starts_when_validation_gets_worse() -> None:
    """The third epoch is worse than the best one two epochs before it; the average begins with the fourth."""
    recorder, settings = Recorder(), replace(SETTINGS, batch=2, bptt=3, epochs=5, average=2)
    perplexities = iter([9.0, 8.0, 9.5, 7.0, 7.0])
    run(settings, recorder, validate=lambda: next(perplexities))
    steps = len(recorder.given) // 5
    assert recorder.snapshots == [
        (3 * steps + AVERAGE_EVERY * number, number) for number in range(1, 2 * steps // AVERAGE_EVERY + 1)
    ]
    assert recorder.swaps == 4  # there and back, for two validations


def test_without_validation_the_second_half_is_averaged() -> None:
    recorder = Recorder()
    run(replace(SETTINGS, batch=2, bptt=3, epochs=4, average=1), recorder)
    steps = len(recorder.given) // 4
    assert recorder.snapshots[0] == (2 * steps + AVERAGE_EVERY, 1)


def test_an_average_is_not_started_by_an_epoch_that_is_only_worse_than_the_last() -> None:
    settings = replace(SETTINGS, average=3)
    assert settings.average_from([9, 8, 7, 7.5, 7.6], validated=True) is None
    assert settings.average_from([9, 8, 7, 7.5, 7.6, 7.7], validated=True) == 6
    assert replace(settings, average=0).average_from([1, 2, 3, 4, 5], validated=True) is None


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_resumed_run_equals_an_uninterrupted_one(optimizer: str) -> None:
    settings = replace(
        SMALL, optimizer=optimizer, adam="exact", lr=0.05, epochs=2, batch=4, bptt=3, reset_at_eos=True, average=1
    )
    complete = device(settings, 50)
    finished = Progress()
    list(Trainer(Words(IDS), complete, settings, finished).run())
    assert finished.averaged > 0
    for stop in (1, 13, 30):
        first, progress = device(settings, 50), Progress()
        stop_after(Trainer(Words(IDS), first, settings, progress), stop)
        state = materialize(first.parameters() | first.state())
        first.close()
        second = device(replace(settings, seed=99), 50)  # different parameters, all to be replaced
        second.settings = settings
        second.restore(state)
        list(Trainer(Words(IDS), second, settings, progress).run())
        for name, tensor in materialize(second.parameters() | second.state()).items():
            np.testing.assert_array_equal(tensor, materialize(complete.parameters() | complete.state())[name], name)
        second.close()
    complete.close()
