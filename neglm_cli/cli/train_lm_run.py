"""The log and the summary of `neglm train-lm`."""

import json
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.mpi import traffic, traffic_text
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.host import Report
from neglm_cli.runs.loop import Loop
from neglm_cli.store.output import STANDARD_OUTPUT, write_error

if TYPE_CHECKING:
    from neglm_cli.runs.train_lm_training import LmTraining

RANK = "{rank}"  # in the name of a log


def log_name(path: str | None) -> str | None:
    """Return the file that this rank would log to."""
    return path and path.replace(RANK, str(console.rank or 0))


class Log:
    """A log with one JSON object per line and report; nothing without a path. If it cannot be written, training
    continues. Rank 0 writes it, or each rank its own, if the name contains {rank}."""

    def __init__(self, path: str | None, append: bool) -> None:
        self._rank = {} if console.rank is None else {"rank": console.rank}
        self._file: IO[str] | None = None
        self._path = path
        name = log_name(path)
        if path is not None and name is not None and (not console.rank or RANK in path):
            try:
                self._file = open(name, "a" if append else "w", encoding="utf-8")  # noqa: SIM115
            except OSError as error:
                raise write_error(name, error) from error

    def write(self, report: Report) -> None:
        if self._file is not None:
            try:
                self._file.write(json.dumps(self._rank | _record(report)) + "\n")
                self._file.flush()
            except OSError as error:
                reason = error.strerror or error
                console.note(
                    f"cannot write {shown(str(self._path))}: {reason}; logging is off for the rest of this run"
                )
                self._close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # of what is still buffered
                self._file.close()
            self._file = None


def _record(report: Report) -> dict[str, Any]:
    """Return the line of the log."""
    fields = {
        "event": report.event,
        "epoch": report.epoch,
        "step": report.step,
        "tokens": report.done,
        "seconds": round(report.seconds, 3),
        "words_per_second": round(report.rate),
        "learning_rate": report.learning_rate,
        "loss": report.loss,
        "loss_tokens": report.loss_count,
        "gradient_norm": report.gradient_norm,
        "log_z_mean": report.log_z_mean,
        "log_z_std": report.log_z_std,
        "valid_perplexity": report.valid_perplexity,
        "best": report.best,
    }
    return {name: value for name, value in fields.items() if value is not None}


def summary_of(training: "LmTraining", loop: Loop, output: str) -> dict[str, Any]:
    """Return the results of a run, for --json."""
    from neglm_cli.settings.losses import LOSSES

    job = training.job
    progress, settings = job.progress, job.settings
    return {
        "output": output,
        "objective": settings.loss,
        "vocabulary": len(job.texts.words),
        "parameters": job.device.shape.parameters(LOSSES[settings.loss].bias),
        "epochs": progress.epoch,
        "tokens": progress.words,
        "loss": progress.epoch_losses[-1],
        "valid_perplexity": progress.best if progress.valid_perplexities else None,
        "best_epoch": progress.best_epoch or None,
        "seconds": round(loop.seconds, 3),
        "words_per_second": round(loop.rate),
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
