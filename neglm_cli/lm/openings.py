"""Openings of lines: an end of line and a first word. Lines share them, so each is read and normalized once."""

from typing import NamedTuple

import numpy as np

from neglm_cli.lm.device import Scorer, State

MAX_OPENINGS = 4096  # kept at a time


class Opening(NamedTuple):
    """States after some words, one row each, and what predicts the next word from them."""

    state: State
    y: np.ndarray  # (rows, ·)
    log_z: np.ndarray  # float64 (rows,); zeros if scores are not normalized

    @classmethod
    def read(cls, scorer: Scorer, state: State | None, words: np.ndarray, normalized: bool) -> "Opening":
        """Read one word in each row, `capacity` rows a call."""
        parts = []
        for at in range(0, len(words), scorer.capacity):
            rows = slice(at, at + scorer.capacity)
            read, y = scorer.step(state and state.select(rows), words[rows])
            parts.append(cls(read, y, scorer.log_z(y) if normalized else np.zeros(len(y))))
        return cls.concatenate(parts)

    @classmethod
    def concatenate(cls, parts: "list[Opening]") -> "Opening":
        states, ys, log_zs = zip(*parts, strict=True)
        return cls(State.concatenate(list(states)), np.concatenate(ys), np.concatenate(log_zs))

    def score(self, scorer: Scorer, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the log-probability of words[i] after row rows[i]: float64."""
        return scorer.target_logits(self.y[rows], words) - self.log_z[rows]


class Openings:
    """The openings that a scorer has read so far."""

    def __init__(self, scorer: Scorer, end_of_line: int, normalized: bool) -> None:
        self._scorer, self._normalized = scorer, normalized
        self._end = np.array([end_of_line])
        self._empty: Opening | None = None
        self._known: Opening | None = None
        self._rows: dict[int, int] = {}  # of first words in _known

    def empty(self) -> Opening:
        """Return the opening without a word: a single row."""
        if self._empty is None:
            self._empty = Opening.read(self._scorer, None, self._end, self._normalized)
        return self._empty

    def of(self, words: np.ndarray) -> tuple[Opening, np.ndarray]:
        """Return openings, and the row of each first word (n,)."""
        distinct, index = np.unique(words, return_inverse=True)
        new = [word for word in distinct.tolist() if word not in self._rows]
        if len(self._rows) + len(new) > MAX_OPENINGS:
            self._known, self._rows, new = None, {}, distinct.tolist()
        if new or self._known is None:
            start = self.empty().state.select(np.zeros(len(new), np.int64))
            read = Opening.read(self._scorer, start, np.array(new), self._normalized)
            self._known = read if self._known is None else Opening.concatenate([self._known, read])
            self._rows |= {word: len(self._rows) + i for i, word in enumerate(new)}
        return self._known, np.array([self._rows[word] for word in distinct.tolist()])[index.reshape(-1)]
