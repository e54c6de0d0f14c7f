"""States of a language model in a text: for decoders, keyboards and beam search."""

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from neglm_cli.api.files import decode, encode
from neglm_cli.lm.device import State, StepOutput

if TYPE_CHECKING:
    from neglm_cli.lm.device import Scorer
    from neglm_cli.lm.model import LanguageModel

BATCH_STATES = 256


class Decoder:
    """Advances states of one model, several at a time. Threads take turns: the scorer's buffers are shared."""

    def __init__(self, model: "LanguageModel", scorer: "Scorer") -> None:
        self._scorer = scorer
        self._turn = Lock()
        self.model = model
        self._ids: dict[str, int] = {}  # of words looked up before

    def start(self) -> "TextState":
        return self._states(None, [self.model.end_of_line])[0]

    def advance(self, states: Sequence["TextState"], words: Sequence[str]) -> list["TextState"]:
        if isinstance(words, str):
            raise TypeError(f"words must be a list of words, one for each state, not the string {words!r}")
        if len(states) != len(words):
            raise ValueError(f"{len(states)} states and {len(words)} words: each state is advanced by one word")
        if any(state._decoder.model is not self.model for state in states):
            raise ValueError("a state belongs to another model: only the model it came from can advance it")
        found: list[TextState] = []
        for first in range(0, len(states), self._scorer.capacity):
            part = slice(first, first + self._scorer.capacity)
            found += self._states(State.concatenate([state._state for state in states[part]]), self.ids(words[part]))
        return found

    def ids(self, words: Sequence[str]) -> list[int]:
        return [self.id(word) for word in words]

    def id(self, word: str) -> int:
        """Return the id of a word; of `<unk>` if it is out of the vocabulary."""
        if word not in self._ids:
            if not isinstance(word, str):
                raise TypeError(f"{word!r} is not a word: words are strings")
            if encode(word).split() != [encode(word)]:
                raise ValueError(f"{word!r} is not a single word")
            found = self.model.words.id(encode(word))
            self._ids[word] = self.model.unknown if found < 0 else found
        return self._ids[word]

    def word(self, id_: int) -> str:
        return decode(self.model.words[id_])

    def logit(self, y: np.ndarray, word: str) -> float:
        """Return the logit of a word from y (1, ·)."""
        target = np.array([self.id(word)])
        with self._turn:
            return float(self._scorer.target_logits(y, target)[0])

    def logits(self, y: np.ndarray) -> np.ndarray:
        """Return the logits of all words from y (1, ·): (V,)."""
        with self._turn:
            return np.asarray(self._scorer.logits(y)[0])

    def _states(self, state: State | None, ids: list[int]) -> list["TextState"]:
        with self._turn:
            output = self._scorer.step(state, np.array(ids))
        return [TextState(self, output, row) for row in range(len(ids))]


class TextState:
    """The state of a language model after some words of a line.

        state = model.start().advance("the").advance("stock")
        state.top(3), state.score("market")

    It never changes: `advance` returns another one. States can be kept, compared, and used by several threads, which
    take turns. A state belongs to the model it came from, in the same process.
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

    def __reduce__(self) -> NoReturn:
        raise TypeError("states cannot be pickled: keep their words, and advance from model.start() again")

    def __eq__(self, other: object) -> bool:
        """Compare hidden and cell states, which decide what a state predicts."""
        if not isinstance(other, TextState):
            return NotImplemented
        same = self._decoder.model is other._decoder.model
        return same and all(map(np.array_equal, self._state, other._state))

    def __hash__(self) -> int:
        return hash(self._state.h.tobytes())

    def advance(self, word: str) -> "TextState":
        """Return the state after another word; `<eos>` ends the line. A word that is not in the vocabulary is read as
        `<unk>`. To advance many states, `LanguageModel.advance` is faster."""
        return self._decoder.advance([self], [word])[0]

    def score(self, word: str, normalized: bool = True) -> float:
        """Return the natural log-probability of the next word. normalized: if False, its logit, which training has
        driven towards that, and which takes a fraction of the time."""
        logit = self._decoder.logit(self._y, word)
        return logit - self._log_z if normalized else logit

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n most likely next words, each with its natural log-probability."""
        logits = self._decoder.logits(self._y)
        self._log_z = _log_sum_exp(logits)
        best = np.argpartition(-logits, min(n, len(logits)) - 1)[:n] if n > 0 else np.zeros(0, np.int64)
        best = best[np.lexsort((best, -logits[best]))]  # ties by id
        return [(self._decoder.word(int(id_)), float(logits[id_] - self._log_z)) for id_ in best]

    @cached_property
    def _log_z(self) -> float:
        return _log_sum_exp(self._decoder.logits(self._y))  # `Scorer.log_z` is for many rows


def _log_sum_exp(logits: np.ndarray) -> float:
    top = logits.max()
    return float(top + np.log(np.exp(logits - top).sum(dtype=np.float64)))
