"""Scoring of separate lines: each starts from a zero state, as if after an end of line.

Lines of similar length are scored as a batch. Lines of an n-best list share prefixes, each of which is read once.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.device import Scorer
from neglm_cli.lm.openings import Opening, Openings
from neglm_cli.text.encode import Encoder
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.word_index import WordIndex

BATCH_WORDS = 4096  # the capacity of a scorer that is large enough for efficient batches

Ids = np.ndarray  # int32: the words of a line, without its end


class Lines(NamedTuple):
    """Lines in one array, each followed by its end: M tokens of n lines."""

    tokens: np.ndarray  # int32 (M,): words and ends of line; `<unk>` for OOV words
    oov: np.ndarray  # bool (M,): True for out-of-vocabulary words
    ends: np.ndarray  # int64 (n,): after the end of each line

    @classmethod
    def of(cls, lines: Sequence[Ids], end_of_line: int) -> "Lines":
        """Join lines of known words."""
        end = np.array([end_of_line], np.int32)
        tokens = np.concatenate([part for line in lines for part in (line, end)] or [end[:0]]).astype(np.int32)
        return cls(tokens, np.zeros(len(tokens), bool), np.cumsum([len(line) + 1 for line in lines], dtype=np.int64))

    @property
    def starts(self) -> np.ndarray:
        return np.concatenate([np.zeros(min(len(self.ends), 1), np.int64), self.ends[:-1]])

    @property
    def sizes(self) -> np.ndarray:
        """The number of tokens of each line: its words and its end."""
        return self.ends - self.starts

    @property
    def inputs(self) -> np.ndarray:
        """The token before each token: (M,). The first one of a line comes after an end of line, that of the line
        before it or, for the first line, of the last one, which is the same word."""
        return np.roll(self.tokens, 1)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum values of tokens (M,) over each line: (n,). Booleans are counted."""
        return np.add.reduceat(values, self.starts, dtype=np.result_type(values, np.int64))

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Split values of tokens (M,) by line."""
        return [values[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]


class LineEncoder:
    """Encodes many lines at a time. OOV words are read as `<unk>`."""

    def __init__(self, words: WordIndex) -> None:
        self._unknown, self._end_of_line = words.id(UNKNOWN), words.id(END_OF_LINE)
        self._oov, self._newline = len(words), len(words) + 1  # unlike `<unk>` and `<eos>` in the text
        self._encoder = Encoder(words, self._oov, self._newline)

    def encode(self, texts: Sequence[bytes]) -> Lines:
        """Encode lines, which contain no newlines."""
        ids = self._encoder.encode(b"\n".join([*texts, b""]))
        oov, ended = ids == self._oov, ids == self._newline
        ids[oov] = self._unknown
        ids[ended] = self._end_of_line
        return Lines(ids, oov, np.flatnonzero(ended) + 1)


class LineScorer:
    """Scores lines: the natural log-probability of each word and of the end of the line, float64 (words + 1,)."""

    def __init__(self, scorer: Scorer, end_of_line: int, normalized: bool = True) -> None:
        self._scorer = scorer
        self._capacity = scorer.capacity
        self._end = end_of_line
        self._normalized = normalized
        self._openings = Openings(scorer, end_of_line, normalized)

    def score(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        joined = Lines.of(lines, self._end)
        return joined.split(self.score_lines(joined))

    def score_lines(self, lines: Lines) -> np.ndarray:
        """Score each token, float64 (M,)."""
        result = np.empty(len(lines.tokens))
        if not len(result):
            return result
        tokens, starts, sizes = lines.tokens, lines.starts, lines.sizes
        result[starts] = self._openings.empty().score(self._scorer, np.zeros(len(starts), np.int64), tokens[starts])
        starts, sizes = starts[sizes > 1] + 1, sizes[sizes > 1] - 1
        if not len(starts):
            return result
        opening, row = self._openings.of(tokens[starts - 1])
        result[starts] = opening.score(self._scorer, row, tokens[starts])
        for group in self._groups(sizes - 1):
            self._scorer.reset(opening.state.select(row[group]))
            self._score_group(tokens, starts[group] + 1, sizes[group] - 1, result)
        return result

    def _score_group(self, tokens: np.ndarray, starts: np.ndarray, sizes: np.ndarray, result: np.ndarray) -> None:
        """Score some rows of tokens (M,), longest first, which go on from the scorer's states."""
        width = max(self._capacity // len(starts), 1)
        for first in range(0, int(sizes[0]), width):
            active = int(np.count_nonzero(sizes > first))
            left = np.minimum(sizes[:active] - first, width)
            steps = np.arange(left[0])
            inside = steps < left[:, None]
            index = np.where(inside, starts[:active, None] + first + steps, starts[:active, None])
            scores = self._scorer.score(tokens[index - 1], tokens[index], self._normalized, left)
            result[index[inside]] = scores.log_probabilities[inside]

    def score_text(self, lines: Lines) -> np.ndarray:
        """Score lines as one text: each starts from the state at the end of the line before, also across calls."""
        inputs, targets = lines.inputs[None], lines.tokens[None]
        pieces = [slice(at, at + self._capacity) for at in range(0, targets.size, self._capacity)]
        scores = [self._scorer.score(inputs[:, at], targets[:, at], self._normalized) for at in pieces]
        return np.concatenate([part.log_probabilities[0] for part in scores] or [np.empty(0)])

    def _groups(self, sizes: np.ndarray) -> Iterator[np.ndarray]:
        """Group lines of similar size, longest first, at most `capacity` tokens with padding, unless a single line is
        longer. Lines without tokens are in no group."""
        order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
        first = 0
        while first < len(order):
            count = max(self._capacity // int(sizes[order[first]]), 1)
            yield order[first : first + count]
            first += count

    # --- lines that share prefixes ---------------------------------------------------------------

    def score_list(self, lines: Sequence[Ids]) -> np.ndarray:
        """Score whole lines, with their ends: float64 (lines,). Reads each shared prefix once."""
        total = np.zeros(len(lines))
        active = np.arange(len(lines))  # lines that have not ended
        node = np.zeros(len(lines), np.int64)  # the row of `state` that has read each one's prefix
        state, words = None, np.array([self._end])
        depth = 0
        while len(active):
            prefixes = Opening.read(self._scorer, state, words, self._normalized)
            prefixed = [lines[i] for i in active.tolist()]
            ended = np.array([len(line) == depth for line in prefixed])
            next_word = np.array([self._end if len(line) == depth else line[depth] for line in prefixed])
            total[active] += prefixes.score(self._scorer, node, next_word)
            active, node, next_word = active[~ended], node[~ended], next_word[~ended]
            pairs, node = np.unique(np.stack([node, next_word]), axis=1, return_inverse=True)
            node = node.reshape(-1)
            state, words = prefixes.state.select(pairs[0]), pairs[1]
            depth += 1
        return total
