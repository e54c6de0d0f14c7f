import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text.bigrams import MERGE_FACTOR, PAIR_SIZE, BigramCounter, PairCounts, count_bigrams

LARGEST = 2**31 - 1
NOTHING = -3
ids = st.lists(st.sampled_from([-2, -1, 0, 1, 2, 3, LARGEST]), max_size=40)


def add_all(bigrams: BigramCounter, chunks: list[list[int]]) -> None:
    before = NOTHING
    for chunk in chunks:
        bigrams.add(count_bigrams(np.array(chunk, np.int32), before))
        before = chunk[-1] if chunk else before


def as_pairs(runs: list[PairCounts]) -> list[tuple[tuple[int, int], int]]:
    return [
        ((first, second), count)
        for run in runs
        for first, second, count in zip(run.firsts.tolist(), run.seconds.tolist(), run.counts.tolist(), strict=True)
    ]


@given(chunks=st.lists(ids, max_size=12), capacity=st.sampled_from([0, 1, 7, 1_000]))
def test_counts_are_exact_for_any_chunks_and_memory(chunks: list[list[int]], capacity: int) -> None:
    whole = [number for chunk in chunks for number in chunk]
    expected = Counter(pair for pair in pairwise(whole) if min(pair) >= 0)
    bigrams = BigramCounter(capacity * MERGE_FACTOR * PAIR_SIZE)
    try:
        add_all(bigrams, chunks)
        runs = list(bigrams.all())
        assert as_pairs(runs) == sorted(expected.items())
        assert max(map(len, runs)) <= max(capacity, bigrams.spilled + 1)
        assert bool(bigrams.spilled) == (len(expected) > capacity) or capacity == 7  # which chunks share pairs decides
    finally:
        bigrams.close()


def test_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chunks = [[i * j % 101 for j in range(50)] for i in range(300)]
    bigrams = BigramCounter(200 * MERGE_FACTOR * PAIR_SIZE)
    add_all(bigrams, chunks)
    assert bigrams.spilled > 10
    runs = list(bigrams.all())
    assert len(runs) > 10
    assert max(map(len, runs)) <= 200
    assert dict(as_pairs(runs)) == Counter(pairwise(number for chunk in chunks for number in chunk))
    assert list(tmp_path.iterdir())
    bigrams.close()
    assert not list(tmp_path.iterdir())


def test_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    bigrams = BigramCounter(0)
    add_all(bigrams, [[1, 2, 3]])
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(bigrams._on_disk, "_files", [full] * 2)
        with pytest.raises(NeglmError, match="No space left on device; set TMPDIR"):
            add_all(bigrams, [[1, 2, 3]])
        bigrams.close()
