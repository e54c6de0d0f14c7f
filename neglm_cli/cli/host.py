"""The command line as the host of runs: notes and progress on stderr, reports in the log, signals."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from neglm_cli.cli.console import console
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.signals import noted
from neglm_cli.runs.host import Report


class ConsoleHost:
    """log: called with each report."""

    def __init__(self, log: Callable[[Report], None] = lambda report: None) -> None:
        self._log = log

    def note(self, sentence: str) -> None:
        console.note(sentence)

    def track(self, what: str, total: int | None, unit: str = "MB", done: int = 0) -> Progress:
        return Progress(what, total, unit, done)

    def report(self, report: Report) -> None:
        self._log(report)
        if report.event == "epoch" and report.valid_perplexity is not None:
            scores = f"loss {report.loss:.4f}, validation perplexity {report.valid_perplexity:.2f}"
            console.note(f"epoch {report.epoch}: {scores}{', the best so far' if report.best else ''}")

    def defer_signals(self, stop: Callable[[], None]) -> AbstractContextManager[list[int]]:
        return noted(stop)
