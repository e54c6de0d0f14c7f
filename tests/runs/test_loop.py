"""The loop of all runs, with a training that only counts."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.runs.host import Report
from neglm_cli.runs.interrupts import Interrupted
from neglm_cli.runs.loop import Epoch, Loop, Step
from neglm_cli.scale.ranks import SINGLE_RANK

STEPS, EPOCHS = 5, 4


class Counting:
    """A training whose state is the number of steps done. perplexities: of the epochs; at_step: called in each step."""

    ranks, unit, shown_unit, epochs, total = SINGLE_RANK, "words", "K words", EPOCHS, STEPS * EPOCHS
    can_checkpoint, learning_rate = True, 0.5

    def __init__(
        self, perplexities: tuple[float, ...] = (), at_step: Callable[["Counting"], None] = lambda training: None,
        done: int = 0,
    ) -> None:  # fmt: skip
        self.done = self.step = done
        self.stopped = self._stopping = False
        self.keeps_best = self.checkpoint_epochs = bool(perplexities)
        self.saved: list[int] = []
        self._perplexities = perplexities
        self._at_step = at_step
        self._pending = 0

    @property
    def epochs_done(self) -> int:
        return self.done // STEPS

    def steps(self) -> Iterator[Step | Epoch]:
        while self.done < self.total and not self.stopped:
            self._at_step(self)
            self._pending += 1
            yield from self.drain()
            self.stopped = self._stopping
            if self.done % STEPS == 0:
                best = bool(self._perplexities) and self._perplexity == min(self._perplexities[: self.epochs_done])
                yield Epoch(self.epochs_done, 1.0, STEPS, 0.5, self._perplexity, best)

    @property
    def _perplexity(self) -> float | None:
        return self._perplexities[self.epochs_done - 1] if self._perplexities else None

    def drain(self) -> Iterator[Step]:
        while self._pending:
            self._pending -= 1
            self.done = self.step = self.done + 1
            yield Step(1, 2.0, 1)

    def stop(self) -> None:
        self._stopping = True

    def measure(self) -> dict[str, Any]:
        return {}

    def status(self) -> str:
        return ""

    def save_checkpoint(self, path: str) -> None:
        self.saved.append(self.done)
        Path(path).write_text(str(self.done))

    def save_result(self, path: str) -> None:
        Path(path).write_text(f"result {self.done}")


class Quiet:
    """A host that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.reports: list[Report] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def track(self, what: str, total: int | None, unit: str = "MB", done: int = 0) -> AbstractContextManager["Quiet"]:
        return nullcontext(self)

    def advance(self, amount: int, detail: str = "") -> None:
        pass

    def report(self, report: Report) -> None:
        self.reports.append(report)

    @contextmanager
    def defer_signals(self, stop: Callable[[], None]) -> Iterator[list[int]]:
        yield []


def run(training: Counting, output: str = "out", checkpoint: float = 1e9) -> Quiet:
    host = Quiet()
    Loop(training, output, checkpoint, host).run()
    return host


def files(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in place.iterdir()}


def test_a_whole_run(workplace: Path) -> None:
    host = run(Counting(), checkpoint=0)
    assert files(workplace) == {"out": "result 20"}
    assert [report.event for report in host.reports] == ["epoch"] * EPOCHS + ["end"]
    assert [report.done for report in host.reports] == [5, 10, 15, 20, 20]
    assert host.notes == []


def test_checkpoints_are_apart(workplace: Path) -> None:
    training = Counting()
    run(training)
    assert training.saved == []
    again = Counting()
    run(again, checkpoint=-1)  # as often as writing allows: a write takes more than a twentieth of a step's time
    assert again.saved
    assert again.saved == sorted(set(again.saved))


def test_the_best_epoch_is_the_result(workplace: Path) -> None:
    training = Counting((9.0, 7.0, 8.0, 7.5))
    host = run(training)
    assert files(workplace) == {"out": "result 10"}
    assert training.saved == [5, 10, 15]  # after each epoch but the last
    assert [report.best for report in host.reports] == [True, True, False, False, None]


def interrupt_at(step: int) -> Callable[[Counting], None]:
    def at_step(training: Counting) -> None:
        if training.done == step:
            training.stop()

    return at_step


def test_an_interrupted_run_leaves_its_state(workplace: Path) -> None:
    with pytest.raises(Interrupted) as raised:
        run(Counting(at_step=interrupt_at(7)))
    assert raised.value.number == signal.SIGTERM  # of another rank
    assert files(workplace) == {"out.partial": "8"}
    run(Counting(done=8))
    assert files(workplace) == {"out": "result 20"}


def test_without_progress_there_is_no_state(workplace: Path) -> None:
    class Stopped(Counting):
        def steps(self) -> Iterator[Step | Epoch]:
            self.stopped = True
            return iter(())

    with pytest.raises(Interrupted):
        run(Stopped())
    assert files(workplace) == {}


def fail_at(step: int) -> Callable[[Counting], None]:
    def at_step(training: Counting) -> None:
        if training.done == step:
            raise NeglmError("it failed")

    return at_step


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        (Counting(at_step=fail_at(7)), "it failed; nothing was written"),
        (Counting(at_step=fail_at(17), done=15), "it failed; out.partial, the last good checkpoint, is gone"),
        (
            Counting((9.0, 9.0, 9.0, 9.0), fail_at(7)),
            "it failed; out.partial is the last good checkpoint, and out is the best model so far",
        ),
    ],
)
def test_an_error_says_what_is_left(workplace: Path, training: Counting, sentence: str) -> None:
    with pytest.raises(NeglmError) as raised:
        run(training)
    assert str(raised.value) == sentence


def is_waiting(thread: threading.Thread) -> bool:
    """Check whether a thread waits for a future."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code is not wait.__code__:
        frame = frame.f_back
    return frame is not None


def test_a_handler_that_raises_stops_the_run(workplace: Path) -> None:
    """The handler of a program that has its own: the exception propagates, after the state was written."""

    class Mine(Exception):  # noqa: N818
        pass

    def handler(number: int, frame: object) -> None:
        raise Mine

    def at_step(training: Counting) -> None:
        training.total += 1  # no end but the interruption
        if not sent and is_waiting(threading.main_thread()):
            sent.append(training.done)
            signal.raise_signal(signal.SIGUSR1)

    sent: list[int] = []
    signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Mine):
            run(Counting(at_step=at_step))
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert list(files(workplace)) == ["out.partial"]
