"""Subsampling, and windows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.objective.random import SUBSAMPLE, WINDOW, stream
from neglm_cli.sgns.windows import ALWAYS, BREAK, NO_WORD, find_windows, keep_thresholds, subsample
from tests.sgns import reference

texts = st.lists(st.integers(0, 9) | st.just(BREAK), max_size=60)


@given(texts, st.integers(1, 7), st.data())
def test_windows_against_reference(words: list[int], window: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(words)))
    end = data.draw(st.integers(begin, len(words)))
    positions = [3 * i + 1 for i in range(len(words))]
    expected = list(reference.find_windows(words, positions, begin, end, window, seed=5))
    starts, contexts, targets, target_positions = find_windows(
        np.array(words, np.int32), np.array(positions), begin, end, window, stream(5, WINDOW)
    )
    found = [
        (int(targets[w]), contexts[starts[w] : starts[w + 1]].tolist(), int(target_positions[w]))
        for w in range(len(targets))
    ]
    assert found == expected


def test_window_sizes_are_uniform() -> None:
    """Uniform from 1 to the window size, as in word2vec."""
    words = np.arange(20_000, dtype=np.int32)
    starts, *_ = find_windows(words, np.arange(20_000), 5, 19_995, 5, stream(1, WINDOW))
    sizes = np.bincount(np.diff(starts) // 2, minlength=6)
    assert sizes[0] == 0
    assert abs(sizes[1:] - 3998).max() < 5 * np.sqrt(3998)


def test_keep_thresholds() -> None:
    """word2vec's (√(f/t) + 1) t/f, at most 1."""
    counts = np.array([900_000, 90_000, 9_000, 1_000])
    share = counts / counts.sum()
    expected = np.minimum((np.sqrt(share / 1e-2) + 1) * 1e-2 / share, 1)
    np.testing.assert_allclose(keep_thresholds(counts, 1e-2) / ALWAYS, expected, atol=1e-9)
    assert (keep_thresholds(counts, 0) == ALWAYS).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_subsample(share: float) -> None:
    count = 50_000
    ids = np.tile(np.array([0, 1, 2, 3], np.int32), count)
    row_of = np.array([7, NO_WORD, BREAK, 2], np.int32)
    keep = np.zeros(8, np.uint64)
    keep[7], keep[2] = int(share * ALWAYS), ALWAYS
    words, positions = np.empty(len(ids), np.int32), np.empty(len(ids), np.int64)
    kept = subsample(ids, row_of, keep, stream(1, SUBSAMPLE), 1000, words, positions)
    words, positions = words[:kept], positions[:kept]
    assert (words == BREAK).sum() == (words == 2).sum() == count
    assert abs((words == 7).sum() - share * count) <= 5 * np.sqrt(count * share * (1 - share))
    np.testing.assert_array_equal(row_of[ids[positions - 1000]], words)
    assert (np.diff(positions) > 0).all()
