from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text.vocabulary import Vocabulary, build, merge
from neglm_cli.text.wordlist import read_counts
from tests.text.making import as_dict, vocabulary_of
from tests.text.reference import counts, sentences, texts


def expected(parts: list[bytes], min_count: int = 1, max_vocab: int | None = None) -> dict[bytes, int]:
    """Build the vocabulary in plain Python."""
    totals = counts(*parts)
    unknown = totals.pop(b"<unk>", 0)
    ends = totals.pop(b"<eos>", 0) + sum(len(sentences(text)) for text in parts)
    kept = sorted((word for word in totals if totals[word] >= min_count), key=lambda word: (-totals[word], word))
    kept = kept[: max_vocab - 2] if max_vocab else kept
    result = {word: totals[word] for word in kept}
    result[b"<unk>"] = max(1, unknown + totals.total() - sum(result.values()))
    result[b"<eos>"] = ends
    return dict(sorted(result.items(), key=lambda item: (-item[1], item[0])))


@given(
    parts=st.lists(texts, min_size=1, max_size=3),
    min_count=st.integers(1, 4),
    max_vocab=st.one_of(st.none(), st.integers(3, 8)),
)
def test_selection_and_order(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], min_count: int, max_vocab: int | None
) -> None:
    wanted = expected(parts, min_count, max_vocab)
    assume(len(wanted) > 2)
    directory = tmp_path_factory.mktemp("vocabulary")
    vocabulary = vocabulary_of(*parts, directory=directory, min_count=min_count, max_vocab=max_vocab)
    assert list(as_dict(vocabulary).items()) == list(wanted.items())
    ordinary = counts(*parts)
    assert vocabulary.distinct_words == len(ordinary)
    assert vocabulary.tokens == ordinary.total()
    assert vocabulary.unk_tokens == ordinary[b"<unk>"]
    cut = Counter({word: n for word, n in ordinary.items() if word not in wanted})
    assert (vocabulary.oov_words, vocabulary.oov_tokens) == (len(cut), cut.total())
    for i, word in enumerate(vocabulary):
        assert vocabulary.id(word) == i
        assert vocabulary[i] == word


@given(text=texts, threads=st.integers(1, 3), memory=st.sampled_from([0, 1 << 30]))
def test_the_same_text_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, threads: int, memory: int
) -> None:
    assume(counts(text))
    directory = tmp_path_factory.mktemp("same")
    vocabulary_of(text, directory=directory, threads=1).save(str(directory / "one"))
    vocabulary_of(text, directory=directory, threads=threads, memory=memory).save(str(directory / "other"))
    assert (directory / "one").read_bytes() == (directory / "other").read_bytes()


@given(
    parts=st.lists(texts.filter(lambda text: bool(counts(text))), min_size=2, max_size=3), min_count=st.integers(1, 2)
)
def test_merging_equals_counting_all_at_once(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], min_count: int
) -> None:
    """Byte for byte, through files, with min_count applied at the end."""
    wanted = expected(parts, min_count)
    assume(len(wanted) > 2)
    directory = tmp_path_factory.mktemp("merge")
    vocabulary_of(*parts, directory=directory, min_count=min_count).save(str(directory / "at-once"))
    names = []
    for number, text in enumerate(parts):
        home = directory / f"part{number}"
        home.mkdir()
        (directory / str(number)).write_bytes(text)
        name = str(home / "vocab")
        only = vocabulary_of(text, directory=home)
        (home / "0").unlink()
        for file in only.files:
            file["path"] = str(directory / str(number))
        only.save(name)
        names.append(name)
    build(merge([read_counts(name) for name in names]), min_count).save(str(directory / "merged"))
    assert (directory / "merged").read_bytes() == (directory / "at-once").read_bytes()


def test_a_cut_vocabulary_is_not_merged(workplace: Path) -> None:
    vocabulary_of(b"a a b\n", directory=workplace, min_count=2).save("cut")
    with pytest.raises(NeglmError, match="cut was cut .1 word left out."):
        read_counts("cut")


def test_unknown_and_end_of_line_are_always_included(workplace: Path) -> None:
    vocabulary = vocabulary_of(b"a\na", directory=workplace)
    assert as_dict(vocabulary) == {b"<eos>": 2, b"a": 2, b"<unk>": 1}
    assert vocabulary.unk_tokens == 0


def test_unknown_in_the_text_adds_to_the_same_word(workplace: Path) -> None:
    vocabulary = vocabulary_of(b"a a <unk> b\n", directory=workplace, min_count=2)
    assert as_dict(vocabulary) == {b"<unk>": 2, b"a": 2, b"<eos>": 1}


def test_min_count_that_leaves_nothing(workplace: Path) -> None:
    with pytest.raises(NeglmError, match="--min-count 4 leaves no words: the most frequent one occurs 3 times"):
        vocabulary_of(b"a a a b\n", directory=workplace, min_count=4)


def test_order_of_large_counts(workplace: Path) -> None:
    """Counts below and above 16 bits, with ties."""
    sizes = {b"e": 2**40, b"b": 65_536, b"a": 65_535, b"d": 65_535, b"c": 65_534, b"f": 2**40, b"g": 3}
    Path("words").write_bytes(b"".join(b"%b %d\n" % item for item in sizes.items()))
    assert list(build(read_counts("words")))[:7] == [b"e", b"f", b"b", b"a", b"d", b"c", b"g"]


def test_end_of_line_in_the_text_adds_to_the_same_word(workplace: Path) -> None:
    vocabulary = vocabulary_of(b"<eos> a <eos>\nb\n", directory=workplace)
    assert as_dict(vocabulary) == {b"<eos>": 4, b"<unk>": 1, b"a": 1, b"b": 1}
    assert vocabulary.distinct_words == 3
    assert as_dict(build(merge([vocabulary.full_counts("v")]))) == as_dict(vocabulary)


def test_total_overflow(workplace: Path) -> None:
    Path("words").write_bytes(b"a %d\n" % (2**62))
    with pytest.raises(NeglmError, match="add up to more than 9,223,372,036,854,775,807"):
        merge([read_counts("words"), read_counts("words")])


def test_inconsistent_tensors(workplace: Path) -> None:
    """With a valid checksum, as another program might write it."""
    good = vocabulary_of(b"a b\n", directory=workplace)
    for bad in (
        replace(good, counts=good.counts * 0),
        replace(good, counts=good.counts[1:]),
        replace(good, offsets=good.offsets[::-1].copy()),
        replace(good, words=good.words[1:]),
    ):
        bad.save("bad")
        with pytest.raises(NeglmError, match="bad is damaged: (tensor `counts`|`counts`|`offsets`) "):
            Vocabulary.load("bad")


def test_coverage_of_a_list_without_words(workplace: Path) -> None:
    Path("words").write_bytes(b"<eos> 5\n")
    assert build(read_counts("words")).coverage == 1


def test_saving_and_loading(workplace: Path) -> None:
    vocabulary = vocabulary_of(b"b a\nc \xff\n", directory=workplace, min_count=1, max_vocab=5)
    vocabulary.save("v")
    loaded = Vocabulary.load("v")
    assert as_dict(loaded) == as_dict(vocabulary)
    assert (loaded.min_count, loaded.max_vocab, loaded.lines, loaded.tokens) == (1, 5, 2, 4)
    assert [file["path"] for file in loaded.files] == ["0"]
    assert loaded.identity == vocabulary.identity
    assert loaded.coverage == vocabulary.coverage == pytest.approx(3 / 4)
