"""A language model's training, as the loop sees it: a step is a minibatch."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from neglm_cli.lm.device import StepResult
from neglm_cli.lm.job import Job
from neglm_cli.lm.sync import sync_parameters
from neglm_cli.lm.trainer import EpochEnd
from neglm_cli.runs.host import Host, Tracker
from neglm_cli.runs.loop import Epoch, Step


class LmTraining:
    unit, shown_unit = "words", "K words"
    checkpoint_epochs = True
    can_checkpoint = True

    def __init__(self, job: Job, host: Host) -> None:
        self.job = job
        self.ranks = job.ranks
        self.epochs = job.settings.epochs
        self.keeps_best = job.texts.valid is not None
        self._host = host
        self._log_z: tuple[float, float] | None = None
        job.validation_progress = self._track_validation

    @property
    def done(self) -> int:
        return self.job.progress.words

    @property
    def total(self) -> int:
        return self.job.trainer.total

    @property
    def epochs_done(self) -> int:
        return self.job.progress.epoch

    @property
    def step(self) -> int:
        return self.job.progress.step

    @property
    def learning_rate(self) -> float:
        return self.job.trainer.rate

    @property
    def stopped(self) -> bool:
        return self.job.trainer.stopped

    def stop(self) -> None:
        self.job.trainer.stopping = True

    def steps(self) -> Iterator[Step | Epoch]:
        for result in self.job.trainer.run():
            if isinstance(result, EpochEnd):
                if sync_parameters(self.job.device, self.ranks):
                    self._host.note("parameters diverged across ranks (mixed CPU types?); continuing with rank 0's")
                yield self._epoch_of(result)
            else:
                yield _step_of(result)

    def drain(self) -> Iterator[Step]:
        return map(_step_of, self.job.trainer.wait())

    def _epoch_of(self, end: EpochEnd) -> Epoch:
        return Epoch(end.epoch, end.loss, end.words, end.rate, end.perplexity, end.best)

    def measure(self) -> dict[str, Any]:
        """Return the mean and deviation of log Z: how closely the model normalizes itself."""
        log_z = self.job.device.log_z()
        self._log_z = float(log_z.mean()), float(log_z.std())
        return {"log_z_mean": self._log_z[0], "log_z_std": self._log_z[1]}

    def status(self) -> str:
        progress = self.job.progress
        parts = [self._current_epoch(), f"loss {progress.loss_sum / max(progress.loss_words, 1):.4f}"]
        if progress.valid_perplexities:
            parts.append(f"valid {progress.valid_perplexities[-1]:.2f}")
        parts.append(f"lr {self.learning_rate:.3g}")
        if self._log_z:
            parts.append(f"log Z {self._log_z[0]:.2f} ± {self._log_z[1]:.2f}")
        return ", ".join(parts)

    def _current_epoch(self) -> str:
        return f"epoch {self.epochs_done + 1}/{self.epochs}"

    def _track_validation(self, words: int) -> AbstractContextManager[Tracker]:
        return self._host.track(f"validating, {self._current_epoch()}", words, "K words")

    def save_checkpoint(self, path: str) -> None:
        self.job.save_checkpoint(path)

    def save_result(self, path: str) -> None:
        self.job.save_model(path)


def _step_of(result: StepResult) -> Step:
    return Step(result.words, result.loss, result.words, result.norm)
