import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text.bigrams import MERGING, PAIR_SIZE, Bigrams, Run, count_neighbours

LARGEST = 2**31 - 1
NOTHING = -3
ids = st.lists(st.sampled_from([-2, -1, 0, 1, 2, 3, LARGEST]), max_size=40)


def add_all(bigrams: Bigrams, pieces: list[list[int]]) -> None:
    before = NOTHING
    for piece in pieces:
        bigrams.add(count_neighbours(np.array(piece, np.int32), before))
        before = piece[-1] if piece else before


def as_pairs(runs: list[Run]) -> list[tuple[tuple[int, int], int]]:
    return [
        ((first, second), count)
        for run in runs
        for first, second, count in zip(run.firsts.tolist(), run.seconds.tolist(), run.counts.tolist(), strict=True)
    ]


@given(pieces=st.lists(ids, max_size=12), room=st.sampled_from([0, 1, 7, 1_000]))
def test_counts_are_exact_whatever_the_pieces_and_the_memory(pieces: list[list[int]], room: int) -> None:
    whole = [number for piece in pieces for number in piece]
    expected = Counter(pair for pair in pairwise(whole) if min(pair) >= 0)
    bigrams = Bigrams(room * MERGING * PAIR_SIZE)
    try:
        add_all(bigrams, pieces)
        runs = list(bigrams.all())
        assert as_pairs(runs) == sorted(expected.items())
        assert max(map(len, runs)) <= max(room, bigrams.spilled + 1)
        assert bool(bigrams.spilled) == (len(expected) > room) or room == 7  # which pieces share pairs decides
    finally:
        bigrams.close()


def test_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pieces = [[i * j % 101 for j in range(50)] for i in range(300)]
    bigrams = Bigrams(200 * MERGING * PAIR_SIZE)
    add_all(bigrams, pieces)
    assert bigrams.spilled > 10
    runs = list(bigrams.all())
    assert len(runs) > 10
    assert max(map(len, runs)) <= 200
    assert dict(as_pairs(runs)) == Counter(pairwise(number for piece in pieces for number in piece))
    assert list(tmp_path.iterdir())
    bigrams.close()
    assert not list(tmp_path.iterdir())


def test_says_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    bigrams = Bigrams(0)
    add_all(bigrams, [[1, 2, 3]])
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(bigrams, "_files", [full] * 2)
        with pytest.raises(NeglmError, match="No space left on device; set TMPDIR"):
            add_all(bigrams, [[1, 2, 3]])
        bigrams.close()
