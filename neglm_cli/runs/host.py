"""The program around a run: it shows notes, progress and reports, and receives signals."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Report:
    """Progress of a run. Fields that do not apply are None."""

    event: str  # "progress", every ten seconds; "epoch"; "end"; before training, what is done, as "counting words"
    done: int  # including runs that this one resumes
    total: int
    unit: str  # of done and total: "words", "pairs", "bytes" or "iterations"
    seconds: float  # since the start of this run
    rate: float  # units per second, in this run
    epoch: int | None = None  # from 1 on
    step: int | None = None  # minibatches so far
    learning_rate: float | None = None
    loss: float | None = None  # nats per word or pair: since the last report, or over the epoch
    loss_count: int | None = None  # words or pairs in that mean
    gradient_norm: float | None = None
    log_z_mean: float | None = None
    log_z_std: float | None = None
    valid_perplexity: float | None = None
    best: bool | None = None  # lowest validation perplexity so far


class Tracker(Protocol):
    """A progress display."""

    def advance(self, amount: int, detail: str = "") -> None: ...


class Host(Protocol):
    """The command line, or a Python program."""

    def note(self, sentence: str) -> None:
        """Show a remark that is not a result."""
        ...

    def track(self, what: str, total: int | None, unit: str = "MB", done: int = 0) -> AbstractContextManager[Tracker]:
        """Show the progress of some work. unit: see `cli.progress.Progress`."""
        ...

    def report(self, report: Report) -> None:
        """Receive a report."""
        ...

    def defer_signals(self, stop: Callable[[], None]) -> AbstractContextManager[list[int]]:
        """Call `stop` on signals that would end the program, and list their numbers; see `interrupts`."""
        ...
