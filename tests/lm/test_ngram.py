"""N-gram models by kenlm, over the vocabulary of a language model."""

import math
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.lines import Lines, LineScorer
from neglm_cli.lm.mixed_lines import InterpolatedLines
from neglm_cli.lm.ngram import NgramModel
from neglm_cli.text.word_index import WordIndex
from tests.lm.making import END_OF_LINE, SMALL, device

pytest.importorskip("kenlm")

ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-99\t<s>\t-0.2
-1.5\t<unk>\t0
-0.4\t</s>
-0.6\ta\t-0.3
-0.7\tb\t-0.1

\\2-grams:
-0.25\t<s> a
-0.35\ta b
-0.45\tb </s>

\\end\\
"""
WORDS = [b"<unk>", b"a", b"b", b"<eos>", b"new", b"</s>"]
EOS = WORDS.index(b"<eos>")


@pytest.fixture
def arpa(tmp_path: Path) -> str:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA)
    return str(path)


def log10(model: NgramModel, ids: list[int]) -> list[float]:
    return (model.score(np.array(ids, np.int32)) / math.log(10)).tolist()


def test_words_and_ends_of_line(arpa: str) -> None:
    model = NgramModel(arpa, WordIndex.of(WORDS))
    assert model.order == 2
    assert log10(model, [1, 2, EOS]) == pytest.approx([-0.25, -0.35, -0.45])
    assert log10(model, [2, 1, EOS]) == pytest.approx([-0.2 - 0.7, -0.1 - 0.6, -0.3 - 0.4])  # backed off, after <s>


def test_words_that_it_lacks_share_its_unknown(arpa: str) -> None:
    """<unk> itself, a new word, and one that is spelled like a boundary."""
    model = NgramModel(arpa, WordIndex.of(WORDS))
    assert model.sharing_unknown == 3
    for word in (0, 4, 5):
        model.reset()
        assert log10(model, [word]) == pytest.approx([-0.2 - 1.5 - math.log10(3)])
    total = 0.0
    for word in range(len(WORDS)):
        model.reset()
        total += 10 ** log10(model, [word])[0]
    assert total < 1.2  # this small model is not normalized itself: 10^-0.25 + 10^-0.2 (10^-1.5 + 10^-0.4 + 10^-0.7)
    assert total == pytest.approx(10**-0.25 + 10**-0.2 * (10**-1.5 + 10**-0.4 + 10**-0.7))


def test_calls_may_cut_a_text_anywhere(arpa: str) -> None:
    ids = [1, 2, EOS, 2, 2, 4, EOS, 1]
    whole, cut = NgramModel(arpa, WordIndex.of(WORDS)), NgramModel(arpa, WordIndex.of(WORDS))
    assert [value for at in ids for value in log10(cut, [at])] == log10(whole, ids)


@pytest.mark.parametrize("structure", ["probing", "trie"])
def test_binary_files(arpa: str, structure: str) -> None:
    """The same model, as `build_binary probing|trie` writes it."""
    ids = [1, 2, EOS, 2, 1, EOS, 0, 4, EOS]
    words = WordIndex.of(WORDS)
    binary = NgramModel(str(Path(__file__).with_name(f"bigrams.{structure}.bin")), words)
    assert binary.order == 2
    assert log10(binary, ids) == pytest.approx(log10(NgramModel(arpa, words), ids))


@pytest.mark.parametrize("text", ["hello\n", "", "\\data\\\nngram 1=2\n", "mmap lm http://kheafield.com/code format"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.arpa"
    path.write_text(text)
    with pytest.raises(NeglmError, match="other.arpa is no n-gram model that kenlm can read"):
        NgramModel(str(path), WordIndex.of(WORDS))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NeglmError, match="there is no such file"):
        NgramModel(str(tmp_path / "none.arpa"), WordIndex.of(WORDS))


def test_independent_lines(arpa: str) -> None:
    on_cpu = device(SMALL, len(WORDS))
    lines = [np.array(line, np.int32) for line in ([1, 2], [], [2, 4, 1])]
    plain = LineScorer(on_cpu.scorer(64), END_OF_LINE)
    ngram = NgramModel(arpa, WordIndex.of(WORDS))
    mixed = InterpolatedLines(plain, ngram, 0.4, END_OF_LINE)
    expected = []
    for line, scores in zip(lines, plain.score(lines), strict=True):
        probabilities = np.exp(NgramModel(arpa, WordIndex.of(WORDS)).score(np.append(line, END_OF_LINE)))
        expected.append(np.log(0.6 * np.exp(scores) + 0.4 * probabilities))
    joined = Lines.of(lines, END_OF_LINE)
    for found, wanted in zip(joined.split(mixed.score_lines(joined)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(mixed.score_list(lines), [scores.sum() for scores in expected], rtol=1e-6)
    on_cpu.close()
