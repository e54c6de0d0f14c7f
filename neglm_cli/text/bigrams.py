"""Counting neighbours in sequences of ids, exactly and in bounded memory.

A pair of ids is one 64-bit key. Each stretch of text becomes a run: its keys in order, each with its count. Runs are
merged as they come, so that few of similar size remain; when they outgrow the memory, they go to disk as one.
"""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.text.runs import no_room

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)
PARTS = {"keys": np.uint64, "counts": np.int64}
PAIR_SIZE = 16  # bytes
MERGING = 3  # so many times its size a table takes while it is merged with another


@dataclass(frozen=True, eq=False)
class Run:
    """Different pairs in the order of their keys."""

    keys: np.ndarray  # uint64 (N,): the first id, and in the lower half the second one
    counts: np.ndarray  # int64 (N,)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, part: "slice | np.ndarray") -> "Run":
        return Run(self.keys[part], self.counts[part])

    @property
    def firsts(self) -> np.ndarray:
        return (self.keys >> HALF).astype(np.int64)

    @property
    def seconds(self) -> np.ndarray:
        return (self.keys & LOWER).astype(np.int64)


@kernel
def neighbour_keys(ids, before, keys):
    """The keys of all neighbours, `before` being what stands before the first; a negative id is no part of any.

    Returns how many there are.
    """
    found = 0
    for i in range(ids.size):
        here = ids[i]
        if before >= 0 and here >= 0:
            keys[found] = np.uint64(before) << HALF | np.uint64(here)
            found += 1
        before = here
    return found


@kernel
def add_up_sorted(keys, counts):
    """Move the different ones of these sorted keys to the front, and count each; returns how many there are."""
    different = 0
    for i in range(keys.size):
        if different and keys[different - 1] == keys[i]:
            counts[different - 1] += 1
        else:
            keys[different] = keys[i]
            counts[different] = 1
            different += 1
    return different


@kernel
def merge_two(keys, counts, more_keys, more_counts, out_keys, out_counts):
    """Merge two runs; returns how many pairs are different."""
    i = j = merged = 0
    while i < keys.size and j < more_keys.size:
        a, b = keys[i], more_keys[j]
        out_keys[merged] = min(a, b)
        out_counts[merged] = (counts[i] if a <= b else 0) + (more_counts[j] if b <= a else 0)
        i += a <= b
        j += b <= a
        merged += 1
    while i < keys.size:
        out_keys[merged], out_counts[merged] = keys[i], counts[i]
        i += 1
        merged += 1
    while j < more_keys.size:
        out_keys[merged], out_counts[merged] = more_keys[j], more_counts[j]
        j += 1
        merged += 1
    return merged


def count_neighbours(ids: np.ndarray, before: int) -> Run:
    """The pairs of neighbours in these ids, which follow on the id `before`."""
    keys = np.empty(len(ids), np.uint64)
    keys = keys[: neighbour_keys(ids, before, keys)]
    keys.sort()
    run = Run(keys, np.empty(len(keys), np.int64))
    different = add_up_sorted(run.keys, run.counts)
    return Run(run.keys[:different].copy(), run.counts[:different].copy())


def merged(runs: list[Run]) -> Run:
    """The counts of all runs together."""
    while len(runs) > 1:
        couples = [runs[i : i + 2] for i in range(0, len(runs), 2)]
        runs = [_merged(*couple) if len(couple) == 2 else couple[0] for couple in couples]
    return runs[0] if runs else Run(np.empty(0, np.uint64), np.empty(0, np.int64))


def _merged(run: Run, other: Run) -> Run:
    most = len(run) + len(other)
    out = Run(np.empty(most, np.uint64), np.empty(most, np.int64))
    different = merge_two(run.keys, run.counts, other.keys, other.counts, out.keys, out.counts)
    return out[:different]  # the part that is not used takes address space, but no memory


class Bigrams:
    """Counts of pairs: in memory, or in a temporary directory (TMPDIR names the place) where there are too many."""

    def __init__(self, memory: int) -> None:
        self._room = memory // (MERGING * PAIR_SIZE)  # pairs
        self._runs: list[Run] = []  # each at least twice as long as the next
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[BinaryIO] = []
        self._bounds = [0]  # pairs on disk, from run to run

    @property
    def spilled(self) -> int:
        """How many runs went to disk."""
        return len(self._bounds) - 1

    def add(self, run: Run) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)
        if sum(map(len, self._runs)) > self._room:
            self._spill()

    def all(self) -> Iterator[Run]:
        """All pairs in the order of their keys, each once, in pieces that fit into the memory."""
        return _pieces([*self._runs, *self._mapped()], self._room)

    def close(self) -> None:
        for file in self._files:
            with suppress(OSError):  # what could not be written is thrown away with the rest
                file.close()
        if self._directory is not None:
            self._directory.cleanup()

    def _spill(self) -> None:
        run = merged(self._runs)
        self._runs = []
        try:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="neglm-")
                self._files = _create(self._directory.name)
            for file, array in zip(self._files, (run.keys, run.counts), strict=True):
                file.write(array.data)
        except OSError as error:
            raise no_room(error) from error
        self._bounds.append(self._bounds[-1] + len(run))

    def _mapped(self) -> list[Run]:
        """The runs on disk."""
        if self._directory is None:
            return []
        try:
            for file in self._files:
                file.flush()
        except OSError as error:
            raise no_room(error) from error
        # Mode "c" and a plain array: the kernels then see the same type as for arrays in memory.
        maps = [np.memmap(Path(self._directory.name, part), dtype, "c") for part, dtype in PARTS.items()]
        on_disk = Run(*map(np.asarray, maps))
        return [on_disk[begin:end] for begin, end in pairwise(self._bounds)]


def _create(directory: str) -> list[BinaryIO]:
    return [open(Path(directory, part), "wb") for part in PARTS]


def _pieces(runs: list[Run], room: int) -> Iterator[Run]:
    """Merge runs one range of keys after the other: a range with too many pairs is halved."""
    longest = max(map(len, runs), default=0)
    if sum(map(len, runs)) <= room or longest < 2:
        yield merged(runs)
        return
    middle = next(run.keys[longest // 2] for run in runs if len(run) == longest)
    cuts = [int(np.searchsorted(run.keys, middle)) for run in runs]
    for half in ([run[:cut] for run, cut in zip(runs, cuts, strict=True)],
                 [run[cut:] for run, cut in zip(runs, cuts, strict=True)]):  # fmt: skip
        yield from _pieces([run for run in half if len(run)], room)
