from pathlib import Path

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.vectors.lexicon import Lexicon
from neglm_cli.vectors.neighbors import CosineIndex
from neglm_cli.vectors.similarity import RatedPairs, correlations, read_pairs
from tests.vectors.making import vectors_of


@pytest.mark.parametrize(
    "text",
    [
        b"a\tb\t1.5\nc\td\t-2\n",
        b"a b 1.5\r\nc  d -2",
        b"a,b,1.5\nc, d ,-2\n",
        b"\xef\xbb\xbf# a comment 1\n\nWord 1,Word 2,Human (mean)\na,b,1.5\n#x\nc,d,-2\n",
        b"word1\tword2\na\tb\t1.5\t7\tN\nc\td\t-2\n",
    ],
)
def test_file_formats(workplace: Path, text: bytes) -> None:
    Path("set").write_bytes(text)
    pairs = read_pairs("set")
    assert pairs.words == [(b"a", b"b"), (b"c", b"d")]
    assert pairs.scores.tolist() == [1.5, -2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a b 1\nc d\n", "set, line 2: expected two words and a score"),
        (b"a b 1\n\nc d e\n", "set, line 3: expected two words and a score"),
        (b"a 3\n", "set, line 1: expected two words and a score"),
        (b"a\t\t3\n", "set, line 1: expected two words and a score"),
        (b"a b nan\nc d nan\n", "set, line 2: expected two words and a score"),
        (b"", "set is empty"),
        (b" \n\n", "set is empty"),
        (b"# nothing\nword1 word2 score\n", "set has no pairs of words"),
    ],
)
def test_invalid_files(workplace: Path, text: bytes, message: str) -> None:
    Path("set").write_bytes(text)
    with pytest.raises(NeglmError, match=message):
        read_pairs("set")


def test_by_hand() -> None:
    """Cosines of a with b, c and d: 0.6, 0, -1; human ratings are 3, 5, 1, and 4 for an unknown pair."""
    vectors = vectors_of({b"a": [1, 0], b"b": [3, 4], b"c": [0, 9], b"d": [-1, 0]})
    words: list[tuple[bytes, ...]] = [(b"a", b"b"), (b"a", b"c"), (b"a", b"d"), (b"a", b"x")]
    result = correlations(
        RatedPairs(words, np.array([3.0, 5, 1, 4])), Lexicon(vectors.words), CosineIndex.of(vectors.vectors, "")
    )
    assert (result.pairs, result.used) == (4, 3)
    assert result.spearman == pytest.approx(0.5)  # ranks 3, 2, 1 and 2, 3, 1
    assert result.spearman_all == pytest.approx(1.5 / (4.5 * 5) ** 0.5)  # ranks 4, 2.5, 1, 2.5 and 2, 4, 1, 3
    assert result.pearson == pytest.approx(np.corrcoef([0.6, 0, -1], [3, 5, 1])[0, 1])
    assert result.pearson_all == pytest.approx(np.corrcoef([0.6, 0, -1, 0], [3, 5, 1, 4])[0, 1])


def test_restricted_words() -> None:
    vectors = vectors_of({b"a": [1, 0], b"b": [3, 4], b"c": [0, 9], b"d": [-1, 0]}, counts=[5, 1, 5, 5])
    pairs = RatedPairs([(b"a", b"b"), (b"a", b"c"), (b"c", b"d"), (b"a", b"d")], np.array([9.0, 2, 2, 1]))
    result = correlations(pairs, Lexicon(vectors.words, 3), CosineIndex.of(vectors.vectors, ""))
    assert (result.pairs, result.used) == (4, 3)
    assert result.spearman == pytest.approx(1)  # cosines 0, 0, -1


def test_all_pairs_unknown() -> None:
    vectors = vectors_of({b"a": [1, 0]})
    pairs = RatedPairs([(b"x", b"y"), (b"x", b"z")], np.array([1.0, 2]))
    result = correlations(pairs, Lexicon(vectors.words), CosineIndex.of(vectors.vectors, ""))
    assert (result.used, result.spearman, result.pearson_all) == (0, None, None)
