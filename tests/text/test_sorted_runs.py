import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text import sorted_runs as runs_module
from neglm_cli.text.sorted_runs import SortedRuns
from neglm_cli.text.table import Scratch, WordTable
from neglm_cli.text.tokens import padded
from tests.text.reference import counts, texts


def spill_all(parts: list[bytes]) -> SortedRuns:
    runs = SortedRuns()
    for text in parts:
        table = WordTable()
        table.count_text(padded(text + b"\n"), len(text) + 1, Scratch())
        runs.spill(table)
        assert table.size == 0
    return runs


def merged(runs: SortedRuns) -> list[tuple[bytes, int]]:
    offsets, totals, word_bytes = runs.merged()
    data, ends = word_bytes.tobytes(), offsets.tolist()
    return [(data[ends[i] : ends[i + 1]], int(totals[i])) for i in range(len(totals))]


@pytest.mark.parametrize("buffer", [(1, 1), (3, 10), (1 << 16, 1 << 20)])
@given(parts=st.lists(texts, min_size=1, max_size=8))
def test_merged_counts_are_the_total_counts(buffer: tuple[int, int], parts: list[bytes]) -> None:
    """For any output buffer: words larger than it stay whole."""
    before = runs_module.MERGE_WORDS, runs_module.MERGE_BYTES
    runs_module.MERGE_WORDS, runs_module.MERGE_BYTES = buffer
    runs = spill_all(parts)
    try:
        if len(runs):
            assert merged(runs) == sorted(counts(*(text + b"\n" for text in parts)).items())
    finally:
        runs.close()
        runs_module.MERGE_WORDS, runs_module.MERGE_BYTES = before


def test_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = spill_all([b"one two", b"two three"])
    assert list(tmp_path.iterdir())
    merged(runs)
    runs.close()
    assert not list(tmp_path.iterdir())


def test_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = spill_all([b"one two"])
    table = WordTable()
    table.add_word(b"more", 1)
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(runs._runs, "_files", [full] * 3)
        with pytest.raises(NeglmError, match="No space left on device; set TMPDIR"):
            runs.spill(table)
        runs.close()
