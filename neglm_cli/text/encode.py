"""Encoding text as word ids, with a vocabulary: any word index that has `<unk>` and `<eos>`."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from neglm_cli.text.corpus import Corpus
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.source import Block, Chunk
from neglm_cli.text.table import Scratch
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN, padded
from neglm_cli.text.word_index import WordIndex


class Encoder:
    """Maps words to ids. Thread-safe."""

    def __init__(self, vocabulary: WordIndex, unknown: int | None = None, end_of_line: int | None = None) -> None:
        """unknown, end_of_line: ids for words not in the vocabulary and for newlines, instead of those of `<unk>` and
        `<eos>`."""
        self.table = vocabulary.table
        self.unknown = vocabulary.id(UNKNOWN) if unknown is None else unknown
        self.end_of_line = vocabulary.id(END_OF_LINE) if end_of_line is None else end_of_line
        self._scratch: queue.SimpleQueue[Scratch] = queue.SimpleQueue()

    def encode(self, text: bytes) -> np.ndarray:
        """Return the ids of the words, int32, with `<eos>` for every newline."""
        return self._lookup(padded(text), len(text))

    def encode_chunk(self, chunk: Chunk) -> tuple[Block, np.ndarray]:
        """Load a chunk of a corpus. Return its block and the ids, int32."""
        block = chunk.load()
        return block, self._lookup(block.text, block.length)

    def encode_corpus(self, corpus: Corpus, threads: int) -> Iterator[tuple[Block, np.ndarray]]:
        """Yield the blocks of a corpus in order, with their ids."""
        return ordered_map(self.encode_chunk, corpus.chunks(), threads)

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
