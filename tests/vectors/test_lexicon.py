import numpy as np

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.lexicon import Lexicon, all_known, lower

WORDS = WordIndex.of([b"rare", b"the", "größe".encode(), b"Cat", b"cat"], np.array([1, 9, 4, 4, 4]))


def test_restricted_to_the_most_frequent() -> None:
    lexicon = Lexicon(WORDS, max_vocab=3)
    assert lexicon.ids.tolist() == [1, 2, 3]
    assert lexicon.indices([(b"rare", b"the", b"Cat", b"cat", b"dog")]).tolist() == [[-1, 0, 2, -1, -1]]
    assert Lexicon(WORDS).ids.tolist() == [0, 1, 2, 3, 4]
    assert Lexicon(WORDS, max_vocab=99).ids.tolist() == [0, 1, 2, 3, 4]


def test_lower_case_only_for_unknown_words() -> None:
    folding, strict = Lexicon(WORDS, fold_case=True), Lexicon(WORDS)
    words = (b"Cat", b"CAT", "GRÖßE".encode(), b"Dog")
    assert folding.indices([words]).tolist() == [[3, 4, 2, -1]]
    assert strict.indices([words]).tolist() == [[3, -1, -1, -1]]
    rows: list[tuple[bytes, ...]] = [(b"The", b"cat"), (b"the", b"cat"), (b"the", b"Dog")]
    assert strict.missed_by_case(rows) == 1
    assert folding.missed_by_case(rows) == 0


def test_lower_case() -> None:
    assert lower("GRÖßE".encode()) == "größe".encode()
    assert lower(b"A\xffB") == b"a\xffb"


def test_known_rows() -> None:
    assert all_known(Lexicon(WORDS).indices([(b"the", b"cat"), (b"the", b"dog")])).tolist() == [True, False]
