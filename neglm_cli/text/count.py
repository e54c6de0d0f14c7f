"""Counting the words of a corpus, on several threads and in bounded memory.

Each thread counts into a table of its own, small enough to stay near the processor; a full one is poured
into the shared table. When that outgrows its share of the memory, it goes to disk as a sorted run.

Several processes count parts of the corpus. Then each gets all counts of some words, by their hash.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.text.order import gather
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.runs import Runs
from neglm_cli.text.source import Block, Corpus, FilesRead, Range
from neglm_cli.text.table import Scratch, WordTable, find_owners, random_seed
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN, padded

LOCAL_MEMORY = 24 << 20  # bytes of a thread's own table: about half a million words
SENT_WORDS, SENT_BYTES = 1 << 18, 1 << 23  # what a process gives to others at a time, at most (or one word)

Progress = Callable[[int], None]  # called with the bytes that were read since the last call


@dataclass(frozen=True)
class Counts:
    """How often each word occurs: entry e is the word letters[offsets[e]:offsets[e+1]].

    `<unk>` and `<eos>` always have an entry, with the count that the text itself gives them: 0, mostly.
    """

    offsets: np.ndarray
    counts: np.ndarray
    letters: np.ndarray  # with PADDING
    in_byte_order: bool
    lines: int
    tokens: int
    files: list[dict[str, Any]]  # path, size and fingerprint of each
    runs: int = 0  # sorted runs that went to disk
    cut_words: int = 0  # words that are left out of this already, because no vocabulary will have them
    cut_tokens: int = 0


class _Counter:
    """The state that the threads share."""

    def __init__(self, threads: int, memory: int, runs: Runs) -> None:
        self.local_memory = min(LOCAL_MEMORY, memory // (4 * threads))
        self.shared_memory = memory - threads * self.local_memory
        self.runs = runs
        self.shared = WordTable()
        self.lock = threading.Lock()
        self.free: queue.LifoQueue[tuple[WordTable, Scratch]] = queue.LifoQueue()
        for _ in range(threads):
            self.free.put((WordTable(), Scratch()))

    def count(self, piece: Block | Range) -> tuple[Block, int, int]:
        block = piece.load()
        table, scratch = self.free.get()
        try:
            words, lines = table.count_text(block.text, block.length, scratch)
            block.text = np.empty(0, np.uint8)  # only its numbers are needed from here
            if table.memory > self.local_memory:
                self.pour(table)
        finally:
            self.free.put((table, scratch))
        return block, words, lines

    def pour(self, table: WordTable) -> None:
        """Add a thread's table to the shared one, and empty it."""
        with self.lock:
            if self.shared.size:
                self.shared.add_table(table)
                table.clear()
            else:
                table.swap(self.shared)
            if self.shared.memory > self.shared_memory:
                self.runs.spill(self.shared)

    def finish(self) -> None:
        """All counts in one place: the shared table, or runs on disk."""
        while not self.free.empty():
            self.pour(self.free.get()[0])
        for word in (UNKNOWN, END_OF_LINE):  # with no count of their own: the text may not have them
            self.shared.add_word(word, 0)
        if self.runs:
            self.runs.spill(self.shared)


def _nothing() -> None:
    pass


@contextmanager
def counting(
    corpus: Corpus, threads: int, memory: int, progress: Progress, meanwhile: Callable[[], None] = _nothing,
    ranks: Ranks = SINGLE_RANK,
) -> Iterator[Counts]:  # fmt: skip
    """The exact counts of a corpus's words; with several processes, those of the words that belong to this one. They
    may lie on disk, in files that go at the end of the block.

    `meanwhile` is called once, while the threads are at work.
    """
    runs, merged = Runs(), Runs()
    try:
        memory //= 1 if ranks.size == 1 else 2  # there will be a second table
        counter = _Counter(threads, memory, runs)
        files = FilesRead(corpus)
        tokens = lines = 0
        for block, new_words, new_lines in ordered_map(counter.count, corpus.pieces(ranks), threads):
            tokens, lines = tokens + new_words, lines + new_lines
            files.add(block)
            progress(block.read)
            meanwhile()
            meanwhile = _nothing
        if ranks.size > 1:
            files.add_others(ranks)
            tokens, lines = (sum(numbers) for numbers in zip(*ranks.allgather((tokens, lines)), strict=True))
        if tokens == 0:
            raise NeglmError(f"{corpus.name} has no words: it is empty, or there is nothing but white space in it")
        counter.finish()
        table, all_runs = counter.shared, runs
        if ranks.size > 1:
            table, all_runs = _divided(_arrays(table, runs), ranks, memory, merged), merged
        spilled = len(runs) + len(merged)
        yield Counts(*_arrays(table, all_runs), bool(all_runs), lines, tokens, files.records(), spilled)
    finally:
        runs.close()
        merged.close()


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # offsets, counts and letters


def _arrays(table: WordTable, runs: Runs) -> Arrays:
    """All counts, from memory or from disk; none can be added any more."""
    if runs:
        return runs.merged()
    table.drop_slots()
    return table.offsets, table.counts, table.letters


def _divided(arrays: Arrays, ranks: Ranks, memory: int, runs: Runs) -> WordTable:
    """Give every word's count to the process that it belongs to; returns what belongs to this one, and fills `runs` if
    that is too much. Some words at a time: nobody ever holds all of them."""
    offsets, counts, letters = arrays
    table = WordTable()
    seed = ranks.broadcast(random_seed())
    first = 0
    while ranks.any(first < len(counts)):
        last = min(first + SENT_WORDS, int(np.searchsorted(offsets, offsets[first] + SENT_BYTES)), len(counts))
        last = max(last, min(first + 1, len(counts)))
        owners = np.empty(last - first, np.int64)
        find_owners(offsets, letters, first, ranks.size, seed, owners)
        order = first + np.argsort(owners, kind="stable")
        lengths = offsets[order + 1] - offsets[order]
        new_offsets, new_letters = np.empty(len(order) + 1, np.int64), np.empty(int(lengths.sum()), np.uint8)
        gather(order, offsets, letters, new_offsets, new_letters)
        words = np.bincount(owners, minlength=ranks.size)
        ends = np.append(0, np.cumsum(words))
        mine, _ = ranks.alltoall(counts[order], words)
        my_lengths, _ = ranks.alltoall(lengths, words)
        my_letters, _ = ranks.alltoall(new_letters, np.diff(new_offsets[ends]))
        table.add_words(np.append(0, np.cumsum(my_lengths)), mine, padded(my_letters.data))
        if table.memory > memory:
            runs.spill(table)
        first = last
    if runs:
        runs.spill(table)
    return table
