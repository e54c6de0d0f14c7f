"""Word counting, on several threads and in bounded memory.

Each thread counts into its own table, small enough for the CPU cache; full tables are merged into the shared one.
When the shared table exceeds its memory limit, it is spilled to disk as a sorted run.

Each rank counts a shard of the corpus. An alltoall then gives each rank the total counts of its words, chosen by hash.
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
from neglm_cli.text.byte_order import gather_words
from neglm_cli.text.corpus import Corpus, FileFingerprints
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.sorted_runs import SortedRuns
from neglm_cli.text.source import Block, Chunk
from neglm_cli.text.table import Scratch, WordArrays, WordTable, find_owners, random_seed
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN, padded

LOCAL_MEMORY = 24 << 20  # bytes of a thread's table: about half a million words
SENT_WORDS, SENT_BYTES = 1 << 18, 1 << 23  # limits of one alltoall, per rank (at least one word is sent)

Progress = Callable[[int], None]  # called with the number of bytes read since the last call


@dataclass(frozen=True)
class Counts:
    """Word counts of a corpus: entry e is the word word_bytes[offsets[e]:offsets[e+1]].

    `<unk>` and `<eos>` always have an entry, with the number of literal occurrences in the text: usually 0.
    """

    offsets: np.ndarray  # int64 (E+1,)
    counts: np.ndarray  # int64 (E,)
    word_bytes: np.ndarray  # uint8 (B + PADDING,)
    is_sorted: bool  # by bytes
    lines: int
    tokens: int
    files: list[dict[str, Any]]  # path, size and fingerprint of each file
    runs: int = 0  # sorted runs spilled to disk
    oov_words: int = 0  # words already left out, because the vocabulary will not contain them
    oov_tokens: int = 0


class _Counter:
    """State shared by the counting threads."""

    def __init__(self, threads: int, memory: int, runs: SortedRuns) -> None:
        self.local_memory = min(LOCAL_MEMORY, memory // (4 * threads))
        self.shared_memory = memory - threads * self.local_memory
        self.runs = runs
        self.shared = WordTable()
        self.lock = threading.Lock()
        self.free: queue.LifoQueue[tuple[WordTable, Scratch]] = queue.LifoQueue()
        for _ in range(threads):
            self.free.put((WordTable(), Scratch()))

    def count(self, chunk: Chunk) -> tuple[Block, int, int]:
        block = chunk.load()
        table, scratch = self.free.get()
        try:
            words, lines = table.count_text(block.text, block.length, scratch)
            block.text = np.empty(0, np.uint8)  # free its memory: only the other fields are needed
            if table.memory > self.local_memory:
                self.merge(table)
        finally:
            self.free.put((table, scratch))
        return block, words, lines

    def merge(self, table: WordTable) -> None:
        """Add a thread's table to the shared one and clear it."""
        with self.lock:
            if self.shared.size:
                self.shared.add_table(table)
                table.clear()
            else:
                table.swap(self.shared)
            if self.shared.memory > self.shared_memory:
                self.runs.spill(self.shared)

    def finish(self) -> None:
        """Merge all counts into the shared table, or into runs on disk."""
        while not self.free.empty():
            self.merge(self.free.get()[0])
        for word in (UNKNOWN, END_OF_LINE):  # the text may not contain them
            self.shared.add_word(word, 0)
        if self.runs:
            self.runs.spill(self.shared)


def _do_nothing() -> None:
    pass


@contextmanager
def counting(
    corpus: Corpus, threads: int, memory: int, progress: Progress, meanwhile: Callable[[], None] = _do_nothing,
    ranks: Ranks = SINGLE_RANK,
) -> Iterator[Counts]:  # fmt: skip
    """Count a corpus's words exactly; with several ranks, the counts of the words that this rank owns. They may be
    memory-mapped from temporary files, which are deleted at the end of the block.

    meanwhile: called once, while the threads count.
    """
    runs, merged = SortedRuns(), SortedRuns()
    try:
        memory //= 1 if ranks.size == 1 else 2  # the alltoall needs a second table
        counter = _Counter(threads, memory, runs)
        files = FileFingerprints(corpus)
        tokens = lines = 0
        for block, new_words, new_lines in ordered_map(counter.count, corpus.chunks(ranks), threads):
            tokens, lines = tokens + new_words, lines + new_lines
            files.add(block)
            progress(block.read)
            meanwhile()
            meanwhile = _do_nothing
        if ranks.size > 1:
            files.allgather(ranks)
            tokens, lines = (sum(numbers) for numbers in zip(*ranks.allgather((tokens, lines)), strict=True))
        if tokens == 0:
            raise NeglmError(f"{corpus.name} has no words: it is empty or contains only whitespace")
        counter.finish()
        table, all_runs = counter.shared, runs
        if ranks.size > 1:
            table, all_runs = _exchange_counts(_arrays(table, runs), ranks, memory, merged), merged
        spilled = len(runs) + len(merged)
        yield Counts(*_arrays(table, all_runs), bool(all_runs), lines, tokens, files.records(), spilled)
    finally:
        runs.close()
        merged.close()


def _arrays(table: WordTable, runs: SortedRuns) -> WordArrays:
    """Return all counts, from memory or from disk. No more can be added."""
    if runs:
        return runs.merged()
    table.drop_slots()
    return WordArrays(table.offsets, table.counts, table.word_bytes)


def _exchange_counts(arrays: WordArrays, ranks: Ranks, memory: int, runs: SortedRuns) -> WordTable:
    """Send every word's count to the rank that owns it, in batches. Return the table of this rank's words; if they
    exceed the memory, all are in `runs` instead."""
    offsets, counts, word_bytes = arrays
    table = WordTable()
    seed = ranks.broadcast(random_seed())
    first = 0
    while ranks.any(first < len(counts)):
        last = min(first + SENT_WORDS, int(np.searchsorted(offsets, offsets[first] + SENT_BYTES)), len(counts))
        last = max(last, min(first + 1, len(counts)))
        owners = np.empty(last - first, np.int64)
        find_owners(offsets, word_bytes, first, ranks.size, seed, owners)
        order = first + np.argsort(owners, kind="stable")
        lengths = offsets[order + 1] - offsets[order]
        new_offsets, new_word_bytes = np.empty(len(order) + 1, np.int64), np.empty(int(lengths.sum()), np.uint8)
        gather_words(order, offsets, word_bytes, new_offsets, new_word_bytes)
        words = np.bincount(owners, minlength=ranks.size)
        ends = np.append(0, np.cumsum(words))
        mine, _ = ranks.alltoall(counts[order], words)
        my_lengths, _ = ranks.alltoall(lengths, words)
        my_word_bytes, _ = ranks.alltoall(new_word_bytes, np.diff(new_offsets[ends]))
        table.add_words(np.append(0, np.cumsum(my_lengths)), mine, padded(my_word_bytes.data))
        if table.memory > memory:
            runs.spill(table)
        first = last
    if runs:
        runs.spill(table)
    return table
