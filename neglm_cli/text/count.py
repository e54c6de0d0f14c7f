"""Counting the words of a corpus, on several threads and in bounded memory.

Each thread counts into a table of its own, small enough to stay near the processor; a full one is poured
into the shared table. When that outgrows its share of the memory, it goes to disk as a sorted run.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.runs import Runs
from neglm_cli.text.source import Block, Corpus, FilesRead, Range
from neglm_cli.text.table import Scratch, WordTable
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN

LOCAL_MEMORY = 24 << 20  # bytes of a thread's own table: about half a million words

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
            if table.memory > self.local_memory:
                self.pour(table)
        finally:
            self.free.put((table, scratch))
        block.text = block.text[:0]  # only its numbers are needed from here
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
    corpus: Corpus, threads: int, memory: int, progress: Progress, meanwhile: Callable[[], None] = _nothing
) -> Iterator[Counts]:
    """The exact counts of a corpus's words. They may lie on disk, in files that go at the end of the block.

    `meanwhile` is called once, while the threads are at work.
    """
    runs = Runs()
    try:
        counter = _Counter(threads, memory, runs)
        files = FilesRead(corpus)
        tokens = lines = 0
        for block, new_words, new_lines in ordered_map(counter.count, corpus.pieces(), threads):
            tokens, lines = tokens + new_words, lines + new_lines
            files.add(block)
            progress(block.read)
            meanwhile()
            meanwhile = _nothing
        if tokens == 0:
            raise NeglmError(f"{corpus.name} has no words: it is empty, or there is nothing but white space in it")
        counter.finish()
        if runs:
            yield Counts(*runs.merged(), True, lines, tokens, files.records(), len(runs))
        else:
            table = counter.shared
            table.drop_slots()
            yield Counts(table.offsets, table.counts, table.letters, False, lines, tokens, files.records())
    finally:
        runs.close()
