"""floret's tables: hashes, the text format, and spaCy itself where it is installed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import exchange
from neglm_cli.vectors.formats import ImportFormat
from neglm_cli.vectors.ngrams import MURMUR_SEED, ngram_hashes
from neglm_cli.vectors.subwords import Subwords
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors
from tests import peers
from tests.vectors.test_ngrams import RANGES, WORDS, characters_of

VOCABULARY = [b"the", "süß".encode(), b"</s>", "日本".encode(), b"a"]
UNKNOWN = [b"their", "süßer".encode(), "日".encode(), b"x", b"abcdefghijklmnopqrstuvwxyz"]
HASHES = {  # of spaCy 3.8.18, Vectors._get_ngram_hashes
    "<a>": [2851496305, 347028722, 180717636, 2112338578],
    "<where>": [2506650753, 2266070001, 4138310927, 4221501067],
    "<日本>": [2454077840, 3466532397, 1285981570, 1234333482],
    "<abcdefghijklmnopqrstuvwxyz>": [1710540780, 4007910733, 1263196135, 1682266114],
}
M64 = 2**64 - 1


def rotated(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & M64


def mixed(x: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor & M64
    return x ^ x >> 33


def murmur(data: bytes) -> list[int]:
    """Return MurmurHash3 (x64, 128 bits) as four numbers, by its published definition."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = MURMUR_SEED
    whole = len(data) // 16 * 16
    for i in range(0, whole, 16):
        k1, k2 = (int.from_bytes(data[at : at + 8], "little") for at in (i, i + 8))
        h1 ^= rotated(k1 * c1 & M64, 31) * c2 & M64
        h1 = ((rotated(h1, 27) + h2) * 5 + 0x52DCE729) & M64
        h2 ^= rotated(k2 * c2 & M64, 33) * c1 & M64
        h2 = ((rotated(h2, 31) + h1) * 5 + 0x38495AB5) & M64
    k1, k2 = (int.from_bytes(data[at : at + 8], "little") for at in (whole, whole + 8))
    h1 ^= rotated(k1 * c1 & M64, 31) * c2 & M64
    h2 ^= rotated(k2 * c2 & M64, 33) * c1 & M64
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & M64
    h2 = (h2 + h1) & M64
    h1, h2 = mixed(h1), mixed(h2)
    h1 = (h1 + h2) & M64
    h2 = (h2 + h1) & M64
    return [h1 & 0xFFFFFFFF, h1 >> 32, h2 & 0xFFFFFFFF, h2 >> 32]


def plain_entries(word: bytes, minn: int, maxn: int) -> list[bytes]:
    characters = characters_of(word)
    last = len(characters)
    return [b"<" + word + b">"] + [
        b"".join(characters[first : first + n])
        for first in range(last)
        for n in range(minn, maxn + 1)
        if first + n <= last
    ]


def some_vectors(lengths: str = "3-5", hash_count: int = 2) -> Vectors:
    rows = np.random.default_rng(5).standard_normal((50, 7)).astype(np.float32)
    subwords, words = Subwords(lengths, rows[:0], rows, hash_count), WordIndex.of(VOCABULARY)
    return Vectors(words, subwords.known(words), NO_CONTEXTS, np.empty((0, 7), np.float32), subwords=subwords)


@pytest.mark.parametrize("word", HASHES)
def test_hashes_of_spacy(word: str) -> None:
    index = WordIndex.of([word[1:-1].encode()])
    for count in (1, 2, 3, 4):
        assert ngram_hashes(index, 99, 99, count).ids.tolist() == HASHES[word][:count]
    assert murmur(word.encode()) == HASHES[word]


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=4, unique=True), RANGES, st.integers(1, 4))
def test_hashes_against_a_plain_implementation(words: list[bytes], lengths: tuple[int, int], count: int) -> None:
    """For any bytes, UTF-8 or not."""
    found = ngram_hashes(WordIndex.of(words), *lengths, count)
    expected = [[murmur(entry)[:count] for entry in plain_entries(word, *lengths)] for word in words]
    assert found.starts.tolist() == [0, *np.cumsum([count * len(hashes) for hashes in expected])]
    assert found.ids.tolist() == [hash_ for hashes in expected for several in hashes for hash_ in several]


def test_a_word_of_ten_megabytes() -> None:
    found = ngram_hashes(WordIndex.of([b"ab" * 5_000_000]), 3, 4, 1)
    assert len(found.ids) == 1 + sum(10_000_002 - n + 1 for n in (3, 4))


def test_known_and_unknown_words_are_means_of_rows() -> None:
    vectors = some_vectors()
    assert vectors.subwords is not None
    for word, vector in zip(VOCABULARY, vectors.vectors, strict=True):
        rows = [hash_ % 50 for entry in plain_entries(word, 3, 5) for hash_ in murmur(entry)[:2]]
        np.testing.assert_allclose(vector, vectors.subwords.ngrams[rows].mean(axis=0), atol=1e-6)
        alone = vectors.subwords.unknown(word)
        assert alone is not None
        np.testing.assert_allclose(vector, alone, atol=1e-6)
    assert vectors.subwords.unknown(b"") is None


def test_the_file_keeps_the_table(workplace: Path) -> None:
    ours = some_vectors()
    ours.save("vectors")
    back = Vectors.load("vectors")
    assert back.subwords is not None
    assert ours.subwords is not None
    assert (back.subwords.hash_count, back.subwords.lengths, back.subwords.words.shape) == (2, "3-5", (0, 7))
    np.testing.assert_array_equal(back.subwords.ngrams, ours.subwords.ngrams)
    np.testing.assert_array_equal(back.vectors, ours.vectors)


def test_the_text_format(workplace: Path) -> None:
    rows = np.array([[0.5, -1], [0.1, 3e-7]], np.float32)
    subwords, words = Subwords("2-3", rows[:0], rows, 4), WordIndex.of([b"a"])
    vectors = Vectors(words, subwords.known(words), NO_CONTEXTS, np.empty((0, 2), np.float32), subwords=subwords)
    exchange.write_floret(vectors, "t.floret")
    assert Path("t.floret").read_bytes() == b"2 2 2 3 4 2166136261 < >\n0 0.5 -1\n1 0.1 3e-07\n"


def import_table(word_list: str | None = "words.txt") -> Vectors:
    vectors, found = exchange.import_vectors("t.floret", None, word_list, None)
    assert found is ImportFormat.FLORET
    return vectors


def test_round_trip(workplace: Path) -> None:
    ours = some_vectors()
    exchange.write_floret(ours, "t.floret")
    Path("words.txt").write_bytes(b"\n".join(VOCABULARY) + b"\n")
    back = import_table()
    assert list(back.words) == VOCABULARY
    np.testing.assert_array_equal(back.vectors, ours.vectors)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"2 2 3 2 1 2166136261 < >\n0 1 2\n1 1 2\n", "n-grams of 3 to 2 characters with 1 hashes"),
        (b"2 2 2 3 5 2166136261 < >\n0 1 2\n1 1 2\n", "with 5 hashes"),
        (b"2 2 2 3 1 0 < >\n0 1 2\n1 1 2\n", "with the seed 2166136261 and words between < and >"),
        (b"2 2 2 3 1 2166136261 [ ]\n0 1 2\n1 1 2\n", "with the seed 2166136261 and words between < and >"),
        (b"0 2 2 3 1 2166136261 < >\n", "0 rows of 2 dimensions"),
        (b"3 2 2 3 1 2166136261 < >\n0 1 2\n1 1 2\n", "the header says 3 words, but there are 2"),
        (b"2 2 2 3 1 2166136261 < >\n0 1 2\n5 1 2\n", "line 3: expected row 1"),
        (b"2 2 2 3 1 2166136261 < >\n0 1 2\n1 1 nan\n", "contains NaN"),
    ],
)
def test_bad_tables(workplace: Path, text: bytes, message: str) -> None:
    Path("t.floret").write_bytes(text)
    Path("words.txt").write_bytes(b"a\n")
    with pytest.raises(NeglmError, match=message):
        import_table()


def test_what_a_table_lacks(workplace: Path) -> None:
    exchange.write_floret(some_vectors(), "t.floret")
    with pytest.raises(NeglmError, match="contains no words: name a list with --word-list"):
        import_table(None)
    with pytest.raises(NeglmError, match="has no contexts: leave out --context-file"):
        exchange.import_vectors("t.floret", None, "words.txt", "others.vec")
    with pytest.raises(NeglmError, match="fastText's models have no tables of floret"):
        exchange.write_fasttext(some_vectors(), "model.bin")
    plain = Subwords("3-5", np.ones((5, 7), np.float32), np.ones((9, 7), np.float32))
    with pytest.raises(NeglmError, match="there is no table of floret: train one"):
        exchange.write_floret(Vectors(**vars(some_vectors()) | {"subwords": plain}), "other.floret")


SPACY = """
import json, sys
from pathlib import Path
from spacy.cli.init_pipeline import init_vectors_cli
import spacy
words = json.loads(sys.argv[1])
init_vectors_cli("en", Path("t.floret"), Path("package"), mode="floret", prune=-1, truncate=0, name=None, verbose=False,
    jsonl_loc=None, attr="ORTH")
vocabulary = spacy.load("package").vocab
print(json.dumps([vocabulary.get_vector(word).tolist() for word in words]))
"""


@pytest.mark.parametrize(("lengths", "count"), [("3-5", 2), ("1-2", 4), ("4-4", 1)])
def test_spacy_reads_our_tables(workplace: Path, lengths: str, count: int) -> None:
    ours = some_vectors(lengths, count)
    exchange.write_floret(ours, "t.floret")
    assert ours.subwords is not None
    words = [*VOCABULARY, *UNKNOWN]
    theirs = peers.result_of("spacy", SPACY, [word.decode() for word in words])
    expected = [ours.subwords.unknown(word) for word in words]
    np.testing.assert_allclose(np.array(theirs), np.array(expected), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.array(theirs[: len(VOCABULARY)]), ours.vectors, rtol=1e-6, atol=1e-6)
