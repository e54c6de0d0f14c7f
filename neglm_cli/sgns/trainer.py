"""The trainer: schedules segments on threads, tracks progress, and raises if training diverges."""

import math
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.losses import score_offsets
from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.objective.random import NOISE, stream
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks, split_evenly
from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.averaging import Averaging
from neglm_cli.sgns.cbow import BATCH_WINDOWS, DETERMINISTIC_WINDOWS, mean_inputs, mean_windows
from neglm_cli.sgns.source import Segment, Source, Windows
from neglm_cli.sgns.subwords import (
    allocate_composed,
    batch_windows,
    coupling,
    train_subwords,
    train_subwords_deterministic,
)
from neglm_cli.sgns.tables import Tables
from neglm_cli.sgns.tiles import Embeddings
from neglm_cli.sgns.training import (
    Noise,
    Worker,
    allocate_scratch,
    allocate_team,
    allocate_tiles,
    draw_noise,
    train,
    train_deterministic,
)
from neglm_cli.vectors.composition import SubwordInputs

MIN_RATE = 1e-4  # minimum learning rate, as a fraction of the initial one
QUEUED = 2  # queued segments per thread
ROUND, MIN_ROUND = 1 << 13, 1 << 10  # words or pairs per rank in a round: with two ranks, and with many


def round_size(ranks: int) -> int:
    """Return the words or pairs that each rank trains on between two averages: fewer with more ranks, to bound the
    updates of other ranks that it does not see yet."""
    return max(MIN_ROUND, ROUND * 4 // ranks**2)


class DivergedError(NeglmError):
    """The loss is NaN or infinite."""


class Trained(NamedTuple):
    """The result of a segment."""

    loss: float  # nats, summed over pairs
    pairs: int


class Trainer:
    """Trains tables on a source. A run can stop at any segment and be resumed from `done`."""

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
        self._batch = 0  # windows whose vectors are composed at a time
        if settings.cbow:
            self._batch = DETERMINISTIC_WINDOWS if settings.deterministic else BATCH_WINDOWS
        if tables.ngrams is not None:
            own_rows = tables.inputs.shape[0] > 0
            shared = coupling(tables.ngrams.ngrams, source.update_frequencies[0], own_rows)
            self._batch = batch_windows(settings, shared)
        self._ranks = ranks
        self._averaging = Averaging(ranks, tables, source.update_frequencies) if ranks.size > 1 else None
        self.in_sync = ranks.size == 1  # True while all ranks have the same progress
        self._pending: deque[tuple[int, Future[Trained]]] = deque()
        # If deterministic, all threads train on one segment at a time; otherwise each takes its own.
        self._team = ThreadPoolExecutor(settings.threads)
        self._workers = ThreadPoolExecutor(1) if settings.deterministic else self._team

    def prepare(self) -> None:
        """Load or compile the kernels, so that timings of training exclude it."""
        for segment in self._source.segments(0, 0, self._source.length):
            segment.windows()
            break
        no_rows = np.empty(0, np.int32)
        empty = Windows(np.zeros(1, np.int64), no_rows, no_rows, np.empty(0, np.int64))
        self._train(Segment(0, lambda: empty), 0, np.float32(0))

    def run(self) -> Generator[Trained, None, None]:
        """Train to the end. Yield the result of each segment. Closing the generator finishes segments in progress,
        drops queued ones, and leaves `done` correct."""
        settings, length, size = self._settings, self._source.length, self._ranks.size
        try:
            while self.done < self.total:
                epoch, start = divmod(self.done, length)
                part = round_size(size) if size > 1 else length
                first, stop = min(start + self._ranks.rank * part, length), min(start + size * part, length)
                last = min(first + part, length)
                submitted = before = self.done
                for segment in self._segments(epoch, first, last):
                    rate = np.float32(self._rate(max(submitted, self.done)))
                    task = self._workers.submit(self._train, segment, epoch, rate)
                    # Assume that the other ranks are as fast.
                    submitted = before - start + min(start + size * (segment.end - first), stop)
                    self._pending.append((submitted, task))
                    while len(self._pending) > QUEUED * settings.threads:
                        yield self._finish()
                yield from self.drain()
                if self.done == before and first < last:
                    raise NeglmError("the text was truncated during training; start again when it is complete")
                if self._averaging is not None:
                    self._averaging.after_round(last - first, self._rate(before))
                    self.done, self.in_sync = before - start + stop, True
                    yield Trained(0.0, 0)
                    self.in_sync = False
            self.average()
        finally:
            self._workers.shutdown(wait=True, cancel_futures=True)
            self._team.shutdown()
            while self._pending and not self._pending[0][1].cancelled():
                self._finish()

    def _segments(self, epoch: int, first: int, last: int) -> Iterator[Segment]:
        """Yield the segments of a round. With several ranks, rounds are short and split evenly among threads."""
        parts = 1 if self._ranks.size == 1 else self._settings.threads
        starts = [first + start for start in split_evenly(last - first, parts)]
        for start, stop in pairwise(starts):
            yield from self._source.segments(epoch, start, stop)

    def average(self) -> None:
        """Make the tables of all ranks equal. Requires `in_sync`."""
        if self._averaging is not None:
            self._averaging.average_all(self._rate(self.done))

    @property
    def rate(self) -> float:
        """The current learning rate."""
        return self._rate(self.done)

    def _rate(self, done: int) -> float:
        """Return the learning rate after `done` words or pairs: linear decay."""
        return self._settings.lr * max(MIN_RATE, 1 - done / self.total)

    def drain(self) -> Iterator[Trained]:
        """Wait for all submitted segments, so that `done` matches the tables."""
        while self._pending:
            yield self._finish()

    def _finish(self) -> Trained:
        end, task = self._pending[0]
        trained = task.result()  # if interrupted here, the task still finishes, and is counted later
        if not math.isfinite(trained.loss):
            raise DivergedError(
                f"the loss is NaN or infinite after {end:,} of {self.total:,} words: "
                f"a learning rate of {self._settings.lr:g} is too high; use a smaller --lr"
            )
        self.done = end
        self._pending.popleft()
        return trained

    def _train(self, segment: Segment, epoch: int, rate: np.float32) -> Trained:
        """Train on a segment, on the calling thread or, if deterministic, on all threads of the team."""
        found, settings = segment.windows(), self._settings
        windows = mean_windows(found) if settings.cbow else found
        drawn = draw_noise(windows.positions, self._noise, stream(settings.seed, NOISE, epoch), settings.k)
        noise = Noise(drawn, settings.k, self._offsets)
        contexts = int(np.diff(windows.starts).max(initial=0))
        if not settings.deterministic:
            tiles, scratch = allocate_tiles(1, settings.k, contexts), allocate_scratch(contexts)
            rows = self._rows(0, found)
            return Trained(self._train_part(0, rows, windows, noise, rate, (tiles, scratch)), windows.pairs)
        team = allocate_team(settings.threads, settings.k, contexts)
        tasks = []
        for thread in range(settings.threads):
            buffers = team, allocate_scratch(contexts), Worker(thread, settings.threads, team.barrier)
            rows = self._rows(thread, found)
            tasks.append(self._team.submit(self._train_part, thread, rows, windows, noise, rate, buffers))
        losses = [task.result() for task in tasks]
        return Trained(losses[0], windows.pairs)  # all threads return the same loss

    def _rows(self, part: int, windows: Windows) -> SubwordInputs | None:
        """Return the rows that vectors are composed from; None if they are rows of the table. part: see
        `_train_part`."""
        inputs, ngrams = self._tables.inputs, self._tables.ngrams
        if ngrams is not None:
            return SubwordInputs(inputs.parts[part], ngrams.parts[part], *ngrams.ngrams, inputs.row_size)
        return mean_inputs(inputs.parts[part], windows, inputs.row_size) if self._settings.cbow else None

    def _train_part(
        self, part: int, rows: SubwordInputs | None, windows: Windows, noise: Noise, rate: np.float32,
        buffers: tuple[Any, ...],
    ) -> float:  # fmt: skip
        """Train a part of the dimensions: all, or those of one thread. buffers: of the kernels. Return the loss."""
        deterministic, tables = self._settings.deterministic, self._tables
        outputs, row_size = tables.outputs.parts[part], tables.inputs.row_size
        if rows is None:
            embeddings = Embeddings(tables.inputs.parts[part], outputs, row_size)
            return float((train_deterministic if deterministic else train)(embeddings, windows, noise, rate, *buffers))
        composed = allocate_composed(len(rows.starts) - 1, windows, row_size, self._batch)
        train_batches = train_subwords_deterministic if deterministic else train_subwords
        return float(train_batches(rows, outputs, windows, noise, rate, composed, buffers))
