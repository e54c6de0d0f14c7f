"""The training of `neglm train-lm`: progress, log, checkpoints, what happens when it is cut short, and the summary."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.corpora import CHECKPOINT_SHARE, last_state, state_beside
from neglm_cli.cli.processes import traffic, traffic_text
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.signals import Terminated, noted
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.store.output import STANDARD_OUTPUT, write_error

if TYPE_CHECKING:
    from neglm_cli.lm.device import StepResult
    from neglm_cli.lm.job import Job
    from neglm_cli.lm.trainer import EpochEnd

REPORT_EVERY = 10.0  # seconds
LOOK_EVERY = 0.2  # seconds, for signals
RANK = "{rank}"  # in the name of a log


def log_name(path: str | None) -> str | None:
    """The file that this process would log to."""
    return path and path.replace(RANK, str(console.rank or 0))


class Log:
    """One JSON object per line and report; nothing without a path. If it cannot be written, training goes on. Of
    several processes the first one writes it, or each its own, if the name has a place for the rank."""

    def __init__(self, path: str | None, goes_on: bool) -> None:
        self._rank = {} if console.rank is None else {"rank": console.rank}
        self._file: IO[str] | None = None
        self._path = path
        name = log_name(path)
        if path is not None and name is not None and (not console.rank or RANK in path):
            try:
                self._file = open(name, "a" if goes_on else "w", encoding="utf-8")  # noqa: SIM115
            except OSError as error:
                raise write_error(name, error) from error

    def write(self, record: dict[str, Any]) -> None:
        if self._file is not None:
            try:
                self._file.write(json.dumps(self._rank | record) + "\n")
                self._file.flush()
            except OSError as error:
                console.note(
                    f"cannot write {shown(str(self._path))}: {error.strerror or error}; there is no log any more"
                )
                self._file = None

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


class RunningLoss:
    """Training loss since the last report or the last epoch. Times are seconds of one clock."""

    def __init__(self, now: float) -> None:
        self.reset(now)

    def reset(self, now: float) -> None:
        self._since, self._loss, self.words = now, 0.0, 0

    def add(self, trained: "StepResult") -> None:
        self._loss += trained.loss
        self.words += trained.words

    def is_due(self, now: float) -> bool:
        """Check whether it is time for a report."""
        return now - self._since > REPORT_EVERY

    @property
    def mean(self) -> float:
        """Nats per word."""
        return self._loss / max(self.words, 1)


class Run:
    """One run of a training, from its start or from where another stopped, to its end or to an interruption."""

    def __init__(self, job: "Job", output: str, checkpoint: float, log: Log) -> None:
        self._job = job
        self._trainer = job.trainer
        self._output = output
        self._state = state_beside(output)
        self._checkpoint = checkpoint
        self._log = log
        self._begun = job.progress.step
        self._words_before = job.progress.words
        self._is_saved = bool(self._begun)  # whether the state on the disk is of this training
        self._has_written_model = False  # in this run, of an epoch that was the best
        self._saved, self._took = time.monotonic(), 0.0
        self._running = RunningLoss(time.monotonic())
        self._log_z: tuple[float, float] | None = None
        self._progress = Progress("training", self._trainer.total, "K words", job.progress.words)
        job.watch_validation = self._validating

    def train(self) -> dict[str, Any]:
        """Train to the end and write the model; what is done so far is written now and then, and if it is cut short.

        The work is done in a thread of its own, and this one looks whether signals were noted: they never hit between
        two things that belong together, and all processes stop after the same minibatch. (It does not sleep until one
        comes: a signal that the system has given to another thread wakes nobody up.)"""
        with noted() as signals:
            with ThreadPoolExecutor(1) as worker:
                work = worker.submit(self._work)
                while not wait([work], LOOK_EVERY).done:
                    self._trainer.stopping = bool(signals)
            try:
                work.result()
            except NeglmError as error:
                kept = last_state(self._state) if self._is_saved else "no state was written"
                sentence = str(error)
                if self._has_written_model:
                    sentence = sentence.removesuffix("; nothing was changed")
                    kept += f", and {shown(self._output)} is the best model so far"
                raise NeglmError(f"{sentence}; {kept}") from error
            if self._trainer.stopped:
                self._keep_state()
                raise Terminated(signals[0] if signals else signal.SIGTERM)  # or it came to another process
            self._finish()
        return self._summary()

    def _finish(self) -> None:
        if self._job.texts.valid is None:
            self._job.save_model(self._output)
        self._record("end", {})
        if self._state and not console.rank:
            with suppress(OSError):
                Path(self._state).unlink()

    def _keep_state(self) -> None:
        if self._state and self._job.progress.step > self._begun:
            self._job.save_state(self._state)
            console.note(f"the state is in {shown(self._state)}: go on with --resume")

    def _work(self) -> None:
        from neglm_cli.lm.trainer import EpochEnd

        with self._progress:
            for result in self._trainer.run():
                if isinstance(result, EpochEnd):
                    self._after_epoch(result)
                else:
                    self._after_minibatch(result)
            self._seconds = self._progress.seconds  # of training, without the writing of the model at the end

    def _after_minibatch(self, trained: "StepResult") -> None:
        self._running.add(trained)
        now = time.monotonic()
        if self._running.is_due(now):
            self._report(trained.norm)
        self._progress.advance(trained.words, self._detail())
        due = now - self._saved > max(self._checkpoint, CHECKPOINT_SHARE * self._took)
        if self._state and self._job.ranks.any(due and not console.rank):  # the first process decides
            for finished in self._trainer.wait():
                self._running.add(finished)
                self._progress.advance(finished.words)
            self._save_state()

    def _save_state(self) -> None:
        started = time.monotonic()
        self._job.save_state(self._state)
        self._saved = time.monotonic()
        self._took = self._saved - started
        self._is_saved = True

    def _after_epoch(self, end: "EpochEnd") -> None:
        from neglm_cli.lm.alignment import align

        job = self._job
        if align(job.device, job.ranks):
            console.note(
                "the processes' models had drifted apart, as on processors of different kinds: rank 0's counts"
            )
        if end.perplexity is not None and end.best:
            job.save_model(self._output)
            self._has_written_model = True
        if self._state and job.progress.epoch < job.settings.epochs:
            self._save_state()
        found: dict[str, Any] = {"loss": end.loss, "loss_tokens": end.words}
        if end.perplexity is not None:
            found |= {"valid_perplexity": end.perplexity, "best": end.best}
        self._record("epoch", found, end.epoch)
        if end.perplexity is not None:
            mark = ", the best so far" if end.best else ""
            console.note(f"epoch {end.epoch}: loss {end.loss:.4f}, validation perplexity {end.perplexity:.2f}{mark}")
        self._running.reset(time.monotonic())  # or, after a long validation, the next report covers one minibatch

    def _report(self, norm: float) -> None:
        """What happened since the last report, and how far the model normalises itself."""
        log_z = self._job.device.log_z()
        self._log_z = float(log_z.mean()), float(log_z.std())
        found = {"loss": self._running.mean, "loss_tokens": self._running.words, "gradient_norm": norm}
        self._record("progress", found | {"log_z_mean": self._log_z[0], "log_z_std": self._log_z[1]})
        self._running.reset(time.monotonic())

    def _record(self, event: str, found: dict[str, Any], epoch: int | None = None) -> None:
        progress = self._job.progress
        self._log.write(
            {
                "event": event,
                "epoch": epoch or progress.epoch + (event == "progress"),
                "step": progress.step,
                "tokens": progress.words,
                "seconds": round(self._progress.seconds, 3),
                "words_per_second": round(self._progress.rate),
                "learning_rate": self._trainer.rate if epoch is None else self._job.settings.rate(epoch - 1),
                **found,
            }
        )

    def _detail(self) -> str:
        progress = self._job.progress
        parts = [self._epoch(), f"loss {progress.loss / max(progress.loss_words, 1):.4f}"]
        if progress.validations:
            parts.append(f"valid {progress.validations[-1]:.2f}")
        parts.append(f"lr {self._trainer.rate:.3g}")
        if self._log_z:
            parts.append(f"log Z {self._log_z[0]:.2f} ± {self._log_z[1]:.2f}")
        return ", ".join(parts)

    def _epoch(self) -> str:
        return f"epoch {self._job.progress.epoch + 1}/{self._job.settings.epochs}"

    def _validating(self, words: int) -> Progress:
        """The progress of a validation that reads so many words."""
        return Progress(f"validating, {self._epoch()}", words, "K words")

    def _summary(self) -> dict[str, Any]:
        from neglm_cli.objective.losses import LOSSES

        job, seconds = self._job, self._seconds
        progress, settings = job.progress, job.settings
        return {
            "output": self._output,
            "objective": settings.loss,
            "vocabulary": len(job.texts.words),
            "parameters": job.device.shape.parameters(LOSSES[settings.loss].bias),
            "epochs": progress.epoch,
            "tokens": progress.words,
            "loss": progress.losses[-1],
            "valid_perplexity": progress.best if progress.validations else None,
            "best_epoch": progress.best_epoch or None,
            "seconds": round(seconds, 3),
            "words_per_second": round((progress.words - self._words_before) / max(seconds, 1e-9)),
            **traffic(job.ranks),
        }


def as_text(summary: dict[str, Any]) -> str:
    name = "the model" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    lines = [f"{name}: {summary['objective']}, {summary['vocabulary']:,} words, {summary['parameters']:,} parameters"]
    lines.append(
        f"  {'trained on':<16}{count_of(summary['tokens'], 'token')} in {count_of(summary['epochs'], 'epoch')}, "
        f"{summary['seconds']:,.1f} s, {summary['words_per_second']:,} words/s"
    )
    lines.append(f"  {'loss':<16}{summary['loss']:.4f} nats per word, in the last epoch")
    if summary["valid_perplexity"] is not None:
        best = f"{summary['valid_perplexity']:.2f}, after epoch {summary['best_epoch']}, whose model this is"
        lines.append(f"  {'validation':<16}perplexity {best}")
    return "\n".join([*lines, *traffic_text(summary)])
