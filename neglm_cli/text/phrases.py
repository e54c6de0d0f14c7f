"""Phrases: neighbours that stand together more often than their frequencies explain.

Several passes over a text: each counts the neighbours in what the passes before have made of it, and joins those
whose score is high enough. The text is read anew for every pass; only counts are kept.

    pmi(a, b) = log p(a,b) / (p(a) p(b))        npmi(a, b) = pmi(a, b) / -log p(a,b)

with p(a,b) = count(a b) / N and p(a) = count(a) / N, N the number of words, a phrase being one.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.text.bigrams import Bigrams, Run, count_neighbours
from neglm_cli.text.count import Counts
from neglm_cli.text.encode import Encoder
from neglm_cli.text.joining import LINE_END, NOTHING, UNKNOWN_WORD, Joiner, Joins, Scribe, glued_words
from neglm_cli.text.pairs import ranked
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.source import Block, Corpus, FilesRead

Progress = Callable[[int], None]  # called with the bytes that were read since the last call


def pmi(pairs: np.ndarray, firsts: np.ndarray, seconds: np.ndarray, total: int) -> np.ndarray:
    """From the counts of pairs, of their first and of their second words, and of all words."""
    return np.log(pairs * float(total) / (firsts * seconds.astype(np.float64)))


def npmi(pairs: np.ndarray, firsts: np.ndarray, seconds: np.ndarray, total: int) -> np.ndarray:
    """From -1 to 1: words that stand only together have 1, whatever their frequency."""
    return pmi(pairs, firsts, seconds, total) / np.log(total / pairs)


SCORES = {"pmi": pmi, "npmi": npmi}


@dataclass(frozen=True)
class Rule:
    """What makes a phrase of two neighbours."""

    score: str
    threshold: float  # the least score
    min_count: int


@dataclass(frozen=True)
class Phrase:
    words: bytes  # with blanks between
    count: int  # how often its two parts stand side by side
    score: float
    found_in: int  # the number of the pass


class Phrases:
    """The words of a text, and the phrases that were found in it. Both have ids: U in all, those of words first."""

    def __init__(self, counts: Counts, rule: Rule) -> None:
        """Words that occur fewer than `min_count` times are in no pair that occurs so often: they need no ids."""
        often = np.where(counts.counts >= rule.min_count, counts.counts, 0)
        self._rule = rule
        self._words, _ = ranked(counts.offsets, often, counts.letters)
        self._counts = self._words.counts  # int64 (U,)
        self._sizes = np.ones(len(self._words), np.int32)  # (U,): the number of words that each stands for
        self._total = counts.tokens
        self._files = counts.files
        self._passes: list[Joins] = []
        self.found: list[Phrase] = []  # in the order of their ids
        self.joined: list[int] = []  # by pass: how many pairs were joined in the text

    def find(self, corpus: Corpus, threads: int, memory: int, progress: Progress) -> tuple[int, int]:
        """One more pass. Returns how many phrases it found, and how many runs of pairs went to disk."""
        bigrams = Bigrams(memory)
        try:
            stream = self._read(corpus, threads, progress)
            for run in ordered_map(_counted, stream.overlapping(), threads):
                bigrams.add(run)
            self._take_joined(stream)
            chosen = [self._chosen(run) for run in bigrams.all()]
            self._add(*(np.concatenate(arrays) for arrays in zip(*chosen, strict=True)))
            return len(self._passes[-1].pairs), bigrams.spilled
        finally:
            bigrams.close()

    def write(self, corpus: Corpus, file: BinaryIO, delimiter: bytes, threads: int, progress: Progress) -> None:
        """Write the text with its phrases joined."""
        stream = self._read(corpus, threads, progress)
        scribe = Scribe(delimiter)
        completed = False
        for block, glued in stream.glued(self._sizes):
            file.writelines(scribe.write(block.text, block.length, glued))
            completed = block.completed if block.length else completed
        file.write(scribe.space[:-1] if completed else scribe.space)  # a last line without newline stays one
        self._take_joined(stream)

    def _read(self, corpus: Corpus, threads: int, progress: Progress) -> "_Stream":
        return _Stream(
            corpus, self._files, Encoder(self._words, UNKNOWN_WORD, LINE_END), self._passes, threads, progress
        )

    def _chosen(self, run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those of these pairs that are phrases: their keys, counts and scores."""
        run = run[run.counts >= self._rule.min_count]
        counts = self._counts[run.firsts], self._counts[run.seconds]
        scores = SCORES[self._rule.score](run.counts, *counts, self._total)
        high = scores >= self._rule.threshold
        return run.keys[high], run.counts[high], scores[high]

    def _add(self, keys: np.ndarray, counts: np.ndarray, scores: np.ndarray) -> None:
        """Give ids to phrases. All are new: joining from left to right cuts the same words in the same way."""
        pairs = Run(keys, counts)
        firsts, seconds = pairs.firsts, pairs.seconds
        number = len(self._passes) + 1
        for first, second, count, score in zip(
            *(array.tolist() for array in (firsts, seconds, counts, scores)), strict=True
        ):
            self.found.append(Phrase(b"%b %b" % (self._name(first), self._name(second)), count, score, number))
        ids = np.arange(len(self._sizes), len(self._sizes) + len(pairs), dtype=np.int32)
        self._sizes = np.append(self._sizes, self._sizes[firsts] + self._sizes[seconds])
        self._counts = np.append(self._counts, np.zeros(len(pairs), np.int64))
        self._passes.append(Joins.of(pairs, ids))

    def _name(self, number: int) -> bytes:
        return self._words[number] if number < len(self._words) else self.found[number - len(self._words)].words

    def _take_joined(self, stream: "_Stream") -> None:
        """What the newest pass has joined is one word from now on."""
        if len(self.joined) == len(self._passes):
            return
        joins, times = self._passes[-1], stream.joiners[-1].times
        np.subtract.at(self._counts, joins.pairs.firsts, times)
        np.subtract.at(self._counts, joins.pairs.seconds, times)
        np.add.at(self._counts, joins.joined, times)
        self._total -= int(times.sum())
        self.joined.append(int(times.sum()))


class _Stream:
    """One reading of the text, as the ids of words and of what passes have joined."""

    def __init__(
        self,
        corpus: Corpus,
        files: list[dict[str, Any]],
        encoder: Encoder,
        passes: list[Joins],
        threads: int,
        progress: Progress,
    ) -> None:
        """`files`: what they were when their words were counted."""
        self._corpus = corpus
        self._files = files
        self._encoded = encoder.encode_corpus(corpus, threads)
        self._progress = progress
        self.joiners = [Joiner(joins) for joins in passes]

    def overlapping(self) -> Iterator[tuple[np.ndarray, int]]:
        """The ids piece by piece, each with the last one of the piece before."""
        before = NOTHING
        for _, _, ids in self._joined():
            yield ids, before
            before = int(ids[-1]) if len(ids) else before

    def glued(self, sizes: np.ndarray) -> Iterator[tuple[Block, np.ndarray]]:
        """The blocks of the text, and for each word whether it is glued to the one before.

        For the last words of a block, the next block tells: blocks wait until all is known.
        """
        waiting: deque[tuple[Block, int]] = deque()
        known = np.empty(0, np.bool_)
        for block, words, ids in self._joined():
            waiting.append((block, words))
            known = np.concatenate([known, glued_words(ids, sizes)])
            while waiting and waiting[0][1] <= len(known):
                block, words = waiting.popleft()
                yield block, known[:words]
                known = known[words:]

    def _joined(self) -> Iterator[tuple[Block, int, np.ndarray]]:
        """The blocks of the text, the number of words of each, and as many of the ids as are known so far."""
        files = FilesRead(self._corpus)
        for block, ids in self._encoded:
            files.add(block)
            words = int(np.count_nonzero(ids != LINE_END))
            for joiner in self.joiners:
                ids = joiner.join(ids)
            self._progress(block.read)
            yield block, words, ids
        if files.records() != self._files:
            raise NeglmError(f"{self._corpus.name} has changed while it was read: start again when it is complete")


def _counted(piece: tuple[np.ndarray, int]) -> Run:
    return count_neighbours(*piece)


def list_lines(found: list[Phrase], delimiter: bytes) -> Iterator[bytes]:
    """Phrase, count, score and pass, with tabs between, the highest score first."""
    for phrase in sorted(found, key=lambda phrase: (-phrase.score, phrase.words)):
        name = phrase.words.replace(b" ", delimiter)
        yield b"%b\t%d\t%.4f\t%d\n" % (name, phrase.count, phrase.score, phrase.found_in)
