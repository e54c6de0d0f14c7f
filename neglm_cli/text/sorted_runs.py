"""External sorting of word counts: sorted runs on disk, merged into one.

The runs are concatenated in three arrays (word_bytes, offsets, counts), each run sorted by its words' bytes. The merge
reads them once, sequentially, through memory maps, and writes three new arrays, so that it needs constant memory.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.bits import PADDING, copy
from neglm_cli.text.byte_order import compare, gather_words, sort_by_bytes
from neglm_cli.text.spill import SpilledArrays
from neglm_cli.text.table import WordArrays, WordTable

MERGE_WORDS = 1 << 16  # words per write of the merge
MERGE_BYTES = 1 << 20


class MergeOutput(NamedTuple):
    """Buffers for merged words."""

    lengths: np.ndarray  # int64 (MERGE_WORDS,)
    counts: np.ndarray  # int64 (MERGE_WORDS,)
    word_bytes: np.ndarray  # uint8


@inlined
def compare_entries(a, b, offsets, word_bytes):
    return compare(word_bytes, offsets[a], offsets[a + 1] - offsets[a], offsets[b], offsets[b + 1] - offsets[b])


@kernel
def sift_down(heap, size, root, cursors, offsets, word_bytes):
    """Restore the heap property below `root`, in a binary min-heap of runs by their next words."""
    while True:
        least = root
        for child in range(2 * root + 1, min(2 * root + 3, size)):
            if compare_entries(cursors[heap[child]], cursors[heap[least]], offsets, word_bytes) < 0:
                least = child
        if least == root:
            return
        heap[root], heap[least] = heap[least], heap[root]
        root = least


@kernel
def merge_runs(heap, size, cursors, bounds, runs, output):
    """Merge until all runs are consumed or the output arrays are full.

    Run r consists of entries cursors[r] to bounds[r+1]. Return the number of runs left, of words and of bytes written.
    """
    offsets, counts, word_bytes = runs
    out_lengths, out_counts, out_word_bytes = output
    words = 0
    end = 0
    while size and words < out_counts.size:
        least = cursors[heap[0]]
        start, length = offsets[least], offsets[least + 1] - offsets[least]
        if end + length > out_word_bytes.size:
            break
        total = 0
        while size and compare_entries(cursors[heap[0]], least, offsets, word_bytes) == 0:
            run = heap[0]
            total += counts[cursors[run]]
            cursors[run] += 1
            if cursors[run] == bounds[run + 1]:
                size -= 1
                heap[0] = heap[size]
            sift_down(heap, size, 0, cursors, offsets, word_bytes)
        copy(word_bytes, start, out_word_bytes, end, length)
        out_lengths[words] = length
        out_counts[words] = total
        end += length
        words += 1
    return size, words, end


class SortedRuns:
    """Sorted runs on disk."""

    def __init__(self) -> None:
        self._runs, self._merged = (SpilledArrays(np.uint8, np.int64, np.int64) for _ in range(2))
        self._bounds = [0]  # entry bounds of the runs
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def spill(self, table: WordTable) -> None:
        """Write the table as another run and clear it. An empty table writes no run: every run has a next word."""
        if not table.size:
            return
        order = sort_by_bytes(np.arange(table.size), table.offsets, table.word_bytes)
        offsets = np.empty(len(order) + 1, np.int64)
        word_bytes = np.empty(int(table.offsets[-1]), np.uint8)
        gather_words(order, table.offsets, table.word_bytes, offsets, word_bytes)
        self._runs.append(word_bytes, offsets[:-1] + self._bytes, table.counts[order])
        self._bytes += len(word_bytes)
        self._bounds.append(self._bounds[-1] + len(order))
        table.clear()

    def merged(self) -> WordArrays:
        """Return all words sorted by bytes, with their total counts, memory-mapped."""
        runs = _finish(self._runs, self._bytes)
        bounds = np.array(self._bounds)
        cursors = bounds[:-1].copy()
        heap = np.arange(len(cursors))
        left = len(heap)
        for root in reversed(range(left // 2)):
            sift_down(heap, left, root, cursors, runs.offsets, runs.word_bytes)
        out_lengths, out_counts = np.empty((2, MERGE_WORDS), np.int64)
        out_word_bytes = np.empty(MERGE_BYTES, np.uint8)
        all_bytes = 0
        while left:
            output = MergeOutput(out_lengths, out_counts, out_word_bytes)
            left, words, size = merge_runs(heap, left, cursors, bounds, runs, output)
            if not words:  # the next word is larger than the buffer
                next_word = cursors[heap[0]]
                out_word_bytes = np.empty(int(runs.offsets[next_word + 1] - runs.offsets[next_word]), np.uint8)
            starts = all_bytes + np.cumsum(out_lengths[:words]) - out_lengths[:words]
            self._merged.append(out_word_bytes[:size], starts, out_counts[:words])
            all_bytes += size
        self._runs.close()
        return _finish(self._merged, all_bytes)

    def close(self) -> None:
        self._runs.close()
        self._merged.close()


def _finish(spilled: SpilledArrays, size: int) -> WordArrays:
    """Map words with `size` bytes in total. The last offset is the end of the last word."""
    spilled.append(np.zeros(PADDING, np.uint8), np.array([size]), np.empty(0, np.int64))
    word_bytes, offsets, counts = spilled.mapped()
    return WordArrays(offsets, counts, word_bytes)
