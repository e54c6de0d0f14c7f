"""The trainer: epochs of minibatches, the learning rate, validation, and the moment to stop. It knows no device."""

import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.device import Device, Minibatch, Pending, Trained
from neglm_cli.lm.model import Progress
from neglm_cli.lm.settings import Settings
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.text.batches import Batches
from neglm_cli.text.encoded import EncodedCorpus

QUEUED = 2  # minibatches that are handed out before the first is finished: the device need not wait for the next
WINDOW = 500  # minibatches over which the loss is looked at for divergence
ABSURD = 1000.0  # times the loss of the first minibatch: what is above is stopped at once
DIVERGING = 2.0  # times the lowest loss of a window: what is above goes wrong


class DivergedError(NeglmError):
    """Training went wrong; what was saved before is good."""


class Stopped(Exception):  # noqa: N818
    """Raised by a validation that was told to stop."""


@dataclass(frozen=True)
class EpochEnd:
    """After an epoch. `perplexity` is that of the validation text, if there is one; `best` if none was as low."""

    epoch: int  # from 1 on
    loss: float  # nats per word
    words: int  # that the loss is the mean of
    perplexity: float | None
    best: bool


class Trainer:
    """Trains on a corpus. `progress` says how much lies behind: a run can stop anywhere, and another go on there."""

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
        self.stopping = False  # set by another thread: signals do not come here
        self.stopped = False  # whether it has, since all processes agree on that
        self._window: list[float] = []
        self._first = self._lowest = math.inf

    @property
    def words_per_epoch(self) -> int:
        return self._batches.segment_length * self._settings.batch

    @property
    def total(self) -> int:
        """Words of all epochs."""
        return self.words_per_epoch * self._settings.epochs

    @property
    def rate(self) -> float:
        """The learning rate now."""
        return self._settings.rate(self.progress.epoch)

    def run(self) -> Generator[Trained | EpochEnd, None, None]:
        """Train to the end, or until `stopping` is set in one process; gives the result of each minibatch and of each
        epoch. When it ends, what the device has begun is finished and counted: `progress` says where another run can
        go on."""
        while self.progress.epoch < self._settings.epochs and not self._out_of_patience():
            yield from self._epoch()
            if self.stopped:
                return
            try:
                yield self._end_epoch()
            except Stopped:
                self.stopped = True
                return

    def settle(self) -> Generator[Trained, None, None]:
        """Wait until all that was handed out is done, so that `progress` and the device belong together."""
        while self._pending:
            yield self._finish()

    def _epoch(self) -> Generator[Trained, None, None]:
        progress, settings = self.progress, self._settings
        number, step = progress.minibatch, progress.step
        rows = np.arange(settings.batch)[:, None] * self._batches.segment_length
        for batch in self._batches.start_at(number):
            if self._ranks.any(self.stopping):
                self.stopped = True
                break
            steps = batch.inputs.shape[1]
            positions = (rows + number * settings.bptt + 1 + np.arange(steps)).astype(np.uint64)
            number, step = number + 1, step + 1
            minibatch = Minibatch(
                batch.inputs, batch.targets, positions, progress.epoch, number - 1, step, self.rate
            )  # fmt: skip
            self._pending.append(self._device.train(minibatch))
            while len(self._pending) > QUEUED:
                yield self._finish()
        yield from self.settle()
        if progress.minibatch < len(self._batches) and not self.stopped:
            raise NeglmError("the text became shorter while it was trained on: start again when it is complete")

    def _finish(self) -> Trained:
        trained = self._pending.popleft().result()
        self._check(trained)
        progress = self.progress
        progress.minibatch += 1
        progress.step += 1
        progress.words += trained.words
        progress.loss += trained.loss
        progress.loss_words += trained.words
        return trained

    def _check(self, trained: Trained) -> None:
        """Stop where numbers are none, or the loss rises for long."""
        if not (math.isfinite(trained.loss) and math.isfinite(trained.norm)):
            self._pending.clear()
            raise self._diverged(f"the loss is {trained.loss:g} and the gradient's norm {trained.norm:g}")
        loss = trained.loss / trained.words
        self._first = loss if self._first == math.inf else self._first
        if loss > ABSURD * self._first:
            self._pending.clear()
            raise self._diverged(
                f"the loss was {self._first:.3f} nats per word and is {loss:g}, the gradient's norm {trained.norm:g}"
            )
        self._window.append(loss)
        if len(self._window) == WINDOW:
            mean = sum(self._window) / WINDOW
            if mean > DIVERGING * self._lowest:
                self._pending.clear()
                raise self._diverged(
                    f"the loss was {self._lowest:.3f} nats per word and has risen to {mean:.3f}, with a gradient of "
                    f"norm {trained.norm:g}"
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
        progress = self.progress
        self._device.finish_moves(progress.step, self.rate)
        perplexity = self._validate() if self._validate is not None else None
        if perplexity is not None and not math.isfinite(perplexity):
            raise self._diverged(f"the perplexity of the validation text is {perplexity:g}")
        words = progress.loss_words
        loss = progress.loss / max(words, 1)
        best = perplexity is not None and perplexity < progress.best
        progress.losses.append(loss)
        if perplexity is not None:
            progress.validations.append(perplexity)
        progress.epoch, progress.minibatch, progress.loss, progress.loss_words = progress.epoch + 1, 0, 0.0, 0
        return EpochEnd(progress.epoch, loss, words, perplexity, best)

    def _out_of_patience(self) -> bool:
        patience, found = self._settings.patience, self.progress.validations
        return bool(patience and found and len(found) - self.progress.best_epoch >= patience)
