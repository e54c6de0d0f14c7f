"""Character n-grams and their hashes: known values, a plain implementation, and fastText itself."""

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.ngrams import ngram_buckets, ngram_hashes
from tests import peers

WORDS = st.binary(min_size=1, max_size=12) | st.text(min_size=1, max_size=12).map(
    lambda text: text.encode(errors="replace")
)
RANGES = st.tuples(st.integers(1, 7), st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def fnv1a(data: bytes) -> int:
    hash_ = 2166136261
    for byte in data:
        signed = byte - 256 if byte > 127 else byte
        hash_ = (hash_ ^ (signed % 2**32)) * 16777619 % 2**32
    return hash_


def characters_of(word: bytes) -> list[bytes]:
    """Return the characters of a word and of the brackets around it."""
    characters: list[bytes] = []
    for byte in b"<" + word + b">":
        if byte >> 6 == 0b10:
            characters[-1] += bytes([byte])
        else:
            characters.append(bytes([byte]))
    return characters


def plain_ngrams(word: bytes, minn: int, maxn: int) -> list[bytes]:
    """Return the n-grams of a word, as the documentation defines them."""
    characters = characters_of(word)
    if word == b"</s>":
        return []
    last = len(characters)
    return [
        b"".join(characters[first : first + n])
        for first in range(last)
        for n in range(minn, maxn + 1)
        if first + n <= last and not (n == 1 and first in (0, last - 1))
    ]


def hashes_of(word: bytes, minn: int, maxn: int) -> list[int]:
    return ngram_hashes(WordIndex.of([word]), minn, maxn).ids.tolist()


def test_known_hashes() -> None:
    """FNV-1a of ASCII has published values; of other bytes, fastText's differ from them."""
    assert fnv1a(b"a") == 0xE40C292C
    assert fnv1a(b"foobar") == 0xBF9CF968
    assert hashes_of(b"foobar", 8, 8) == [fnv1a(b"<foobar>")]
    assert hashes_of("ä".encode(), 1, 1) == [0x37FA60E2]  # by fastText; the published function gives another


def test_the_ngrams_of_a_word() -> None:
    assert plain_ngrams(b"where", 3, 3) == [b"<wh", b"whe", b"her", b"ere", b"re>"]
    assert hashes_of(b"where", 3, 3) == [fnv1a(ngram) for ngram in (b"<wh", b"whe", b"her", b"ere", b"re>")]
    assert hashes_of(b"a", 3, 6) == [fnv1a(b"<a>")]
    assert hashes_of(b"a", 4, 6) == []


def test_line_end_has_no_ngrams() -> None:
    found = ngram_hashes(WordIndex.of([b"a", b"</s>", b"b"]), 3, 6)
    assert found.starts.tolist() == [0, 1, 1, 2]


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=5, unique=True), RANGES)
def test_hashes_against_a_plain_implementation(words: list[bytes], lengths: tuple[int, int]) -> None:
    """For any bytes, UTF-8 or not."""
    found = ngram_hashes(WordIndex.of(words), *lengths)
    expected = [[fnv1a(ngram) for ngram in plain_ngrams(word, *lengths)] for word in words]
    assert found.starts.tolist() == [0, *np.cumsum([len(hashes) for hashes in expected])]
    assert found.ids.tolist() == [hash_ for hashes in expected for hash_ in hashes]


SUBWORDS = """
import json, sys
import fasttext
words = json.loads(sys.argv[1])
settings = dict(minCount=1, minn=2, maxn=5, bucket=7919, dim=10, epoch=1, thread=10, verbose=0)
model = fasttext.train_unsupervised("text", **settings)
known = [model.get_word_id(word) >= 0 for word in words]
print(json.dumps([len(model.words), known, [model.get_subwords(word)[1].tolist() for word in words]]))
"""


def test_buckets_against_fasttext(workplace: Path) -> None:
    Path("text").write_text("a b </s>\n" * 50)
    random = np.random.default_rng(1)
    letters = ["a", "b", "<", ">", "ß", "日", "\U0001f600", "\u0301", "-", "Z"]
    words = ["a", "</s>", *("".join(random.choice(letters, random.integers(1, 12))) for _ in range(300))]
    rows, known, theirs = peers.result_of("fasttext", SUBWORDS, words)
    for word, is_known, expected in zip(words, known, theirs, strict=True):
        found = ngram_buckets(WordIndex.of([word.encode()]), 2, 5, 7919).ids
        assert (rows + found).tolist() == expected[is_known:]


def test_a_word_of_ten_megabytes() -> None:
    found = ngram_buckets(WordIndex.of([b"ab" * 5_000_000]), 3, 6, 1000)
    assert len(found.ids) == sum(10_000_002 - n + 1 for n in range(3, 7))
