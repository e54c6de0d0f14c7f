"""Scoring of separate lines: each starts from a zero state, as if after an end of line.

Lines of similar length go through the network as a batch. Lines of an n-best list share prefixes, which are read once.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from neglm_cli.lm.cpu.device import CpuScorer, NextState, State

BATCH_WORDS = 512  # words that go through the network together

Ids = np.ndarray  # int32: the words of a line, without its end


class LineScorer:
    """Scores lines: the natural log-probability of each word and of the end of the line, float64 (words + 1,)."""

    def __init__(self, scorer: CpuScorer, end_of_line: int, normalized: bool = True) -> None:
        """scorer: made for BATCH_WORDS words."""
        self._scorer = scorer
        self._end = end_of_line
        self._normalized = normalized

    def score(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        result: list[np.ndarray] = [np.empty(0)] * len(lines)
        for group in _groups([len(line) + 1 for line in lines]):
            for i, scores in zip(group, self._score_together([lines[i] for i in group]), strict=True):
                result[i] = scores
        return result

    def score_text(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        """Score lines as one text: each starts from the state at the end of the line before, also across calls."""
        ends = np.cumsum([len(line) + 1 for line in lines])
        inputs, targets = (np.concatenate(parts) for parts in zip(*map(self._shifted, lines), strict=True))
        parts = [
            self._run(inputs[None, at : at + BATCH_WORDS], targets[None, at : at + BATCH_WORDS])[0]
            for at in _steps(len(inputs))
        ]
        return np.split(np.concatenate(parts), ends[:-1])

    def _score_together(self, lines: list[Ids]) -> list[np.ndarray]:
        steps = max(map(len, lines)) + 1
        inputs = np.full((len(lines), steps), self._end, np.int32)
        targets = inputs.copy()
        for row, line in enumerate(lines):
            inputs[row, : len(line) + 1], targets[row, : len(line) + 1] = self._shifted(line)
        self._scorer.reset()
        width = max(BATCH_WORDS // len(lines), 1)
        parts = [self._run(inputs[:, at : at + width], targets[:, at : at + width]) for at in range(0, steps, width)]
        scores = np.concatenate(parts, axis=1)
        return [scores[row, : len(line) + 1] for row, line in enumerate(lines)]

    def _run(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if not self._normalized:
            return self._scorer.score_unnormalized(inputs, targets)
        return self._scorer.score(inputs, targets).log_probabilities

    def _shifted(self, line: Ids) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets."""
        end = np.array([self._end], np.int32)
        return np.concatenate([end, line]), np.concatenate([line, end])

    # --- lines that share prefixes ---------------------------------------------------------------

    def score_list(self, lines: Sequence[Ids]) -> np.ndarray:
        """The log-probability of each line with its end: float64 (lines,). Shared prefixes are read once."""
        total = np.zeros(len(lines))
        scorer = self._scorer
        active = np.arange(len(lines))  # lines that have not ended
        node = np.zeros(len(lines), np.int64)  # the prefix of each that has been read: a row of `state`
        state, words = scorer.zero_state(1), np.array([self._end])
        depth = 0
        while len(active):
            state, y, log_z = self._step(state, words)
            here = [lines[i] for i in active.tolist()]
            ended = np.array([len(line) == depth for line in here])
            next_word = np.array([self._end if len(line) == depth else line[depth] for line in here])
            total[active] += scorer.scores_of(y[node], next_word) - log_z[node]
            active, node, next_word = active[~ended], node[~ended], next_word[~ended]
            pairs, node = np.unique(np.stack([node, next_word]), axis=1, return_inverse=True)
            node = node.reshape(-1)
            state, words = state.of(pairs[0]), pairs[1]
            depth += 1
        return total

    def _step(self, state: State, words: np.ndarray) -> NextState:
        """Read one word after each row of a state, BATCH_WORDS rows at a time."""
        pieces = [
            self._scorer.step(
                state.of(np.arange(at, min(at + BATCH_WORDS, len(words)))),
                words[at : at + BATCH_WORDS],
                self._normalized,
            )
            for at in _steps(len(words))
        ]
        return pieces[0] if len(pieces) == 1 else _joined(pieces)


def _joined(pieces: list[NextState]) -> NextState:
    state = type(pieces[0].state)(
        *(np.concatenate(parts, axis=1) for parts in zip(*(p.state for p in pieces), strict=True))
    )
    return NextState(state, np.concatenate([p.y for p in pieces]), np.concatenate([p.log_z for p in pieces]))


def _steps(count: int) -> range:
    return range(0, count, BATCH_WORDS)


def _groups(lengths: list[int]) -> Iterator[list[int]]:
    """Lines of similar length, at most BATCH_WORDS words with padding, unless a single line is longer."""
    group: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[i] > BATCH_WORDS:
            yield group
            group = []
        group.append(i)
    if group:
        yield group
