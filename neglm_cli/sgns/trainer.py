"""The trainer: hands stretches to threads, keeps count of what is done, and stops when numbers are none."""

import math
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.objective.offsets import score_offsets
from neglm_cli.objective.random import NOISE, stream
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks, split_evenly
from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.averaging import Averaging
from neglm_cli.sgns.source import Source, Stretch, Windows
from neglm_cli.sgns.tables import Tables
from neglm_cli.sgns.training import draw_noise, shared_by_threads, train, train_in_step

LEAST_RATE = 1e-4  # of the learning rate that it starts with: where the decay ends
QUEUED = 2  # stretches that wait for each thread
PART, LEAST_PART = 1 << 13, 1 << 10  # words or pairs between two averages: of each of two processes, and of many


def part_of(processes: int) -> int:
    """Words or pairs that each of several processes trains on between two averages. It does not see the work of the
    others until then: so the more they are, the less all of them do together."""
    return max(LEAST_PART, PART * 4 // processes**2)


class DivergedError(NeglmError):
    """The vectors are lost: some of their numbers are none."""


class Trained(NamedTuple):
    """What came of a stretch."""

    loss: float  # nats, summed over pairs
    pairs: int


class Trainer:
    """Trains tables on a source. `done` says how much lies behind: a run can stop anywhere, and another go on there."""

    def __init__(
        self, source: Source, tables: Tables, context_counts: np.ndarray, settings: Settings, done: int = 0,
        ranks: Ranks = SINGLE_RANK,
    ) -> None:  # fmt: skip
        self.total = source.length * settings.epochs
        self.done = done
        self._source = source
        self._tables = tables
        self._settings = settings
        noise = probabilities(context_counts, settings.noise_alpha)
        self._noise = alias_table(noise)
        self._offsets = score_offsets(settings.objective, noise, settings.k).astype(np.float32)
        self._ranks = ranks
        self._averaging = Averaging(ranks, tables, source.moves) if ranks.size > 1 else None
        self.between_rounds = ranks.size == 1  # whether no process is ahead of others
        self._pending: deque[tuple[int, Future[Trained]]] = deque()
        # In step, one leader takes a stretch at a time and the team works on it together; else each takes its own.
        self._team = ThreadPoolExecutor(settings.threads)
        self._workers = ThreadPoolExecutor(1) if settings.deterministic else self._team

    def prepare(self) -> None:
        """Load or compile the kernels, which takes a while: what is timed then is training."""
        for stretch in self._source.stretches(0, 0, self._source.length):
            stretch.windows()
            break
        nothing = np.empty(0, np.int32)
        empty = Windows(np.zeros(1, np.int64), nothing, nothing, np.empty(0, np.int64))
        self._train(Stretch(0, lambda: empty), 0, np.float32(0))

    def run(self) -> Generator[Trained, None, None]:
        """Train to the end; gives the result of each stretch in turn. If it is left early, `done` is right all the
        same: what threads have begun is finished, what waits is dropped."""
        settings, length, size = self._settings, self._source.length, self._ranks.size
        try:
            while self.done < self.total:
                epoch, start = divmod(self.done, length)
                part = part_of(size) if size > 1 else length
                first, stop = min(start + self._ranks.rank * part, length), min(start + size * part, length)
                last = min(first + part, length)
                begun = before = self.done
                for stretch in self._stretches(epoch, first, last):
                    rate = np.float32(self._rate(max(begun, self.done)))
                    task = self._workers.submit(self._train, stretch, epoch, rate)
                    begun = before - start + min(start + size * (stretch.end - first), stop)  # as all go on alike
                    self._pending.append((begun, task))
                    while len(self._pending) > QUEUED * settings.threads:
                        yield self._finish()
                yield from self.settle()
                if self.done == before and first < last:
                    raise NeglmError("the text became shorter while it was trained on: start again when it is complete")
                if self._averaging is not None:
                    self._averaging.after_round(last - first, self._rate(before))
                    self.done, self.between_rounds = before - start + stop, True
                    yield Trained(0.0, 0)
                    self.between_rounds = False
            self.average()
        finally:
            self._workers.shutdown(wait=True, cancel_futures=True)
            self._team.shutdown()
            while self._pending and not self._pending[0][1].cancelled():
                self._finish()

    def _stretches(self, epoch: int, first: int, last: int) -> Iterator[Stretch]:
        """Of several processes each has a part that is short: no thread may be without work."""
        parts = 1 if self._ranks.size == 1 else self._settings.threads
        starts = [first + start for start in split_evenly(last - first, parts)]
        for start, stop in pairwise(starts):
            yield from self._source.stretches(epoch, start, stop)

    def average(self) -> None:
        """Make the tables of all processes the same; between rounds."""
        if self._averaging is not None:
            self._averaging.everything(self._rate(self.done))

    def _rate(self, done: int) -> float:
        """The learning rate after so many words."""
        return self._settings.lr * max(LEAST_RATE, 1 - done / self.total)

    def settle(self) -> Iterator[Trained]:
        """Wait until all that was handed out is done, so that `done` and the tables belong together."""
        while self._pending:
            yield self._finish()

    def _finish(self) -> Trained:
        end, task = self._pending[0]
        trained = task.result()  # an interrupt may come here: the task is finished all the same, and counted later
        if not math.isfinite(trained.loss):
            raise DivergedError(
                f"the loss is no longer a number after {end:,} of {self.total:,} words: "
                f"a learning rate of {self._settings.lr:g} is too high; use a smaller --lr"
            )
        self.done = end
        self._pending.popleft()
        return trained

    def _train(self, stretch: Stretch, epoch: int, rate: np.float32) -> Trained:
        """The work of a thread, or of the leader."""
        windows, settings, tables = stretch.windows(), self._settings, self._tables
        key = stream(settings.seed, NOISE, epoch)
        drawn = draw_noise(windows.places, self._noise, key, settings.k)
        arguments = (
            tables.inputs.flat, tables.outputs.flat, tables.inputs.row_size,
            windows.starts, windows.contexts, windows.targets, drawn, settings.k, self._offsets, rate,
        )  # fmt: skip
        if not settings.deterministic:
            return Trained(train(*arguments), windows.pairs)
        threads = settings.threads
        most = int(np.diff(windows.starts).max(initial=0))
        shared = shared_by_threads(threads, settings.k, most)
        team = [self._team.submit(train_in_step, *arguments, thread, threads, *shared) for thread in range(threads)]
        losses = [member.result() for member in team]
        return Trained(losses[0], windows.pairs)  # they are all the same
