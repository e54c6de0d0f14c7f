"""N-gram models in ARPA files or KenLM's binary files, read by the package kenlm.

A word of the vocabulary that the n-gram model lacks is its <unk>, whose probability such words share evenly. So the
probabilities of all words of the vocabulary sum to 1 at most, and equal events are compared. The end of a line is
</s>; each line starts after <s>.
"""

import math
import os
import re
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError, shown, visible
from neglm_cli.text.tokens import END_OF_LINE
from neglm_cli.text.word_index import WordIndex

INSTALL = "pip install 'neglm[kenlm]'"
LN_10 = math.log(10)
START, END, UNKNOWN = "<s>", "</s>", "<unk>"  # of n-gram models; as words of a text, the first two are unknown


class NgramModel:
    """An n-gram model over the words of a vocabulary."""

    def __init__(self, path: str, words: WordIndex) -> None:
        self._model, self._kenlm = _load(path)
        self._end = words.id(END_OF_LINE)
        self.order = int(self._model.order)
        known = np.array([i == self._end or _knows(self._model, word) for i, word in enumerate(words)])
        self._words = [word.decode() if knows else UNKNOWN for word, knows in zip(words, known, strict=True)]
        self._words[self._end] = END
        self.sharing_unknown = int((~known).sum())  # words of the vocabulary, <unk> among them
        self._log10_share = np.where(known, 0.0, -math.log10(max(self.sharing_unknown, 1)))
        self.reset()

    def reset(self) -> None:
        """Start a new text."""
        self._state, self._next = self._kenlm.State(), self._kenlm.State()
        self._model.BeginSentenceWrite(self._state)

    def score(self, ids: np.ndarray) -> np.ndarray:
        """Return the log-probability of each of the next words of a text: float64 (N,)."""
        model, words, state, after = self._model, self._words, self._state, self._next
        found = np.empty(len(ids))
        for i, word in enumerate(ids.tolist()):
            found[i] = model.BaseScore(state, words[word], after)
            if word == self._end:
                model.BeginSentenceWrite(state)
            else:
                state, after = after, state
        self._state, self._next = state, after
        return np.asarray(LN_10 * (found + self._log10_share[ids]))


def _knows(model: Any, word: bytes) -> bool:
    try:
        return word.decode() not in (START, END) and word in model
    except UnicodeDecodeError:  # kenlm takes UTF-8
        return False


def _load(path: str) -> tuple[Any, Any]:
    try:
        import kenlm
    except ImportError as error:
        raise NeglmError(f"--interpolate needs the package kenlm: {INSTALL}") from error
    if not os.path.isfile(path):
        raise NeglmError(f"cannot read {shown(path)}: there is no such file")
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        return kenlm.Model(path, config), kenlm
    except (OSError, RuntimeError, ValueError) as error:
        reason = re.search(r"Exception\. (.+)\)$", str(error), re.DOTALL)
        raise NeglmError(
            f"{shown(path)} is no n-gram model that kenlm can read: it should be an ARPA file, or one made by KenLM's "
            f"build_binary{f' ({visible(reason[1])})' if reason else ''}"
        ) from error
