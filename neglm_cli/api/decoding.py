"""States of a language model in a text: for decoders, keyboards and beam search."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.api.files import decode, encode
from neglm_cli.lm.device import State, StepOutput

if TYPE_CHECKING:
    from neglm_cli.lm.device import Scorer
    from neglm_cli.lm.model import LanguageModel

BATCH_STATES = 256


class Decoder:
    """Advances states of one model, several at a time."""

    def __init__(self, model: "LanguageModel", scorer: "Scorer") -> None:
        self.scorer = scorer
        self._model = model
        self._ids: dict[str, int] = {}  # of words looked up before

    def start(self) -> "TextState":
        return self._states(None, [self._model.end_of_line])[0]

    def advance(self, states: Sequence["TextState"], words: Sequence[str]) -> list["TextState"]:
        if len(states) != len(words):
            raise ValueError(f"{len(states)} states and {len(words)} words: each state is advanced by one word")
        found: list[TextState] = []
        for first in range(0, len(states), self.scorer.capacity):
            part = slice(first, first + self.scorer.capacity)
            found += self._states(State.concatenate([state._state for state in states[part]]), self.ids(words[part]))
        return found

    def ids(self, words: Sequence[str]) -> list[int]:
        return [self.id(word) for word in words]

    def id(self, word: str) -> int:
        """Return the id of a word; of `<unk>` if it is out of the vocabulary."""
        if word not in self._ids:
            if encode(word).split() != [encode(word)]:
                raise ValueError(f"{word!r} is not a single word")
            found = self._model.words.id(encode(word))
            self._ids[word] = self._model.unknown if found < 0 else found
        return self._ids[word]

    def word(self, id_: int) -> str:
        return decode(self._model.words[id_])

    def _states(self, state: State | None, ids: list[int]) -> list["TextState"]:
        output = self.scorer.step(state, np.array(ids))
        return [TextState(self, output, row) for row in range(len(ids))]


class TextState:
    """The state of a language model after some words of a line. It never changes: `advance` returns another one, so
    that states can be kept, shared and compared with what follows them.

        state = model.start().advance("the").advance("stock")
        state.top(3), state.score("market")
    """

    def __init__(self, decoder: Decoder, output: StepOutput, row: int) -> None:
        self._decoder = decoder
        row_state = output.state.select(slice(row, row + 1))
        self._state = State(row_state.h.copy(), row_state.c.copy())  # views would keep the whole batch in memory
        self._y = output.y[row : row + 1].copy()
        for array in (*self._state, self._y):
            array.flags.writeable = False

    def __copy__(self) -> "TextState":
        return self  # it never changes

    def __deepcopy__(self, memo: dict[int, object]) -> "TextState":
        return self

    def advance(self, word: str) -> "TextState":
        """Return the state after another word; `<eos>` ends the line. A word that is not in the vocabulary is read as
        `<unk>`. To advance many states, `LanguageModel.advance` is faster."""
        return self._decoder.advance([self], [word])[0]

    def score(self, word: str, normalized: bool = True) -> float:
        """Return the natural log-probability of the next word. normalized: if False, its logit, which training has
        driven towards that, and which takes a fraction of the time."""
        logit = self._decoder.scorer.target_logits(self._y, np.array([self._decoder.id(word)]))[0]
        return float(logit - self._log_z) if normalized else float(logit)

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n most likely next words, each with its natural log-probability."""
        logits = self._logits()
        self._log_z = _log_sum_exp(logits)
        best = np.argpartition(-logits, min(n, len(logits)) - 1)[:n] if n > 0 else np.zeros(0, np.int64)
        best = best[np.lexsort((best, -logits[best]))]  # ties by id
        return [(self._decoder.word(int(id_)), float(logits[id_] - self._log_z)) for id_ in best]

    def _logits(self) -> np.ndarray:
        return np.asarray(self._decoder.scorer.logits(self._y)[0])

    @cached_property
    def _log_z(self) -> float:
        return _log_sum_exp(self._logits())  # `Scorer.log_z` is for many rows


def _log_sum_exp(logits: np.ndarray) -> float:
    top = logits.max()
    return float(top + np.log(np.exp(logits - top).sum(dtype=np.float64)))
