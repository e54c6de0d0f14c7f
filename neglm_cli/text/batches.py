"""Minibatches for truncated back-propagation: B cursors that walk B equal stretches of a corpus side by side."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.text.encoded import EncodedCorpus


class Batch(NamedTuple):
    inputs: np.ndarray  # int32 (B, T)
    targets: np.ndarray  # int32 (B, T): the word after each input


class Batches:
    """One epoch's minibatches. Row b walks words b·L to (b+1)·L, so each row goes on where it left off.

    The last minibatch is shorter than T where L is no multiple of it; the fewer than B words that are left
    at the end of the corpus are targets in no row.
    """

    def __init__(self, corpus: EncodedCorpus, rows: int, steps: int) -> None:
        self.stretch = (corpus.length - 1) // rows  # L: targets of each row
        if self.stretch < 1:
            raise NeglmError(
                f"a batch of {rows:,} rows is too large for a corpus of {corpus.length:,} words: use a smaller --batch"
            )
        self._corpus = corpus
        self._rows = rows
        self._steps = steps

    def __len__(self) -> int:
        return -(-self.stretch // self._steps)

    def start_at(self, number: int) -> Iterator[Batch]:
        """The minibatches from this number on: a run that stopped before it goes on with it."""
        done = number * self._steps
        cursors = [self._corpus.cursor(row * self.stretch + done) for row in range(self._rows)]
        last = np.stack([cursor.take(1) for cursor in cursors]) if done < self.stretch else None
        while done < self.stretch:
            steps = min(self._steps, self.stretch - done)
            targets = np.stack([cursor.take(steps) for cursor in cursors])
            assert last is not None
            yield Batch(np.hstack([last, targets[:, :-1]]), targets)
            last = targets[:, -1:]
            done += steps

    def __iter__(self) -> Iterator[Batch]:
        return self.start_at(0)
