"""Text as training data: segments of a subsampled corpus, and their windows."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError, times
from neglm_cli.objective.random import SUBSAMPLE, WINDOW, stream
from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.source import Segment
from neglm_cli.sgns.windows import ALWAYS, BREAK, NO_WORD, find_windows, keep_thresholds, subsample
from neglm_cli.text.encoded import EncodedCorpus
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.vocabulary import Vocabulary
from neglm_cli.text.word_index import WordIndex

SEGMENT = 1 << 16  # words of the corpus, including line ends
EDGE = 1 << 12  # words read at a time outside the trained range, for contexts at its edges


def words_with_vectors(vocabulary: Vocabulary, min_count: int) -> WordIndex:
    """Return the words that get vectors: those with at least `min_count` occurrences, except `<unk>` and `<eos>`."""
    chosen = vocabulary.counts >= min_count
    special = [vocabulary.id(word) for word in (UNKNOWN, END_OF_LINE)]
    chosen[special] = False
    if not chosen.any():
        others = np.delete(vocabulary.counts, special)
        most = f"the most frequent one occurs {times(int(others.max()))}" if len(others) else "the text has none"
        raise NeglmError(f"--min-count {min_count} leaves no words: {most}; lower --min-count, or train on more text")
    ids = np.flatnonzero(chosen)
    return WordIndex.of((vocabulary[i] for i in ids.tolist()), vocabulary.counts[ids])


def encoding(words: WordIndex) -> tuple[WordIndex, np.ndarray]:
    """Return the word index to encode a text with, and the row of each id: int32, NO_WORD and BREAK last.

    Only words with vectors are included, so the encoded text does not depend on other words, and a run can be resumed
    without its vocabulary.
    """
    index = WordIndex.of([*words, UNKNOWN, END_OF_LINE], np.append(words.counts, [1, 1]))
    return index, np.append(np.arange(len(words)), [NO_WORD, BREAK]).astype(np.int32)


class _Sample(NamedTuple):
    """The words of a part of the corpus, after subsampling."""

    end: int  # end of the part in the corpus
    words: np.ndarray  # int32: rows, and BREAKs
    positions: np.ndarray  # int64: in the corpus

    def first(self, count: int) -> "_Sample":
        return self._replace(words=self.words[:count], positions=self.positions[:count])

    def last(self, count: int) -> "_Sample":
        return self._replace(words=self.words[-count:], positions=self.positions[-count:])


EMPTY = _Sample(0, np.empty(0, np.int32), np.empty(0, np.int64))


class TextSource:
    """Windows of an encoded corpus. counts: of the words with vectors."""

    def __init__(self, corpus: EncodedCorpus, row_of: np.ndarray, counts: np.ndarray, settings: Settings) -> None:
        self.length = corpus.length
        self._corpus = corpus
        self._row_of = row_of
        self._keep = keep_thresholds(counts, settings.sample)
        self._update_frequencies = self._keep / ALWAYS * counts / self.length
        self._window = settings.window
        self._seed = settings.seed

    @property
    def update_frequencies(self) -> tuple[np.ndarray, np.ndarray]:
        return self._update_frequencies, self._update_frequencies

    def segments(self, epoch: int, start: int, stop: int | None = None) -> Iterator[Segment]:
        """Yield the segments of an epoch from position `start` to `stop`, or to the end.

        Windows at the edges of a segment have contexts in adjacent segments, so each segment overlaps with both.
        """
        window = self._window
        stop = self.length if stop is None else stop
        key = stream(self._seed, WINDOW, epoch)
        before = self._sample_before(epoch, start)
        samples = self._samples(epoch, start, stop)
        sample = next(samples, None) if start < stop else None
        while sample is not None:
            after = next(samples, None)
            parts = [before.last(window), sample, after.first(window) if after else EMPTY]
            words = np.concatenate([part.words for part in parts])
            positions = np.concatenate([part.positions for part in parts])
            begin = len(parts[0].words)
            find = partial(find_windows, words, positions, begin, begin + len(sample.words), window, key)
            yield Segment(sample.end, find)
            before, sample = sample, after if sample.end < stop else None

    def _sample_before(self, epoch: int, start: int) -> _Sample:
        """Return the words before position `start`: at least a window of them, if there are as many."""
        before = EMPTY
        position = start
        while position > 0 and len(before.words) < self._window:
            first = max(0, position - EDGE)
            words, positions = self._subsample(epoch, self._corpus.cursor(first).take(position - first), first)
            before = _Sample(
                start, np.concatenate([words, before.words]), np.concatenate([positions, before.positions])
            )  # fmt: skip
            position = first
        return before

    def _subsample(self, epoch: int, ids: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
        words, positions = np.empty(len(ids), np.int32), np.empty(len(ids), np.int64)
        key = stream(self._seed, SUBSAMPLE, epoch)
        count = subsample(ids, self._row_of, self._keep, key, first, words, positions)
        return words[:count], positions[:count]

    def _samples(self, epoch: int, position: int, stop: int) -> Iterator[_Sample]:
        """Subsample the corpus part by part. A part with fewer words than a window is merged with the next one, except
        at `stop`."""
        cursor = self._corpus.cursor(position)
        parts: list[tuple[np.ndarray, np.ndarray]] = []
        while len(ids := cursor.take(min(SEGMENT, stop - position) if position < stop else EDGE)):
            parts.append(self._subsample(epoch, ids, position))
            position += len(ids)
            if sum(len(words) for words, _ in parts) >= self._window or position in (stop, self.length):
                yield _Sample(position, *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
                parts = []
