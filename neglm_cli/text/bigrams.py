"""Counting bigrams of ids, exactly and in bounded memory.

A pair of ids is a 64-bit key. Each chunk of text yields a sorted run of keys and counts. Runs of similar size are
merged as they arrive; when they exceed the memory limit, they are spilled to disk as one run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.text.spill import SpilledArrays

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)
PAIR_SIZE = 16  # bytes
MERGE_FACTOR = 3  # peak memory of a merge, relative to the size of the runs


@dataclass(frozen=True, eq=False)
class PairCounts:
    """A sorted run: distinct pairs of ids by ascending key, with their counts."""

    keys: np.ndarray  # uint64 (N,): the first id in the upper half, the second in the lower half
    counts: np.ndarray  # int64 (N,)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, part: "slice | np.ndarray") -> "PairCounts":
        return PairCounts(self.keys[part], self.counts[part])

    @property
    def firsts(self) -> np.ndarray:
        return (self.keys >> HALF).astype(np.int64)

    @property
    def seconds(self) -> np.ndarray:
        return (self.keys & LOWER).astype(np.int64)


@kernel
def bigram_keys(ids, previous, keys):
    """Write the keys of all bigrams. Return their number. previous: the id before the first.

    Negative ids are not part of any bigram.
    """
    found = 0
    for i in range(ids.size):
        here = ids[i]
        if previous >= 0 and here >= 0:
            keys[found] = np.uint64(previous) << HALF | np.uint64(here)
            found += 1
        previous = here
    return found


@kernel
def count_sorted(keys, counts):
    """Compact sorted keys to the distinct ones, in place, and count each. Return their number."""
    distinct = 0
    for i in range(keys.size):
        if distinct and keys[distinct - 1] == keys[i]:
            counts[distinct - 1] += 1
        else:
            keys[distinct] = keys[i]
            counts[distinct] = 1
            distinct += 1
    return distinct


@kernel
def merge_sorted(keys, counts, more_keys, more_counts, out_keys, out_counts):
    """Merge two runs, adding up the counts of equal keys. Return the number of distinct keys."""
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


def count_bigrams(ids: np.ndarray, previous: int) -> PairCounts:
    """Count the bigrams of these ids. previous: the id before the first."""
    keys = np.empty(len(ids), np.uint64)
    keys = keys[: bigram_keys(ids, previous, keys)]
    keys.sort()
    run = PairCounts(keys, np.empty(len(keys), np.int64))
    distinct = count_sorted(run.keys, run.counts)
    return PairCounts(run.keys[:distinct].copy(), run.counts[:distinct].copy())


def merge_all(runs: list[PairCounts]) -> PairCounts:
    """Merge runs, in a balanced tree of pairs."""
    while len(runs) > 1:
        pairs = [runs[i : i + 2] for i in range(0, len(runs), 2)]
        runs = [_merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return runs[0] if runs else PairCounts(np.empty(0, np.uint64), np.empty(0, np.int64))


def _merge(run: PairCounts, other: PairCounts) -> PairCounts:
    size = len(run) + len(other)
    out = PairCounts(np.empty(size, np.uint64), np.empty(size, np.int64))
    distinct = merge_sorted(run.keys, run.counts, other.keys, other.counts, out.keys, out.counts)
    return out[:distinct]  # untouched pages take no memory


class BigramCounter:
    """Counts of pairs, in memory or, above the memory limit, on disk."""

    def __init__(self, memory: int) -> None:
        self._capacity = memory // (MERGE_FACTOR * PAIR_SIZE)  # pairs
        self._runs: list[PairCounts] = []  # each at least twice as long as the next
        self._on_disk = SpilledArrays(np.uint64, np.int64)
        self._bounds = [0]  # bounds of the runs on disk

    @property
    def spilled(self) -> int:
        """The number of runs spilled to disk."""
        return len(self._bounds) - 1

    def add(self, run: PairCounts) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = _merge(self._runs.pop(), run)
        self._runs.append(run)
        if sum(map(len, self._runs)) > self._capacity:
            self._spill()

    def all(self) -> Iterator[PairCounts]:
        """Yield all distinct pairs by ascending key, in runs within the memory limit."""
        return _merge_by_key_range([*self._runs, *self._mapped()], self._capacity)

    def close(self) -> None:
        self._on_disk.close()

    def _spill(self) -> None:
        run = merge_all(self._runs)
        self._runs = []
        self._on_disk.append(run.keys, run.counts)
        self._bounds.append(self._bounds[-1] + len(run))

    def _mapped(self) -> list[PairCounts]:
        """Return the runs on disk, memory-mapped."""
        if not self.spilled:
            return []
        on_disk = PairCounts(*self._on_disk.mapped())
        return [on_disk[begin:end] for begin, end in pairwise(self._bounds)]


def _merge_by_key_range(runs: list[PairCounts], capacity: int) -> Iterator[PairCounts]:
    """Merge runs by key range, halving ranges that exceed the capacity."""
    longest = max(map(len, runs), default=0)
    if sum(map(len, runs)) <= capacity or longest < 2:
        yield merge_all(runs)
        return
    middle = next(run.keys[longest // 2] for run in runs if len(run) == longest)
    cuts = [int(np.searchsorted(run.keys, middle)) for run in runs]
    for half in ([run[:cut] for run, cut in zip(runs, cuts, strict=True)],
                 [run[cut:] for run, cut in zip(runs, cuts, strict=True)]):  # fmt: skip
        yield from _merge_by_key_range([run for run in half if len(run)], capacity)
