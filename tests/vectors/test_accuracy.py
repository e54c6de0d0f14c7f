from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.vectors.analogies import METHODS, Section, Tally, count_correct, read_sections, sum_tallies
from neglm_cli.vectors.lexicon import Lexicon
from neglm_cli.vectors.neighbors import CosineIndex
from tests.vectors.making import vectors_of

# Corners of a square, far from the origin along a third axis: parallelograms.
SQUARE = {b"man": [0, 0, 3], b"king": [1, 0, 3], b"woman": [0, 1, 3], b"queen": [1, 1, 3], b"other": [-1, -1, 3]}


def test_sections(workplace: Path) -> None:
    Path("set").write_bytes(b"a b c d\n: family\nman king woman queen\n\n:gram1 x\r\n1 2 3 4\r\n")
    sections = read_sections("set")
    assert [(s.name, s.syntactic) for s in sections] == [(b"unnamed", False), (b"family", False), (b"gram1 x", True)]
    assert [s.questions for s in sections] == [
        [(b"a", b"b", b"c", b"d")],
        [(b"man", b"king", b"woman", b"queen")],
        [(b"1", b"2", b"3", b"4")],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b": x\na b c d\na b c\n", "set, line 3: expected four words"),
        (b"a b c d e\n", "set, line 1: expected four words"),
        (b":\na b c d\n", "set, line 1: expected the name of a section"),
        (b"", "set is empty"),
        (b": x\n: y\n", "set has no questions"),
    ],
)
def test_invalid_files(workplace: Path, text: bytes, message: str) -> None:
    Path("set").write_bytes(text)
    with pytest.raises(NeglmError, match=message):
        read_sections("set")


def test_by_hand() -> None:
    vectors = vectors_of(SQUARE)
    sections = [
        Section(b"right", [(b"man", b"king", b"woman", b"queen"), (b"woman", b"queen", b"man", b"king")]),
        Section(b"gram", [(b"man", b"king", b"woman", b"other"), (b"man", b"king", b"woman", b"unknown")]),
        Section(b"none"),
        Section(b"last", [(b"king", b"man", b"queen", b"woman")]),
    ]
    words = CosineIndex.of(vectors.vectors, "")
    found = count_correct(sections, Lexicon(vectors.words), words, METHODS)
    assert found == [
        Tally(2, 2, {"add": 2, "mul": 2}),
        Tally(2, 1, {"add": 0, "mul": 0}),
        Tally(0, 0, {"add": 0, "mul": 0}),
        Tally(1, 1, {"add": 1, "mul": 1}),
    ]
    total = sum_tallies(found, METHODS)
    assert total == Tally(5, 4, {"add": 3, "mul": 3})
    assert (total.accuracy("add"), total.accuracy_all("mul")) == (0.75, 0.6)
    assert (found[2].accuracy("add"), found[2].accuracy_all("add")) == (None, None)


def test_restricted_words_are_neither_known_nor_candidates() -> None:
    """Without `decoy`, which is rare and exactly at the target, the answer is queen."""
    vectors = vectors_of(SQUARE | {b"decoy": [1, 1, 3.01]})
    vectors.vectors[3] = [1.2, 1.2, 3]
    section = Section(b"", [(b"man", b"king", b"woman", b"queen"), (b"man", b"king", b"woman", b"decoy")])
    words = CosineIndex.of(vectors.vectors, "")
    assert count_correct([section], Lexicon(vectors.words), words, ["add"]) == [Tally(2, 2, {"add": 1})]
    assert count_correct([section], Lexicon(vectors.words, 5), words, ["add"]) == [Tally(2, 1, {"add": 1})]
    all_words = count_correct([Section(b"", section.questions[:1])], Lexicon(vectors.words), words, ["add"])
    assert all_words == [Tally(1, 1, {"add": 0})]
