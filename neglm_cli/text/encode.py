"""Text to word ids, with a finished vocabulary: any alphabet that has `<unk>` and `<eos>`."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from neglm_cli.text.alphabet import Alphabet
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.source import Block, Corpus, Range
from neglm_cli.text.table import Scratch
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN, padded


class Encoder:
    """Gives ids for words; any number of threads may use one."""

    def __init__(self, vocabulary: Alphabet, unknown: int | None = None, end_of_line: int | None = None) -> None:
        """`unknown` and `end_of_line`: ids of what is not in the vocabulary and of newlines, if they are not those of
        `<unk>` and `<eos>`."""
        self.table = vocabulary.table
        self.unknown = vocabulary.id(UNKNOWN) if unknown is None else unknown
        self.end_of_line = vocabulary.id(END_OF_LINE) if end_of_line is None else end_of_line
        self._scratch: queue.SimpleQueue[Scratch] = queue.SimpleQueue()

    def encode(self, text: bytes) -> np.ndarray:
        """The ids of the words, int32, with that of `<eos>` for every newline."""
        return self._lookup(padded(text), len(text))

    def encode_piece(self, piece: Block | Range) -> tuple[Block, np.ndarray]:
        """The ids of a piece of a corpus, and the block that was read for it."""
        block = piece.load()
        return block, self._lookup(block.text, block.length)

    def encode_corpus(self, corpus: Corpus, threads: int) -> Iterator[tuple[Block, np.ndarray]]:
        """The ids of a whole corpus in order, piece by piece."""
        return ordered_map(self.encode_piece, corpus.pieces(), threads)

    def _lookup(self, text: np.ndarray, length: int) -> np.ndarray:
        with self._borrowed_scratch() as scratch:
            return self.table.lookup_text(text, length, self.unknown, self.end_of_line, scratch)

    @contextmanager
    def _borrowed_scratch(self) -> Iterator[Scratch]:
        try:
            scratch = self._scratch.get_nowait()
        except queue.Empty:
            scratch = Scratch()
        try:
            yield scratch
        finally:
            self._scratch.put(scratch)
