"""Text as training sees it: stretches of a corpus, thinned out, each with its windows."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError, times
from neglm_cli.objective.random import KEEP, WINDOW, stream
from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.source import Stretch, Windows
from neglm_cli.sgns.windows import BREAK, CERTAIN, NO_WORD, find_windows, keep_table, subsample
from neglm_cli.text.encoded import EncodedCorpus
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.vocabulary import Vocabulary
from neglm_cli.text.word_index import WordIndex

STRETCH = 1 << 16  # words of the corpus, ends of line among them
EDGE = 1 << 12  # words that are looked at outside of what is trained on, for the contexts at its ends


def words_with_vectors(vocabulary: Vocabulary, min_count: int) -> WordIndex:
    """The words that get vectors: all that are frequent enough, but for `<unk>` and `<eos>`."""
    chosen = vocabulary.counts >= min_count
    special = [vocabulary.id(UNKNOWN), vocabulary.id(END_OF_LINE)]
    chosen[special] = False
    if not chosen.any():
        others = np.delete(vocabulary.counts, special)
        most = f"the most frequent one occurs {times(int(others.max()))}" if len(others) else "there are none at all"
        raise NeglmError(f"--min-count {min_count} leaves no words: {most}; lower --min-count, or train on more text")
    ids = np.flatnonzero(chosen)
    return WordIndex.of((vocabulary[i] for i in ids.tolist()), vocabulary.counts[ids])


def encoding(words: WordIndex) -> tuple[WordIndex, np.ndarray]:
    """The alphabet to encode a text with, and the row that each of its ids means: int32, NO_WORD and BREAK at the end.

    It has only the words with vectors, so what these see of a text depends on nothing else, and a run can go on
    without the vocabulary it started with.
    """
    alphabet = WordIndex.of([*words, UNKNOWN, END_OF_LINE], np.append(words.counts, [1, 1]))
    return alphabet, np.append(np.arange(len(words)), [NO_WORD, BREAK]).astype(np.int32)


class _Kept(NamedTuple):
    """What is left of a piece of the corpus."""

    end: int  # where the piece ends in the corpus
    words: np.ndarray  # int32: rows, and BREAKs
    places: np.ndarray  # int64: where in the corpus they stand

    def first(self, count: int) -> "_Kept":
        return self._replace(words=self.words[:count], places=self.places[:count])

    def last(self, count: int) -> "_Kept":
        return self._replace(words=self.words[-count:], places=self.places[-count:])


NOTHING = _Kept(0, np.empty(0, np.int32), np.empty(0, np.int64))


class TextSource:
    def __init__(self, corpus: EncodedCorpus, row_of: np.ndarray, counts: np.ndarray, settings: Settings) -> None:
        self.length = corpus.length
        self._corpus = corpus
        self._row_of = row_of
        self._keep = keep_table(counts, settings.sample)
        self._moves = self._keep / CERTAIN * counts / self.length
        self._window = settings.window
        self._seed = settings.seed

    @property
    def moves(self) -> tuple[np.ndarray, np.ndarray]:
        return self._moves, self._moves

    def stretches(self, epoch: int, start: int, stop: int | None = None) -> Iterator[Stretch]:
        """The stretches of an epoch, from the one that starts at this word to the one that ends at `stop`, or to
        the last.

        A window at the edge of a stretch has its contexts in the neighbouring one, so each takes some words of both.
        """
        window = self._window
        stop = self.length if stop is None else stop
        key = stream(self._seed, WINDOW, epoch)
        before = self._kept_before(epoch, start)
        kept = self._kept(epoch, start, stop)
        piece = next(kept, None) if start < stop else None
        while piece is not None:
            after = next(kept, None)
            around = [before.last(window), piece, after.first(window) if after else NOTHING]
            words = np.concatenate([part.words for part in around])
            places = np.concatenate([part.places for part in around])
            begin = len(around[0].words)
            find = partial(_find, words, places, begin, begin + len(piece.words), window, key)
            yield Stretch(piece.end, find)
            before, piece = piece, after if piece.end < stop else None

    def _kept_before(self, epoch: int, start: int) -> _Kept:
        """What is left of the corpus before this word, as far back as windows reach."""
        before = NOTHING
        position = start
        while position > 0 and len(before.words) < self._window:
            first = max(0, position - EDGE)
            words, places = self._thinned(epoch, self._corpus.cursor(first).take(position - first), first)
            before = _Kept(start, np.concatenate([words, before.words]), np.concatenate([places, before.places]))
            position = first
        return before

    def _thinned(self, epoch: int, ids: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
        words, places = np.empty(len(ids), np.int32), np.empty(len(ids), np.int64)
        key = stream(self._seed, KEEP, epoch)
        count = subsample(ids, self._row_of, self._keep, key, position, words, places)
        return words[:count], places[:count]

    def _kept(self, epoch: int, position: int, stop: int) -> Iterator[_Kept]:
        """The corpus piece by piece; one with too few words for a window is put together with the next, but for the
        one that ends at `stop`."""
        cursor = self._corpus.cursor(position)
        pieces: list[tuple[np.ndarray, np.ndarray]] = []
        while len(ids := cursor.take(min(STRETCH, stop - position) if position < stop else EDGE)):
            pieces.append(self._thinned(epoch, ids, position))
            position += len(ids)
            if sum(len(words) for words, _ in pieces) >= self._window or position in (stop, self.length):
                yield _Kept(position, *(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))
                pieces = []


def _find(words: np.ndarray, places: np.ndarray, begin: int, end: int, window: int, key: np.uint64) -> Windows:
    return Windows(*find_windows(words, places, begin, end, window, key))
