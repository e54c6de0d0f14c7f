"""Lines that stand alone: each is read from its beginning with no state, as if an end of line had been before it.

Lines go through the network side by side, those of similar length together. N-best lists have much in common from
their beginnings on: there, what several lines begin with is read once.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from neglm_cli.lm.cpu.device import CpuScorer, Followed, State

ROOM = 512  # words that go through the network together

Ids = np.ndarray  # int32: the words of a line, without its end


class LineScorer:
    """Gives the log-probability of each word of a line and of its end: float64 (words + 1,), natural logarithms."""

    def __init__(self, scorer: CpuScorer, end_of_line: int, normalised: bool = True) -> None:
        """scorer: with room for ROOM words."""
        self._scorer = scorer
        self._end = end_of_line
        self._normalised = normalised

    def score(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        result: list[np.ndarray] = [np.empty(0)] * len(lines)
        for group in _groups([len(line) + 1 for line in lines]):
            for i, scores in zip(group, self._score_together([lines[i] for i in group]), strict=True):
                result[i] = scores
        return result

    def score_text(self, lines: Sequence[Ids]) -> list[np.ndarray]:
        """The same for lines that go on where the one before ended; and so do calls."""
        ends = np.cumsum([len(line) + 1 for line in lines])
        inputs, targets = (np.concatenate(parts) for parts in zip(*map(self._shifted, lines), strict=True))
        parts = [
            self._run(inputs[None, at : at + ROOM], targets[None, at : at + ROOM])[0] for at in _steps(len(inputs))
        ]
        return np.split(np.concatenate(parts), ends[:-1])

    def _score_together(self, lines: list[Ids]) -> list[np.ndarray]:
        steps = max(map(len, lines)) + 1
        inputs = np.full((len(lines), steps), self._end, np.int32)
        targets = inputs.copy()
        for row, line in enumerate(lines):
            inputs[row, : len(line) + 1], targets[row, : len(line) + 1] = self._shifted(line)
        self._scorer.forget()
        width = max(ROOM // len(lines), 1)
        parts = [self._run(inputs[:, at : at + width], targets[:, at : at + width]) for at in range(0, steps, width)]
        scores = np.concatenate(parts, axis=1)
        return [scores[row, : len(line) + 1] for row, line in enumerate(lines)]

    def _run(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if not self._normalised:
            return self._scorer.score_as_it_is(inputs, targets)
        return self._scorer.score(inputs, targets).log_probabilities

    def _shifted(self, line: Ids) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets."""
        end = np.array([self._end], np.int32)
        return np.concatenate([end, line]), np.concatenate([line, end])

    # --- lines with the same beginnings ---------------------------------------------------------------

    def score_list(self, lines: Sequence[Ids]) -> np.ndarray:
        """The log-probability of each line with its end: float64 (lines,). Equal beginnings are read once."""
        total = np.zeros(len(lines))
        scorer = self._scorer
        active = np.arange(len(lines))  # lines that are not at their end
        node = np.zeros(len(lines), np.int64)  # what each has been read as far as: a row of `state`
        state, words = scorer.no_state(1), np.array([self._end])
        depth = 0
        while len(active):
            state, y, log_z = self._follow(state, words)
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

    def _follow(self, state: State, words: np.ndarray) -> Followed:
        """Some rows at a time, as many as there is room for."""
        pieces = [
            self._scorer.follow(
                state.of(np.arange(at, min(at + ROOM, len(words)))), words[at : at + ROOM], self._normalised
            )
            for at in _steps(len(words))
        ]
        return pieces[0] if len(pieces) == 1 else _joined(pieces)


def _joined(pieces: list[Followed]) -> Followed:
    state = type(pieces[0].state)(
        *(np.concatenate(parts, axis=1) for parts in zip(*(p.state for p in pieces), strict=True))
    )
    return Followed(state, np.concatenate([p.y for p in pieces]), np.concatenate([p.log_z for p in pieces]))


def _steps(count: int) -> range:
    return range(0, count, ROOM)


def _groups(lengths: list[int]) -> Iterator[list[int]]:
    """Lines of similar length, in all no more than ROOM words with what fills them up, unless a line is longer."""
    group: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[i] > ROOM:
            yield group
            group = []
        group.append(i)
    if group:
        yield group
