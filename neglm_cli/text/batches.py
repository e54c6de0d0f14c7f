"""Minibatches for truncated backpropagation through time: B cursors over B equal segments of a corpus."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.text.encoded import EncodedCorpus


class Batch(NamedTuple):
    inputs: np.ndarray  # int32 (B, T)
    targets: np.ndarray  # int32 (B, T): the word after each input


class Batches:
    """One epoch's minibatches. Row b reads the segment of words b·L to (b+1)·L, T words per minibatch.

    The last minibatch is shorter than T unless L is a multiple of it. Fewer than B words at the end of the corpus are
    not used as targets.
    """

    def __init__(self, corpus: EncodedCorpus, rows: int, steps: int) -> None:
        self.segment_length = (corpus.length - 1) // rows  # L: targets of each row
        if self.segment_length < 1:
            raise NeglmError(
                f"a batch of {rows:,} rows is too large for a corpus of {corpus.length:,} words: use a smaller --batch"
            )
        self._corpus = corpus
        self._rows = rows
        self._steps = steps

    @property
    def words(self) -> int:
        """Words predicted in an epoch."""
        return self.segment_length * self._rows

    def __len__(self) -> int:
        return -(-self.segment_length // self._steps)

    def start_at(self, number: int) -> Iterator[Batch]:
        """Yield the minibatches from this number on, to resume an epoch."""
        done = number * self._steps
        cursors = [self._corpus.cursor(row * self.segment_length + done) for row in range(self._rows)]
        last = np.stack([cursor.take(1) for cursor in cursors]) if done < self.segment_length else None
        while done < self.segment_length:
            steps = min(self._steps, self.segment_length - done)
            targets = np.stack([cursor.take(steps) for cursor in cursors])
            assert last is not None
            yield Batch(np.hstack([last, targets[:, :-1]]), targets)
            last = targets[:, -1:]
            done += steps

    def __iter__(self) -> Iterator[Batch]:
        return self.start_at(0)
