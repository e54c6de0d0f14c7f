import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text import fingerprint as fingerprint_module
from neglm_cli.text import source as source_module
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.count import counting
from neglm_cli.text.phrases import Phrase, Phrases, Rule, list_lines, npmi, pmi
from tests.text.making import no_progress
from tests.text.phrase_reference import Found, join_text, phrase_texts, rules
from tests.text.reference import counts as word_counts
from tests.text.reference import texts


def join_files(
    directory: Path,
    parts: list[bytes],
    rule: Rule,
    passes: int,
    delimiter: bytes,
    threads: int = 2,
    memory: int = 1 << 26,
) -> tuple[bytes, list[Found], list[int], int]:
    """Return the joined text, the phrases, the number of joins per pass, and the number of runs spilled."""
    paths = [directory / f"part{number}" for number in range(len(parts))]
    for path, text in zip(paths, parts, strict=True):
        path.write_bytes(text)
    corpus = open_corpus([str(path) for path in paths])
    with counting(corpus, threads, memory, no_progress) as counts:
        phrases = Phrases(counts, rule)
    runs = 0
    for _ in range(passes):
        runs += phrases.find(corpus, threads, memory, no_progress)[1]
    with open(directory / "joined", "w+b") as file:
        phrases.write(corpus, file, delimiter, threads, no_progress)
    found = sorted((phrase.words, phrase.count, phrase.found_in) for phrase in phrases.found)
    return (directory / "joined").read_bytes(), found, phrases.joined, runs


@given(
    parts=st.lists(phrase_texts | texts, min_size=1, max_size=3),
    rule=rules,
    passes=st.integers(1, 4),
    delimiter=st.sampled_from([b"_", b"", b"<->"]),
    compress=st.sampled_from([bytes, gzip.compress]),
    threads=st.integers(1, 3),
    block=st.integers(1, 40),
    memory=st.sampled_from([0, 300, 1 << 26]),
)
@example([b"a b c a b c x"], Rule("pmi", 0.1, 2), 2, b"_", bytes, 1, 40, 0)
@example([b"old new york city", b"new york city old new"], Rule("pmi", -9.9, 1), 3, b"_", bytes, 1, 3, 0)
def test_matches_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[bytes],
    rule: Rule,
    passes: int,
    delimiter: bytes,
    compress: Callable[[bytes], bytes],
    threads: int,
    block: int,
    memory: int,
) -> None:
    """For any blocks, with words and phrases across their boundaries, any threads and any memory."""
    assume(word_counts(*parts))
    expected, phrases = join_text(parts, rule, passes, delimiter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "BLOCK", block)
        patch.setattr(fingerprint_module, "BLOCK", block)
        written, found, joined, _ = join_files(
            tmp_path_factory.mktemp("phrases"), [*map(compress, parts)], rule, passes, delimiter, threads, memory
        )
    assert written == expected
    assert found == phrases
    before, after = word_counts(*parts).total(), word_counts(expected).total()
    assert sum(joined) == before - after or not delimiter  # without a delimiter, words may run together


def test_passes_make_longer_phrases(tmp_path: Path) -> None:
    text = b"".join(
        b"%d new york city %d\n%d new york %d\n%d city %d\n%d city %d\n" % tuple(range(8 * i, 8 * i + 8))
        for i in range(10)
    )
    rule = Rule("pmi", 0.7, 5)
    once, _, joined, _ = join_files(tmp_path, [text], rule, 1, b"_")
    assert once.startswith(b"0 new_york city 1\n2 new_york 3\n4 city 5\n")
    assert joined == [20]
    twice, found, joined, _ = join_files(tmp_path, [text], rule, 2, b"_")
    assert twice.startswith(b"0 new_york_city 1\n2 new_york 3\n4 city 5\n")
    assert found == [(b"new york", 20, 1), (b"new york city", 10, 2), (b"york city", 10, 1)]
    assert joined == [20, 10]


def test_preceding_words_affect_joining(tmp_path: Path) -> None:
    """`a b c d` is `a b` and `c d`, but after x it is `x a`, `b c` and d."""
    text = b"a b c d\nx a b c d\nx a\na b\nb c\n" * 20
    rule = Rule("pmi", 0.7, 2)
    once, *_ = join_files(tmp_path, [text], rule, 1, b"_")
    assert once.startswith(b"a_b c_d\nx_a b_c d\nx_a\n")
    written, found, _, _ = join_files(tmp_path, [text], rule, 4, b"_")
    assert (written, found) == join_text([text], rule, 4, b"_")
    assert len({words for words, _, _ in found}) == len(found) > 4


def test_pairs_that_exceed_memory(tmp_path: Path) -> None:
    text = b"\n".join(b" ".join(b"w%d" % (i * j % 97) for j in range(1, 60)) for i in range(800))
    rule = Rule("pmi", -9.0, 3)
    plenty = join_files(tmp_path, [text], rule, 2, b"_")
    assert plenty[3] == 0
    little = join_files(tmp_path, [text], rule, 2, b"_", memory=10_000)
    assert little[3] > 0
    assert little[:3] == plenty[:3]
    assert plenty[2][0] > 1_000


def test_no_word_occurs_often_enough(tmp_path: Path) -> None:
    assert join_files(tmp_path, [b"a b\nc"], Rule("pmi", -9.0, 5), 2, b"_") == (b"a b\nc", [], [0, 0], 0)


def test_a_text_that_changes_between_two_passes(workplace: Path) -> None:
    Path("text").write_bytes(b"a b a b\n" * 9)
    corpus = open_corpus(["text"])
    with counting(corpus, 1, 1 << 20, no_progress) as counts:
        phrases = Phrases(counts, Rule("pmi", 0.1, 1))
    phrases.find(corpus, 1, 1 << 20, no_progress)
    Path("text").write_bytes(b"a b a c\n" * 9)
    with pytest.raises(NeglmError, match="text changed while it was being read"):
        phrases.find(corpus, 1, 1 << 20, no_progress)
    with open("out", "wb") as file, pytest.raises(NeglmError, match="text changed while it was being read"):
        phrases.write(corpus, file, b"_", 1, no_progress)


def test_scores() -> None:
    """Words that only occur together have PMI -log p and normalized PMI 1; independent words have 0."""
    pairs, firsts, seconds = np.array([4, 1, 2]), np.array([4, 4, 8]), np.array([4, 4, 4])
    assert pmi(pairs, firsts, seconds, 16) == pytest.approx([np.log(4), 0, 0])
    assert npmi(pairs, firsts, seconds, 16) == pytest.approx([1, 0, 0])


def test_scores_of_counts_whose_product_overflows_int64() -> None:
    count = np.array([2**40])
    assert pmi(count, count, count, 2**62) == pytest.approx([22 * np.log(2)])


def test_the_list_is_sorted_by_score() -> None:
    found = [Phrase(b"b c", 5, 1.0, 1), Phrase(b"a b c", 7, 2.5, 2), Phrase(b"a b", 5, 1.0, 1)]
    assert b"".join(list_lines(found, b"-")) == b"a-b-c\t7\t2.5000\t2\na-b\t5\t1.0000\t1\nb-c\t5\t1.0000\t1\n"
