"""Scoring of separate lines: each starts from a zero state, as if after an end of line.

Lines of similar length are scored as a batch. Lines of an n-best list share prefixes, each of which is read once.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from neglm_cli.lm.device import Scorer, State, StepOutput

BATCH_WORDS = 512  # the capacity of a scorer that is large enough for efficient batches

Ids = np.ndarray  # int32: the words of a line, without its end


class LineScorer:
    """Scores lines: the natural log-probability of each word and of the end of the line, float64 (words + 1,)."""

    def __init__(self, scorer: Scorer, end_of_line: int, normalized: bool = True) -> None:
        self._scorer = scorer
        self._capacity = scorer.capacity
        self._end = end_of_line
        self._normalized = normalized

    def score(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        result: list[np.ndarray] = [np.empty(0)] * len(lines)
        for group in self._groups([len(line) + 1 for line in lines]):
            for i, scores in zip(group, self._score_batch([lines[i] for i in group]), strict=True):
                result[i] = scores
        return result

    def score_text(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        """Score lines as one text: each starts from the state at the end of the line before, also across calls."""
        ends = np.cumsum([len(line) + 1 for line in lines])
        inputs, targets = (np.concatenate(parts)[None] for parts in zip(*map(self._shifted, lines), strict=True))
        return np.split(self._score_pieces(inputs, targets, self._capacity)[0], ends[:-1])

    def _score_batch(self, lines: list[Ids]) -> list[np.ndarray]:
        steps = max(map(len, lines)) + 1
        inputs = np.full((len(lines), steps), self._end, np.int32)
        targets = inputs.copy()
        for row, line in enumerate(lines):
            inputs[row, : len(line) + 1], targets[row, : len(line) + 1] = self._shifted(line)
        self._scorer.reset()
        scores = self._score_pieces(inputs, targets, max(self._capacity // len(lines), 1))
        return [scores[row, : len(line) + 1] for row, line in enumerate(lines)]

    def _score_pieces(self, inputs: np.ndarray, targets: np.ndarray, width: int) -> np.ndarray:
        """Score (B, T) words, `width` time steps a call."""
        pieces = [slice(at, at + width) for at in range(0, inputs.shape[1], width)]
        scores = [self._scorer.score(inputs[:, at], targets[:, at], self._normalized) for at in pieces]
        return np.concatenate([part.log_probabilities for part in scores], axis=1)

    def _shifted(self, line: Ids) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets."""
        end = np.array([self._end], np.int32)
        return np.concatenate([end, line]), np.concatenate([line, end])

    def _groups(self, lengths: list[int]) -> Iterator[list[int]]:
        """Group lines of similar length, at most `capacity` words with padding, unless a single line is longer."""
        group: list[int] = []
        for i in sorted(range(len(lengths)), key=lengths.__getitem__):
            if group and (len(group) + 1) * lengths[i] > self._capacity:
                yield group
                group = []
            group.append(i)
        if group:
            yield group

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
