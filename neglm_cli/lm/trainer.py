"""The training loop: epochs of minibatches, learning rate, validation and early stopping, on any device."""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.device import Device, Minibatch, Pending, StepResult
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import AVERAGE_EVERY, Settings
from neglm_cli.text.batches import Batches
from neglm_cli.text.encoded import EncodedCorpus

QUEUED = 2  # minibatches submitted ahead, so that the device never waits
WINDOW = 500  # minibatches over which the loss is averaged to detect divergence
MAX_LOSS_RATIO = 1000.0  # times the first loss: a higher one stops the run at once
DIVERGENCE_RATIO = 2.0  # times the lowest mean loss of a window: a window with a higher mean stops the run


class DivergedError(NeglmError):
    """Training diverged; the last checkpoint is good."""


class Stopped(Exception):  # noqa: N818
    """Raised by a validation that was interrupted."""


@dataclass(frozen=True)
class EpochEnd:
    """The result of an epoch. perplexity: of the validation text; best: True if it is the lowest so far."""

    epoch: int  # from 1 on
    loss: float  # nats per word
    words: int  # over which the loss is the mean
    rate: float  # the learning rate at its end
    perplexity: float | None
    best: bool


class Trainer:
    """Trains on a corpus. A run can stop after any minibatch; `progress` is where another resumes."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        device: Device,
        settings: Settings,
        progress: Progress,
        validate: Callable[[], float] | None = None,
        ranks: Ranks = SINGLE_RANK,
    ) -> None:
        self.progress = progress
        self._device = device
        self._settings = settings
        self._validate = validate
        self._ranks = ranks
        self._batches = Batches(corpus, settings.batch, settings.bptt)
        self._pending: deque[Pending] = deque()
        self.stopping = False  # set by another thread, on a signal
        self.stopped = False  # all ranks stop after the same minibatch
        self._window: list[float] = []
        self._first = self._lowest = math.inf

    @property
    def words_per_epoch(self) -> int:
        return self._batches.words

    @property
    def total(self) -> int:
        """Words of all epochs."""
        return self.words_per_epoch * self._settings.epochs

    @property
    def rate(self) -> float:
        """The current learning rate."""
        return self._rate(self.progress.minibatch)

    def _rate(self, minibatch: int) -> float:
        """Return the learning rate of a minibatch of the current epoch."""
        progress = self.progress
        return self._settings.rate(progress.epoch, minibatch / len(self._batches), progress.valid_perplexities)

    def run(self) -> Generator[StepResult | EpochEnd, None, None]:
        """Train to the end, or until `stopping` is set on any rank; yields the result of each step and epoch.

        At the end no step is pending, and `progress` is up to date."""
        while self.progress.epoch < self._settings.epochs and not self._out_of_patience():
            yield from self._epoch()
            if self.stopped:
                return
            try:
                yield self._end_epoch()
            except Stopped:
                self.stopped = True
                return

    def wait(self) -> Generator[StepResult, None, None]:
        """Wait for all pending steps, so that `progress` matches the parameters."""
        while self._pending:
            yield self._finish()

    def _epoch(self) -> Generator[StepResult, None, None]:
        progress, settings = self.progress, self._settings
        number, step = progress.minibatch, progress.step
        rows = np.arange(settings.batch)[:, None] * self._batches.segment_length
        for batch in self._batches.start_at(number):
            if self._ranks.any(self.stopping):
                self.stopped = True
                break
            steps = batch.inputs.shape[1]
            positions = (rows + number * settings.bptt + 1 + np.arange(steps)).astype(np.uint64)
            rate = self._rate(number)
            number, step = number + 1, step + 1
            minibatch = Minibatch(
                batch.inputs, batch.targets, positions, progress.epoch, number - 1, step, rate,
                rate * settings.weight_decay,
            )  # fmt: skip
            self._pending.append(self._device.train(minibatch))
            if snapshots := self._snapshots(step):
                self._device.add_to_average(snapshots)
            while len(self._pending) > QUEUED:
                yield self._finish()
        yield from self.wait()
        if progress.minibatch < len(self._batches) and not self.stopped:
            raise NeglmError("the text became shorter while it was trained on: start again when it is complete")

    def _finish(self) -> StepResult:
        result = self._pending.popleft().result()
        self._check(result)
        progress = self.progress
        progress.minibatch += 1
        progress.step += 1
        progress.averaged = self._snapshots(progress.step) or progress.averaged
        progress.words += result.words
        progress.loss_sum += result.loss
        progress.loss_words += result.words
        return result

    def _check(self, result: StepResult) -> None:
        """Raise on NaN/inf or sustained divergence."""
        if not (math.isfinite(result.loss) and math.isfinite(result.norm)):
            self._pending.clear()
            raise self._diverged(f"the loss is {result.loss:g} and the gradient's norm {result.norm:g}")
        loss = result.loss / result.words
        self._first = loss if self._first == math.inf else self._first
        if loss > MAX_LOSS_RATIO * self._first:
            self._pending.clear()
            raise self._diverged(
                f"the loss was {self._first:.3f} nats per word and is {loss:g}, the gradient's norm {result.norm:g}"
            )
        self._window.append(loss)
        if len(self._window) == WINDOW:
            mean = sum(self._window) / WINDOW
            if mean > DIVERGENCE_RATIO * self._lowest:
                self._pending.clear()
                raise self._diverged(
                    f"the loss was {self._lowest:.3f} nats per word and has risen to {mean:.3f}, with a gradient of "
                    f"norm {result.norm:g}"
                )
            self._lowest = min(self._lowest, mean)
            self._window.clear()

    def _diverged(self, what: str) -> DivergedError:
        progress = self.progress
        return DivergedError(
            f"training diverges in step {progress.step + 1:,} (epoch {progress.epoch + 1}): {what}; use a smaller --lr "
            f"than {self._settings.lr:g}, or a smaller --clip than {self._settings.clip:g}"
        )

    def _end_epoch(self) -> EpochEnd:
        progress, rate = self.progress, self._rate(len(self._batches) - 1)
        self._device.flush_lazy_updates(progress.step, rate)
        perplexity = None
        if self._validate is not None:
            with self.averaged():
                perplexity = self._validate()
        if perplexity is not None and not math.isfinite(perplexity):
            raise self._diverged(f"the perplexity of the validation text is {perplexity:g}")
        words = progress.loss_words
        loss = progress.loss_sum / max(words, 1)
        best = perplexity is not None and perplexity < progress.best
        progress.epoch_losses.append(loss)
        if perplexity is not None:
            progress.valid_perplexities.append(perplexity)
        progress.epoch, progress.minibatch, progress.loss_sum, progress.loss_words = progress.epoch + 1, 0, 0.0, 0
        return EpochEnd(progress.epoch, loss, words, rate, perplexity, best)

    def _snapshots(self, step: int) -> int:
        """Return the number of snapshots in the average of the parameters if `step` adds one, else 0."""
        first = self._settings.average_from(self.progress.valid_perplexities, self._validate is not None)
        if first is None:
            return 0
        steps = step - first * len(self._batches)
        return steps // AVERAGE_EVERY if steps > 0 and steps % AVERAGE_EVERY == 0 else 0

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Use the average of the parameters, if there is one, to validate or save."""
        if not self.progress.averaged:
            yield
            return
        self._device.swap_average()
        try:
            yield
        finally:
            self._device.swap_average()

    def _out_of_patience(self) -> bool:
        patience, found = self._settings.patience, self.progress.valid_perplexities
        return bool(patience and found and len(found) - self.progress.best_epoch >= patience)
