from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text import wordlist
from neglm_cli.text.vocabulary import build, merge
from tests.text.making import as_dict, vocabulary_of

TEXT = b"b a a\nc \xff <unk> <unk>\nb\n"


def test_lines_are_words_and_counts(workplace: Path) -> None:
    vocabulary = vocabulary_of(b"b a a\n", directory=workplace)
    assert b"".join(wordlist.lines(vocabulary)) == b"a\t2\n<eos>\t1\n<unk>\t1\nb\t1\n"
    assert b"".join(wordlist.lines(vocabulary, word2vec=True)) == b"</s> 1\na 2\n<unk> 1\nb 1\n"


@pytest.mark.parametrize("word2vec", [False, True])
def test_round_trip(workplace: Path, word2vec: bool) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    wordlist.save(vocabulary, "words", word2vec)
    back = build(merge([wordlist.read_counts("words")]))
    assert list(as_dict(back).items()) == list(as_dict(vocabulary).items())
    for name in ("lines", "tokens", "distinct_words"):
        assert getattr(back, name) == getattr(vocabulary, name)


def test_unk_of_a_list_is_not_counted_twice(workplace: Path) -> None:
    vocabulary = vocabulary_of(b"a b\n", directory=workplace)
    wordlist.save(vocabulary, "words")
    twice = build(merge([wordlist.read_counts("words"), wordlist.read_counts("words")]))
    assert as_dict(twice) == {b"<eos>": 2, b"a": 2, b"b": 2, b"<unk>": 1}
    assert twice.tokens == 4


def test_a_list_without_special_words(workplace: Path) -> None:
    Path("words").write_bytes(b"a 5\nb 7\n")
    assert as_dict(build(wordlist.read_counts("words"))) == {b"b": 7, b"a": 5, b"<eos>": 1, b"<unk>": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\t1\nb\n", "words, line 2: expected a word"),
        (b"a\t1\nb\t0\n", "words, line 2"),
        (b"a\t-1\n", "words, line 1"),
        (b"a\t1.5\n", "words, line 1"),
        (b"a b 3\n", "words, line 1"),
        (b"\n", "words is empty"),
        (b"a\t" + b"9" * 5_000, "words, line 1"),
        (b"a\t99999999999999999999\n", "words, line 1"),
        (b"a\t9223372036854775807\nb\t1\n", "add up to more"),
        (b"a\t1\na\t2\n", "words, line 2: duplicate word"),
        (b"<eos>\t1\n</s> 2\n", "words, line 2: duplicate word"),
        (b"", "words is empty"),
    ],
)
def test_bad_lists(workplace: Path, content: bytes, message: str) -> None:
    Path("words").write_bytes(content)
    with pytest.raises(NeglmError, match=message):
        wordlist.read_counts("words")


def test_word2vec_merges_line_ends_and_its_own_symbol(workplace: Path) -> None:
    vocabulary = vocabulary_of(b"a </s>\n</s>\n", directory=workplace)
    wordlist.save(vocabulary, "words", word2vec=True)
    assert Path("words").read_bytes() == b"</s> 4\n<unk> 1\na 1\n"
    assert as_dict(build(wordlist.read_counts("words"))) == {b"<eos>": 4, b"<unk>": 1, b"a": 1}
