from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text.batches import Batches
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encoded import open_encoded
from tests.text.making import vocabulary_of


class Numbers:
    """A corpus whose n-th word has the id n."""

    def __init__(self, length: int) -> None:
        self.length = length

    def cursor(self, position: int) -> "NumberCursor":
        return NumberCursor(position, self.length)


class NumberCursor:
    def __init__(self, position: int, length: int) -> None:
        self.position, self.length = position, length

    def take(self, count: int) -> np.ndarray:
        stop = min(self.position + count, self.length)
        self.position, start = stop, self.position
        return np.arange(start, stop, dtype=np.int32)


@given(length=st.integers(2, 200), rows=st.integers(1, 10), steps=st.integers(1, 12))
def test_rows_read_equal_segments_and_targets_are_the_next_words(length: int, rows: int, steps: int) -> None:
    assume(length > rows)
    batches = Batches(Numbers(length), rows, steps)
    all_batches = list(batches)
    assert len(all_batches) == len(batches)
    inputs = np.hstack([batch.inputs for batch in all_batches])
    segment = (length - 1) // rows
    assert np.array_equal(inputs, np.arange(rows)[:, None] * segment + np.arange(segment))
    for batch in all_batches:
        assert np.array_equal(batch.targets, batch.inputs + 1)
        assert batch.inputs.dtype == np.int32
        assert batch.inputs.shape[1] <= steps
    assert all(batch.inputs.shape == (rows, steps) for batch in all_batches[:-1])


@given(length=st.integers(20, 200), rows=st.integers(1, 5), steps=st.integers(1, 12), data=st.data())
def test_starting_later_gives_the_rest(length: int, rows: int, steps: int, data: st.DataObject) -> None:
    batches = Batches(Numbers(length), rows, steps)
    number = data.draw(st.integers(0, len(batches)))
    rest, whole = list(batches.start_at(number)), list(batches)[number:]
    assert len(rest) == len(whole)
    for one, other in zip(rest, whole, strict=True):
        assert np.array_equal(one.inputs, other.inputs)
        assert np.array_equal(one.targets, other.targets)


def test_more_rows_than_words() -> None:
    with pytest.raises(NeglmError, match="batch of 10 rows is too large for a corpus of 10 words"):
        Batches(Numbers(10), 10, 5)


@pytest.mark.parametrize("cached", [True, False])
def test_on_a_real_corpus(workplace: Path, cached: bool) -> None:
    text = b"".join(b"w%d w%d\n" % (i, i + 1) for i in range(500))
    vocabulary = vocabulary_of(text, directory=workplace)
    cache = workplace / "cache" if cached else None
    encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, cache, lambda sentence: None)
    ids = encoded.cursor(0).take(encoded.length)
    targets = np.hstack([batch.targets for batch in Batches(encoded, 4, 7)])
    assert np.array_equal(targets.ravel(), ids[1 : targets.size + 1])
