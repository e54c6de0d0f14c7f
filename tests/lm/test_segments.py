"""A text divided into segments, one per rank, scores as a whole."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.lm.parameters import Shape
from neglm_cli.lm.scoring import Line, Segment, SkippingReader, Tally, segment_bounds
from tests.lm.making import END_OF_LINE, SMALL, counts, device

WORDS = 20


@given(
    st.lists(st.integers(0, WORDS), min_size=1, max_size=40), st.integers(1, 5), st.integers(1, 9), st.booleans()
)  # fmt: skip
def test_segments_add_up(words: list[int], parts: int, at_once: int, whole_lines: bool) -> None:
    ids = np.array(words, np.int32)
    model = device(SMALL, WORDS)
    try:

        def reader() -> SkippingReader:
            return SkippingReader(model.scorer(256), counts(WORDS), 1, END_OF_LINE)

        one = reader()
        lines: list[Line] = []
        one.read(ids, lines.append)
        tallies: list[Tally] = []
        parted: list[Line] = []
        starts = segment_bounds(len(ids), model.shape, parts)
        for first, last in pairwise(starts):
            mine = reader()
            segment = Segment(mine, first, last, END_OF_LINE if whole_lines else None)
            for at in range(0, len(ids), at_once):
                if not segment.ended:
                    segment.read(ids[at : at + at_once], parted.append if whole_lines else None)
            tallies.append(mine.tally)
        total = sum(tallies, Tally())
        assert (total.words, total.lines, total.oov) == (one.tally.words, one.tally.lines, one.tally.oov)
        assert total.log_probability == pytest.approx(one.tally.log_probability, rel=1e-5)
        assert total.log_z == pytest.approx(one.tally.log_z, rel=1e-4, abs=1e-4)
        if whole_lines:
            assert [(line.words, line.oov) for line in parted] == [(line.words, line.oov) for line in lines]
    finally:
        model.close()


def test_all_finish_at_the_same_time() -> None:
    """If reading takes most of the time, the first segment is nearly the whole text; else they are nearly equal."""
    slow, fast = Shape(10, 500, 500, 3), Shape(1_000_000, 100, 100, 1)
    assert segment_bounds(1000, slow, 2)[1] > 950
    assert segment_bounds(1000, fast, 4) == pytest.approx([0, 250, 500, 750, 1000], abs=3)
    assert segment_bounds(7, fast, 1) == [0, 7]
