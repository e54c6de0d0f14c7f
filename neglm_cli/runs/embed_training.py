"""The training of vectors by sampling, as the loop sees it: a step is a segment of the text or table."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from neglm_cli.errors import NeglmError
from neglm_cli.runs.loop import Epoch, Step
from neglm_cli.sgns.job import Job
from neglm_cli.sgns.trainer import Trained


class EmbedTraining:
    checkpoint_epochs = False
    keeps_best = False
    step = None

    def __init__(self, job: Job) -> None:
        self.job = job
        self.ranks = job.ranks
        self.epochs = job.settings.epochs
        self.total = job.total
        self.unit = "pairs" if job.pairs else "words"
        self.shown_unit = f"M {self.unit}"
        self.stopped = self._stopping = False
        self._trainer = job.trainer()
        self._trainer.prepare()
        self._loss, self._pairs = 0.0, 0  # of this epoch, on this rank
        self._ended: Epoch | None = None  # the result of an epoch that has just ended
        self._trained = bool(job.done)  # there was something to learn

    @property
    def done(self) -> int:
        return self.job.done

    @property
    def epochs_done(self) -> int:
        return self.done // max(self.job.source.length, 1)

    @property
    def learning_rate(self) -> float:
        return self._trainer.rate

    @property
    def loss(self) -> float:
        """The mean loss of this epoch so far."""
        return self._loss / max(self._pairs, 1)

    @property
    def can_checkpoint(self) -> bool:
        return self._trainer.in_sync and self.done < self.total

    def stop(self) -> None:
        self._stopping = True

    def steps(self) -> Iterator[Step | Epoch]:
        with closing(self._trainer.run()) as running:
            for trained in running:
                yield self._step_of(trained)
                if self._ended is not None:
                    yield self._ended
                    self._ended = None
                if self.can_checkpoint and self.ranks.any(self._stopping):
                    self._trainer.average()
                    self.stopped = True
                    break
        self.job.done = self._trainer.done
        self.stopped = self.done < self.total
        if not self.stopped and not self.ranks.any(self._trained):
            raise NeglmError("there is nothing to learn: no two words that have vectors are in one window")

    def drain(self) -> Iterator[Step]:
        yield from map(self._step_of, self._trainer.drain())
        self._trainer.average()

    def _step_of(self, trained: Trained) -> Step:
        job = self.job
        if trained.pairs and job.done % job.source.length == 0:
            self._loss, self._pairs = 0.0, 0
        self._loss, self._pairs = self._loss + trained.loss, self._pairs + trained.pairs
        self._trained = self._trained or trained.pairs > 0
        advanced, job.done = self._trainer.done - job.done, self._trainer.done
        if advanced and job.done % job.source.length == 0:
            self._ended = Epoch(self.epochs_done, self.loss, self._pairs, self.learning_rate)
        return Step(advanced, trained.loss, trained.pairs)

    def measure(self) -> dict[str, Any]:
        return {}

    def status(self) -> str:
        return f"loss {self.loss:.4f}"

    def save_checkpoint(self, path: str) -> None:
        self.job.save(path)

    def save_result(self, path: str) -> None:
        self.job.save(path)
