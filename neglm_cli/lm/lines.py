"""Scoring of separate lines: each starts from a zero state, as if after an end of line.

Lines of similar length are scored as a batch. Lines of an n-best list share prefixes, each of which is read once.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.device import Scorer, State, StepOutput
from neglm_cli.text.encode import Encoder
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.word_index import WordIndex

BATCH_WORDS = 1024  # the capacity of a scorer that is large enough for efficient batches

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

    def score(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        joined = Lines.of(lines, self._end)
        return joined.split(self.score_lines(joined))

    def score_lines(self, lines: Lines) -> np.ndarray:
        """Score each token, float64 (M,)."""
        result = np.empty(len(lines.tokens))
        inputs, starts, sizes = lines.inputs, lines.starts, lines.sizes
        for group in self._groups(sizes):
            steps = np.arange(sizes[group[-1]])
            index = starts[group, None] + steps
            inside = steps < sizes[group, None]
            index[~inside] = 0  # tokens after the end of a line: their scores are discarded
            self._scorer.reset()
            width = max(self._capacity // len(group), 1)
            scores = self._score_pieces(np.where(inside, inputs[index], self._end), lines.tokens[index], width)
            result[index[inside]] = scores[inside]
        return result

    def score_text(self, lines: Lines) -> np.ndarray:
        """Score lines as one text: each starts from the state at the end of the line before, also across calls."""
        return self._score_pieces(lines.inputs[None], lines.tokens[None], self._capacity)[0]

    def _score_pieces(self, inputs: np.ndarray, targets: np.ndarray, width: int) -> np.ndarray:
        """Score (B, T) words, `width` time steps a call."""
        pieces = [slice(at, at + width) for at in range(0, inputs.shape[1], width)]
        scores = [self._scorer.score(inputs[:, at], targets[:, at], self._normalized) for at in pieces]
        return np.concatenate([part.log_probabilities for part in scores] or [np.empty(inputs.shape)], axis=1)

    def _groups(self, sizes: np.ndarray) -> Iterator[np.ndarray]:
        """Group lines of similar size, at most `capacity` tokens with padding, unless a single line is longer. The last
        line of a group is its longest."""
        order = np.argsort(sizes, kind="stable")
        first = 0
        while first < len(order):
            padded = sizes[order[first : first + self._capacity]]
            padded = padded * np.arange(1, len(padded) + 1)
            count = max(int(np.searchsorted(padded, self._capacity, side="right")), 1)
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
            (state, y), log_z = self._step(state, words)
            prefixed = [lines[i] for i in active.tolist()]
            ended = np.array([len(line) == depth for line in prefixed])
            next_word = np.array([self._end if len(line) == depth else line[depth] for line in prefixed])
            total[active] += self._scorer.target_logits(y[node], next_word) - log_z[node]
            active, node, next_word = active[~ended], node[~ended], next_word[~ended]
            pairs, node = np.unique(np.stack([node, next_word]), axis=1, return_inverse=True)
            node = node.reshape(-1)
            state, words = state.select(pairs[0]), pairs[1]
            depth += 1
        return total

    def _step(self, state: State | None, words: np.ndarray) -> tuple[StepOutput, np.ndarray]:
        """Read one word in each row, `capacity` rows a call; returns log Z of the next word, too, or zeros."""
        outputs, log_z = [], []
        for at in range(0, len(words), self._capacity):
            rows = slice(at, at + self._capacity)
            output = self._scorer.step(state and state.select(rows), words[rows])
            outputs.append(output)
            log_z.append(self._scorer.log_z(output.y) if self._normalized else np.zeros(len(output.y)))
        states, ys = zip(*outputs, strict=True)
        return StepOutput(State.concatenate(list(states)), np.concatenate(ys)), np.concatenate(log_z)
