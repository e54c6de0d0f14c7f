import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.word_index import WordIndex


def as_dict(pairs: Pairs) -> dict[tuple[bytes, bytes], int]:
    cells = zip(pairs.rows.tolist(), pairs.columns.tolist(), pairs.counts.tolist(), strict=True)
    return {(pairs.words[row], pairs.contexts[column]): count for row, column, count in cells}


def made(*cells: tuple[int, int, int]) -> Pairs:
    rows, columns, counts = np.array(cells).T
    return Pairs(
        WordIndex.of([b"a", b"b", b"c"], np.array([9, 8, 7])),
        WordIndex.of([b"u", b"v", b"w"], np.array([9, 8, 1])),
        rows,
        columns,
        counts,
    )


def test_cells_are_sorted_and_duplicates_summed() -> None:
    pairs = made((2, 1, 5), (0, 1, 1), (2, 0, 2), (0, 1, 3))
    assert pairs.rows.tolist() == [0, 2, 2]
    assert pairs.columns.tolist() == [1, 0, 1]
    assert pairs.counts.tolist() == [4, 2, 5]
    assert [str(array.dtype) for array in (pairs.rows, pairs.columns, pairs.counts)] == ["int32", "int32", "int64"]
    assert pairs.row_totals.tolist() == [4, 0, 7]
    assert pairs.column_totals.tolist() == [2, 9, 0]
    assert (len(pairs), pairs.total) == (3, 11)
    assert [pairs.count(row, column) for row in range(3) for column in range(2)] == [0, 4, 0, 0, 2, 5]


def test_totals_beyond_float64_precision() -> None:
    assert made((0, 0, 2**53), (0, 1, 1)).row_totals[0] == 2**53 + 1


def test_cut() -> None:
    pairs = made((0, 0, 3), (0, 1, 1), (1, 0, 5), (2, 1, 1), (2, 0, 1))
    assert pairs.cut(1) is pairs
    cut = pairs.cut(3)  # c and v occur twice: their pairs are dropped, and b comes first now
    assert as_dict(cut) == {(b"b", b"u"): 5, (b"a", b"u"): 3}
    assert list(cut.words) == [b"b", b"a"]
    assert cut.words.counts.tolist() == [5, 3]
    assert cut.contexts.counts.tolist() == [8]
    with pytest.raises(NeglmError, match="--min-count 10 leaves no pairs: .* occurs 5 times, .* 9 times"):
        pairs.cut(10)


def test_words_without_remaining_pairs_are_cut_too() -> None:
    """b occurs three times, but only with v and w, which occur less often."""
    cut = made((0, 0, 4), (1, 1, 2), (1, 2, 1)).cut(3)
    assert as_dict(cut) == {(b"a", b"u"): 4}
    assert list(cut.words) == [b"a"]
    assert list(cut.contexts) == [b"u"]


def test_restricted() -> None:
    pairs = made((0, 0, 3), (0, 1, 1), (1, 0, 5), (2, 1, 7))
    words = WordIndex.of([b"z", b"c", b"a"], np.array([3, 2, 1]))
    contexts = WordIndex.of([b"v", b"u"], np.array([1, 1]))
    known = pairs.restricted(words, contexts)
    assert as_dict(known) == {(b"a", b"u"): 3, (b"a", b"v"): 1, (b"c", b"v"): 7}
    assert known.rows.tolist() == [1, 2, 2]
    assert known.columns.tolist() == [0, 0, 1]
    assert known.words is words
    nothing = pairs.restricted(WordIndex.of([b"q"], np.array([1])), contexts)
    assert len(nothing) == 0
