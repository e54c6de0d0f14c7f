"""The windows of segments are those of the whole text, wherever segments start."""

from pathlib import Path

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.sgns import textsource
from neglm_cli.sgns.source import Windows
from neglm_cli.sgns.textsource import encoding, words_with_vectors
from tests.sgns.making import job_of, some_text
from tests.text.making import vocabulary_of


def all_windows(source: textsource.TextSource, epoch: int, start: int = 0) -> list[tuple[int, int, list[int]]]:
    """Position, target and contexts of every window."""
    found = []
    for segment in source.segments(epoch, start):
        windows: Windows = segment.windows()
        for w, target in enumerate(windows.targets.tolist()):
            contexts = windows.contexts[windows.starts[w] : windows.starts[w + 1]]
            found.append((int(windows.positions[w]), target, contexts.tolist()))
    return found


@pytest.mark.parametrize("text", [some_text(3000), some_text(3000).replace(b"\n", b" "), b"w1 w2\n" * 500])
@pytest.mark.parametrize("size", [7, 100, 1000])
def test_segments_do_not_cut_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, size: int) -> None:
    source = job_of(text, tmp_path).source
    assert isinstance(source, textsource.TextSource)
    whole = all_windows(source, 1)
    assert len(whole) > 20
    monkeypatch.setattr(textsource, "SEGMENT", size)
    assert all_windows(source, 1) == whole


def test_from_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that start in the middle are those of the whole epoch, including contexts before them."""
    monkeypatch.setattr(textsource, "SEGMENT", 100)
    source = job_of(some_text(3000), tmp_path).source
    assert isinstance(source, textsource.TextSource)
    ends = [segment.end for segment in source.segments(0, 0)]
    assert ends[-1] == source.length
    assert len(ends) > 20
    whole = all_windows(source, 0)
    for end in ends[:-1]:
        assert [segment.end for segment in source.segments(0, end)] == [e for e in ends if e > end]
        assert all_windows(source, 0, end) == [window for window in whole if window[0] >= end]


def test_from_the_middle_with_few_remaining_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts with fewer words than a window are merged, wherever the first segment starts."""
    monkeypatch.setattr(textsource, "SEGMENT", 20)
    text = some_text(3000).replace(b"\n", b" ")
    source = job_of(text, tmp_path, sample=1e-4, window=15).source
    assert isinstance(source, textsource.TextSource)
    ends = [segment.end for segment in source.segments(0, 0)]
    assert 3 < len(ends) < 140
    whole = all_windows(source, 0)
    for end in ends[:-1]:
        assert all_windows(source, 0, end) == [window for window in whole if window[0] >= end]


def test_epochs_differ(tmp_path: Path) -> None:
    source = job_of(some_text(3000), tmp_path).source
    assert isinstance(source, textsource.TextSource)
    assert all_windows(source, 0) == all_windows(source, 0)
    assert all_windows(source, 0) != all_windows(source, 1)


def test_words_with_vectors(tmp_path: Path) -> None:
    vocabulary = vocabulary_of(b"a a a b b c <unk> <unk>\n", directory=tmp_path)
    assert list(words_with_vectors(vocabulary, 1)) == [b"a", b"b", b"c"]
    words = words_with_vectors(vocabulary, 2)
    assert list(words) == [b"a", b"b"]
    assert words.counts.tolist() == [3, 2]
    with pytest.raises(NeglmError, match="--min-count 4 leaves no words: the most frequent one occurs 3 times"):
        words_with_vectors(vocabulary, 4)


def test_encoding(tmp_path: Path) -> None:
    words = words_with_vectors(vocabulary_of(b"a a b\n", directory=tmp_path), 1)
    index, row_of = encoding(words)
    assert list(index) == [b"a", b"b", b"<unk>", b"<eos>"]
    np.testing.assert_array_equal(row_of, [0, 1, -1, -2])
