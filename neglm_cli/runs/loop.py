"""The training loop of all runs: progress, reports, checkpoints, interruption, best model, final write."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from neglm_cli.errors import NeglmError, shown
from neglm_cli.runs.checkpoints import checkpoint_path, describe_last_checkpoint
from neglm_cli.runs.host import Host, Report
from neglm_cli.runs.interrupts import Interrupted
from neglm_cli.scale.ranks import Ranks

REPORT_EVERY = 10.0  # seconds
CHECKPOINT_SHARE = 20  # the time between checkpoints is at least this many times the time to write one
POLL_EVERY = 0.2  # seconds


class Step(NamedTuple):
    """The result of a training step."""

    advanced: int  # units of the training
    loss: float  # nats, summed
    loss_count: int  # words or pairs in the sum
    gradient_norm: float | None = None


class Epoch(NamedTuple):
    """The result of an epoch."""

    number: int  # from 1 on
    loss: float  # nats, the mean
    loss_count: int  # words or pairs in the mean
    learning_rate: float
    valid_perplexity: float | None = None
    best: bool = False


class Training(Protocol):
    """One kind of training. The loop calls `stop` from a signal handler, everything else from one thread."""

    unit: str  # of done and total: "words" or "pairs"
    shown_unit: str  # of the progress display
    epochs: int
    checkpoint_epochs: bool  # write a checkpoint after each epoch
    keeps_best: bool  # the result is the model of the best epoch, which was written after it

    @property
    def ranks(self) -> Ranks: ...

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...

    @property
    def epochs_done(self) -> int: ...

    @property
    def step(self) -> int | None:
        """Minibatches so far, where there are any."""
        ...

    @property
    def learning_rate(self) -> float: ...

    @property
    def can_checkpoint(self) -> bool:
        """True between two steps after which all ranks have made the same progress."""
        ...

    def steps(self) -> Iterator[Step | Epoch]:
        """Train to the end, or until `stop` is called on any rank."""
        ...

    def drain(self) -> Iterator[Step]:
        """Finish steps that were submitted, so that a checkpoint can be saved."""
        ...

    def stop(self) -> None:
        """Make `steps` end early."""
        ...

    @property
    def stopped(self) -> bool:
        """True if `steps` has ended early; all ranks have then stopped after the same step."""
        ...

    def measure(self) -> dict[str, Any]:
        """Return further fields of a progress report."""
        ...

    def status(self) -> str:
        """Describe the current progress in a few words, for a progress display."""
        ...

    def save_checkpoint(self, path: str) -> None: ...

    def save_result(self, path: str) -> None: ...


class RunningLoss:
    """The mean training loss since the last report or the end of the last epoch."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._since, self._loss, self.count = time.monotonic(), 0.0, 0

    def add(self, step: Step) -> None:
        self._loss += step.loss
        self.count += step.loss_count

    def is_due(self) -> bool:
        """Check whether it is time for a report."""
        return time.monotonic() - self._since > REPORT_EVERY

    @property
    def mean(self) -> float:
        return self._loss / max(self.count, 1)


class Loop:
    """One run of a training, from its start or a checkpoint to its end or an interruption."""

    def __init__(self, training: Training, output: str, checkpoint_interval: float, host: Host) -> None:
        """checkpoint_interval: seconds between two checkpoints."""
        self._training = training
        self._output = output
        self._checkpoint_path = checkpoint_path(output)
        self._checkpoint_interval = checkpoint_interval
        self._host = host
        self._done_before = training.done
        self._checkpoint_written = bool(self._done_before)  # the checkpoint on disk belongs to this training
        self._best_written = False
        self._last_checkpoint, self._checkpoint_took = time.monotonic(), 0.0
        self._running = RunningLoss()
        self._started = time.monotonic()
        self.seconds = 0.0  # of training, without the final write

    def run(self) -> None:
        """Train to the end and write the result. Raise Interrupted if stopped early, after writing a checkpoint.

        All work is done on a worker thread, so that a signal never separates two operations that belong together.
        This thread wakes up regularly, because Python runs signal handlers only here, even if the system delivered
        the signal to another thread."""
        training = self._training
        with self._host.defer_signals(training.stop) as received:
            worker = ThreadPoolExecutor(1)
            try:
                work = worker.submit(self._work)
                while not wait([work], POLL_EVERY).done:
                    pass
            except BaseException:  # a signal handler of the calling program has raised
                training.stop()
                raise
            finally:
                worker.shutdown()
            work.result()
            if training.stopped:
                raise Interrupted(received[0] if received else signal.SIGTERM)

    @property
    def rate(self) -> float:
        """Units per second, in this run."""
        return self._rate(self.seconds)

    def _rate(self, seconds: float) -> float:
        return (self._training.done - self._done_before) / max(seconds, 1e-9)

    def _work(self) -> None:
        try:
            self._train()
        except NeglmError as error:
            raise NeglmError(self._describe_kept_files(str(error))) from error
        if self._training.stopped:
            self._save_when_stopped()
        else:
            self._finish()

    def _train(self) -> None:
        training = self._training
        with self._host.track("training", training.total, training.shown_unit, training.done) as tracker:

            def after_step(step: Step) -> None:
                self._running.add(step)
                tracker.advance(step.advanced, training.status())

            for result in training.steps():
                if isinstance(result, Epoch):
                    self._after_epoch(result)
                    continue
                after_step(result)
                if self._running.is_due():
                    self._report_progress(result)
                if self._is_checkpoint_due():
                    for step in training.drain():
                        after_step(step)
                    self._save_checkpoint()
        self.seconds = time.monotonic() - self._started

    def _is_checkpoint_due(self) -> bool:
        """Let rank 0 decide, for all ranks."""
        if not self._checkpoint_path or not self._training.can_checkpoint:
            return False
        waited = time.monotonic() - self._last_checkpoint
        due = waited > max(self._checkpoint_interval, CHECKPOINT_SHARE * self._checkpoint_took)
        return self._training.ranks.any(due and self._training.ranks.rank == 0)

    def _save_checkpoint(self) -> None:
        started = time.monotonic()
        self._training.save_checkpoint(self._checkpoint_path)
        self._last_checkpoint = time.monotonic()
        self._checkpoint_took = self._last_checkpoint - started
        self._checkpoint_written = True

    def _after_epoch(self, epoch: Epoch) -> None:
        training = self._training
        if epoch.best:
            training.save_result(self._output)
            self._best_written = True
        if self._checkpoint_path and training.checkpoint_epochs and epoch.number < training.epochs:
            self._save_checkpoint()
        found = {"loss": epoch.loss, "loss_count": epoch.loss_count, "valid_perplexity": epoch.valid_perplexity}
        best = epoch.best if epoch.valid_perplexity is not None else None
        self._report("epoch", epoch.number, epoch.learning_rate, best=best, **found)
        self._running.reset()  # a validation may have taken long: the next report covers only what follows it

    def _report_progress(self, step: Step) -> None:
        training, running = self._training, self._running
        found = {"loss": running.mean, "loss_count": running.count, "gradient_norm": step.gradient_norm}
        self._report("progress", training.epochs_done + 1, training.learning_rate, **found, **training.measure())
        running.reset()

    def _report(self, event: str, epoch: int, learning_rate: float, **found: Any) -> None:
        training, seconds = self._training, time.monotonic() - self._started
        self._host.report(
            Report(
                event, training.done, training.total, training.unit, seconds, self._rate(seconds), epoch, training.step,
                learning_rate, **found,
            )
        )  # fmt: skip

    def _save_when_stopped(self) -> None:
        if self._checkpoint_path and self._training.done > self._done_before:
            self._training.save_checkpoint(self._checkpoint_path)
            self._host.note(f"checkpoint written to {shown(self._checkpoint_path)}; continue with --resume")

    def _finish(self) -> None:
        training = self._training
        if not training.keeps_best:
            training.save_result(self._output)
        self._report("end", training.epochs_done, training.learning_rate)
        if self._checkpoint_path and training.ranks.rank == 0:
            with suppress(OSError):
                Path(self._checkpoint_path).unlink()

    def _describe_kept_files(self, sentence: str) -> str:
        """Add to an error what the failed run has left on disk."""
        if self._checkpoint_written:
            kept = describe_last_checkpoint(self._checkpoint_path)
        else:
            kept = "no checkpoint was written" if self._best_written else "nothing was written"
        if self._best_written:
            sentence = sentence.removesuffix("; nothing was changed")
            kept += f", and {shown(self._output)} is the best model so far"
        return f"{sentence}; {kept}"
