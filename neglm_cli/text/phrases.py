"""Phrases: bigrams more frequent than their words' frequencies predict.

Each pass over the text counts bigrams, of words and of phrases from previous passes, and joins those with a
high score. Every pass rereads the text; only counts are kept in memory.

    pmi(a, b) = log p(a,b) / (p(a) p(b))        npmi(a, b) = pmi(a, b) / -log p(a,b)

with p(a,b) = count(a b) / N and p(a) = count(a) / N, where N is the number of words; a phrase counts as one.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.text.bigrams import BigramCounter, PairCounts, count_bigrams
from neglm_cli.text.corpus import Corpus, FileFingerprints
from neglm_cli.text.count import Counts
from neglm_cli.text.encode import Encoder
from neglm_cli.text.pairs import ranked
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.phrase_joining import (
    LINE_END,
    NOTHING,
    UNKNOWN_WORD,
    PhraseJoiner,
    PhrasePairs,
    PhraseWriter,
    joined_words,
)
from neglm_cli.text.source import Block

Progress = Callable[[int], None]  # called with the number of bytes read since the last call


def pmi(pairs: np.ndarray, firsts: np.ndarray, seconds: np.ndarray, total: int) -> np.ndarray:
    """Return pointwise mutual information, from counts of pairs, of their first and second words, and of all words."""
    return np.log(pairs * float(total) / (firsts * seconds.astype(np.float64)))


def npmi(pairs: np.ndarray, firsts: np.ndarray, seconds: np.ndarray, total: int) -> np.ndarray:
    """Return the normalized PMI, from -1 to 1: 1 for words that only occur together, at any frequency."""
    return pmi(pairs, firsts, seconds, total) / np.log(total / pairs)


SCORES = {"pmi": pmi, "npmi": npmi}


@dataclass(frozen=True)
class Rule:
    """Criteria by which a bigram becomes a phrase."""

    score: str
    threshold: float  # minimum score
    min_count: int


@dataclass(frozen=True)
class Phrase:
    words: bytes  # separated by blanks
    count: int  # adjacent occurrences of its two parts
    score: float
    found_in: int  # number of the pass


class Phrases:
    """The words of a text and the phrases found in it. Both have ids: U in total, words first."""

    def __init__(self, counts: Counts, rule: Rule) -> None:
        """Words that occur fewer than `min_count` times cannot be part of a phrase: they get no ids."""
        frequent = np.where(counts.counts >= rule.min_count, counts.counts, 0)
        self._rule = rule
        self._words, _ = ranked(counts.offsets, frequent, counts.word_bytes)
        self._counts = self._words.counts  # int64 (U,)
        self._sizes = np.ones(len(self._words), np.int32)  # (U,): number of words in each
        self._total = counts.tokens
        self._files = counts.files
        self._passes: list[PhrasePairs] = []
        self.found: list[Phrase] = []  # by id
        self.joined: list[int] = []  # number of pairs joined in the text, by pass

    def find(self, corpus: Corpus, threads: int, memory: int, progress: Progress) -> tuple[int, int]:
        """Run another pass. Return the number of phrases found, and of runs spilled to disk."""
        bigrams = BigramCounter(memory)
        try:
            stream = self._read(corpus, threads, progress)
            for run in ordered_map(_count, stream.overlapping(), threads):
                bigrams.add(run)
            self._update_counts(stream)
            selected = [self._select(run) for run in bigrams.all()]
            self._add(*(np.concatenate(arrays) for arrays in zip(*selected, strict=True)))
            return len(self._passes[-1].pairs), bigrams.spilled
        finally:
            bigrams.close()

    def write(self, corpus: Corpus, file: BinaryIO, delimiter: bytes, threads: int, progress: Progress) -> None:
        """Write the text with its phrases joined."""
        stream = self._read(corpus, threads, progress)
        writer = PhraseWriter(delimiter)
        completed = False
        for block, joined in stream.joined_words(self._sizes):
            file.writelines(writer.write(block.text, block.length, joined))
            completed = block.completed if block.length else completed
        file.write(writer.space[:-1] if completed else writer.space)  # keep a last line without newline
        self._update_counts(stream)

    def _read(self, corpus: Corpus, threads: int, progress: Progress) -> "_Stream":
        return _Stream(
            corpus, self._files, Encoder(self._words, UNKNOWN_WORD, LINE_END), self._passes, threads, progress
        )

    def _select(self, run: PairCounts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Select the pairs that are phrases. Return their keys, counts and scores."""
        run = run[run.counts >= self._rule.min_count]
        counts = self._counts[run.firsts], self._counts[run.seconds]
        scores = SCORES[self._rule.score](run.counts, *counts, self._total)
        high = scores >= self._rule.threshold
        return run.keys[high], run.counts[high], scores[high]

    def _add(self, keys: np.ndarray, counts: np.ndarray, scores: np.ndarray) -> None:
        """Assign ids to phrases. All are new: greedy joining always splits the same words in the same way."""
        pairs = PairCounts(keys, counts)
        firsts, seconds = pairs.firsts, pairs.seconds
        number = len(self._passes) + 1
        for first, second, count, score in zip(
            *(array.tolist() for array in (firsts, seconds, counts, scores)), strict=True
        ):
            self.found.append(Phrase(b"%b %b" % (self._name(first), self._name(second)), count, score, number))
        ids = np.arange(len(self._sizes), len(self._sizes) + len(pairs), dtype=np.int32)
        self._sizes = np.append(self._sizes, self._sizes[firsts] + self._sizes[seconds])
        self._counts = np.append(self._counts, np.zeros(len(pairs), np.int64))
        self._passes.append(PhrasePairs.of(pairs, ids))

    def _name(self, number: int) -> bytes:
        return self._words[number] if number < len(self._words) else self.found[number - len(self._words)].words

    def _update_counts(self, stream: "_Stream") -> None:
        """Count each pair joined by the last pass as one word."""
        if len(self.joined) == len(self._passes):
            return
        pairs, times = self._passes[-1], stream.joiners[-1].join_counts
        np.subtract.at(self._counts, pairs.pairs.firsts, times)
        np.subtract.at(self._counts, pairs.pairs.seconds, times)
        np.add.at(self._counts, pairs.joined_ids, times)
        self._total -= int(times.sum())
        self.joined.append(int(times.sum()))


class _Stream:
    """One pass over the text, as ids of words and phrases."""

    def __init__(
        self,
        corpus: Corpus,
        files: list[dict[str, Any]],
        encoder: Encoder,
        passes: list[PhrasePairs],
        threads: int,
        progress: Progress,
    ) -> None:
        """files: records of the files whose words were counted, to detect changes."""
        self._corpus = corpus
        self._files = files
        self._encoded = encoder.encode_corpus(corpus, threads)
        self._progress = progress
        self.joiners = [PhraseJoiner(pairs) for pairs in passes]

    def overlapping(self) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the ids in chunks, each with the last id of the previous chunk."""
        before = NOTHING
        for _, _, ids in self._joined():
            yield ids, before
            before = int(ids[-1]) if len(ids) else before

    def joined_words(self, sizes: np.ndarray) -> Iterator[tuple[Block, np.ndarray]]:
        """Yield the blocks of the text with a flag per word: True if it is joined to the previous word.

        The last words of a block may be joined to the next block's: a block is held until its flags are known.
        """
        waiting: deque[tuple[Block, int]] = deque()
        known = np.empty(0, np.bool_)
        for block, words, ids in self._joined():
            waiting.append((block, words))
            known = np.concatenate([known, joined_words(ids, sizes)])
            while waiting and waiting[0][1] <= len(known):
                block, words = waiting.popleft()
                yield block, known[:words]
                known = known[words:]

    def _joined(self) -> Iterator[tuple[Block, int, np.ndarray]]:
        """Yield the blocks of the text, their numbers of words, and the ids that are final so far."""
        files = FileFingerprints(self._corpus)
        for block, ids in self._encoded:
            files.add(block)
            words = int(np.count_nonzero(ids != LINE_END))
            for joiner in self.joiners:
                ids = joiner.join(ids)
            self._progress(block.read)
            yield block, words, ids
        if files.records() != self._files:
            raise NeglmError(f"{self._corpus.name} changed while it was being read; run again once it is complete")


def _count(chunk: tuple[np.ndarray, int]) -> PairCounts:
    return count_bigrams(*chunk)


def list_lines(found: list[Phrase], delimiter: bytes) -> Iterator[bytes]:
    """Yield lines of phrase, count, score and pass, separated by tabs, by descending score."""
    for phrase in sorted(found, key=lambda phrase: (-phrase.score, phrase.words)):
        name = phrase.words.replace(b" ", delimiter)
        yield b"%b\t%d\t%.4f\t%d\n" % (name, phrase.count, phrase.score, phrase.found_in)
