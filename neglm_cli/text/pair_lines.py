"""Reading pairs: lines of `x TAB y`, or `x TAB y TAB count`.

x and y may contain any byte except tab and newline. Counts of equal pairs are summed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import inlined, kernel
from neglm_cli.text.corpus import Corpus, FileFingerprints, open_corpus
from neglm_cli.text.pairs import Pairs, add_up, ranked
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.source import Block, Chunk
from neglm_cli.text.streams import no_progress
from neglm_cli.text.table import WordTable
from neglm_cli.text.tokens import padded

TAB, NEWLINE, RETURN, ZERO, NINE = (np.uint8(ord(char)) for char in "\t\n\r09")
MAX_COUNT = 2**63 - 1
BATCH_LINES = 1 << 14  # lines split per call
MIN_CELLS = 1 << 22  # cells collected before duplicates are summed

OK, NO_TAB, TOO_MANY_FIELDS, EMPTY, BAD_COUNT, TOO_LARGE, TOTAL_TOO_LARGE = range(7)
EXPECTED = "expected x, a tab and y, optionally followed by a tab and a count"
ERRORS = {
    NO_TAB: f"there is no tab: {EXPECTED}",
    TOO_MANY_FIELDS: f"there are more than three fields: {EXPECTED}",
    EMPTY: "x or y is empty: both need at least one byte",
    BAD_COUNT: "the third field is not a count: expected a positive integer, in digits",
    TOO_LARGE: f"the count is too large: the maximum is {MAX_COUNT:,}",
    TOTAL_TOO_LARGE: f"the counts up to this line add up to more than {MAX_COUNT:,}: scale them down",
}


class PairSpans(NamedTuple):
    """Output arrays of `split_pairs`, int64 (BATCH_LINES,): spans of each x and y in the text, and counts."""

    x_starts: np.ndarray
    x_ends: np.ndarray
    y_starts: np.ndarray
    y_ends: np.ndarray
    counts: np.ndarray


@kernel
def split_pairs(text, begin, end, total, spans):
    """Split the lines of text[begin:end], which ends with a newline, until it ends or the arrays are full.

    Return the number of pairs and of lines, the position to continue at, the sum of `total` and all counts, and OK or
    the error code of the next line.
    """
    x_starts, x_ends, y_starts, y_ends, counts = spans
    pairs = lines = 0
    while begin < end and pairs < counts.size:
        first_tab = second_tab = stop = begin
        tabs = 0
        while text[stop] != NEWLINE:
            if text[stop] == TAB:
                if tabs == 0:
                    first_tab = stop
                elif tabs == 1:
                    second_tab = stop
                tabs += 1
            stop += 1
        next_line = stop + 1
        if stop > begin and text[stop - 1] == RETURN:
            stop -= 1
        if stop > begin:
            if tabs == 0:
                return pairs, lines, begin, total, NO_TAB
            if tabs > 2:
                return pairs, lines, begin, total, TOO_MANY_FIELDS
            y_end = second_tab if tabs == 2 else stop
            if first_tab == begin or y_end == first_tab + 1:
                return pairs, lines, begin, total, EMPTY
            count = 1
            if tabs == 2:
                count, status = parse_count(text, second_tab + 1, stop)
                if status != OK:
                    return pairs, lines, begin, total, status
            if count > MAX_COUNT - total:
                return pairs, lines, begin, total, TOTAL_TOO_LARGE
            total += count
            x_starts[pairs], x_ends[pairs] = begin, first_tab
            y_starts[pairs], y_ends[pairs] = first_tab + 1, y_end
            counts[pairs] = count
            pairs += 1
        lines += 1
        begin = next_line
    return pairs, lines, begin, total, OK


@inlined
def parse_count(text, begin, end):
    """Parse the count text[begin:end]. Return it and OK, or 0 and an error code."""
    count = np.int64(0)
    too_large = False
    for i in range(begin, end):
        if text[i] < ZERO or text[i] > NINE:
            return 0, BAD_COUNT
        digit = np.int64(text[i] - ZERO)
        if count > (MAX_COUNT - digit) // 10:
            too_large = True
        else:
            count = 10 * count + digit
    if too_large:
        return 0, TOO_LARGE
    return count, (OK if count else BAD_COUNT)


@kernel
def after_last_newline(text):
    """Return the index after the last newline; 0 if there is none."""
    end = text.size
    while end and text[end - 1] != NEWLINE:
        end -= 1
    return end


class _Cells:
    """Cells of a sparse matrix. Duplicates are summed periodically, so that memory grows with the distinct cells."""

    def __init__(self) -> None:
        self._batches: list[tuple[np.ndarray, np.ndarray]] = []
        self._size = 0
        self._limit = MIN_CELLS

    def add(self, rows: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> None:
        self._batches.append((rows << 32 | columns, counts))
        self._size += len(rows)
        if self._size > self._limit:
            keys, _ = self.sums()
            self._limit = max(MIN_CELLS, 2 * len(keys))

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        keys, counts = (np.concatenate(arrays) for arrays in zip(*self._batches, strict=True))
        self._batches = [add_up(keys, counts)]
        self._size = len(self._batches[0][0])
        return self._batches[0]


class _Reader:
    """Parser state between blocks: the two word tables, the cells, and an incomplete line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.x, self.y = WordTable(), WordTable()
        self.cells = _Cells()
        self.total = self.lines = 0
        self._rest: list[np.ndarray] = []
        self._spans = PairSpans(*(np.empty(BATCH_LINES, np.int64) for _ in range(5)))

    def read(self, text: np.ndarray) -> None:
        """Parse a block of text; its last line may be incomplete."""
        end = after_last_newline(text)
        if end == 0:
            self._rest.append(text)
            return
        self._read_lines(padded(np.concatenate([*self._rest, text[:end]]).data))
        self._rest = [text[end:]]

    def _read_lines(self, text: np.ndarray) -> None:
        begin, end = 0, len(text) - len(padded(b""))
        while begin < end:
            pairs, lines, begin, self.total, status = split_pairs(text, begin, end, self.total, self._spans)
            self.lines += lines
            if status != OK:
                raise NeglmError(f"{self.name}, line {self.lines + 1}: {ERRORS[status]}")
            x_starts, x_ends, y_starts, y_ends, counts = (span[:pairs] for span in self._spans)
            rows = self.x.add_spans(text, x_starts, x_ends, counts)
            columns = self.y.add_spans(text, y_starts, y_ends, counts)
            self.cells.add(rows, columns, counts.copy())


def read_pairs(path: str, progress: Callable[[int], None] = no_progress) -> Pairs:
    """Read pairs from a file, plain or compressed, or from standard input (`-`)."""
    return pairs_of(open_corpus([path]), progress)


def pairs_of(corpus: Corpus, progress: Callable[[int], None] = no_progress) -> Pairs:
    """Read pairs from an open corpus. progress: called with the number of bytes read since the last call."""
    reader = _Reader(corpus.name)
    files = FileFingerprints(corpus)

    def load(chunk: Chunk) -> Block:
        return chunk.load()

    for block in ordered_map(load, corpus.chunks(), threads=1):  # reads ahead while this thread parses
        reader.read(block.text[: block.length])
        files.add(block)
        progress(block.read)
    if not reader.total:
        raise NeglmError(f"{corpus.name} has no pairs: expected lines of x, a tab and y")
    words, row_ids = ranked(reader.x.offsets, reader.x.counts, reader.x.word_bytes)
    contexts, column_ids = ranked(reader.y.offsets, reader.y.counts, reader.y.word_bytes)
    keys, counts = reader.cells.sums()
    rows, columns = row_ids[keys >> 32], column_ids[keys & 0xFFFFFFFF]
    return Pairs(words, contexts, rows, columns, counts, files.records())
