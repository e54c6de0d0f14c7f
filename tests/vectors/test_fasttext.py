"""fastText's models: both ways, with the package itself where it is installed, and damaged files."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import exchange, fasttext
from neglm_cli.vectors.formats import ImportFormat
from neglm_cli.vectors.subwords import Subwords
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors
from tests import peers

WORDS = [b"the", b"of", "süß".encode(), b"</s>", "日本".encode(), b"a"]
UNKNOWN = [b"their", b"offen", "süßer".encode(), "日".encode(), b"x", b"z" * 300]


def some_vectors(lengths: str = "2-4", buckets: int = 50, size: int = 5) -> Vectors:
    random = np.random.default_rng(5)
    index = WordIndex.of(WORDS, np.arange(60, 0, -10))
    rows, ngrams, outputs = (
        random.standard_normal((count, size)).astype(np.float32) for count in (len(WORDS), buckets, len(WORDS))
    )
    subwords = Subwords(lengths, rows, ngrams)
    return Vectors(index, subwords.known(index), index, outputs, subwords=subwords)


def read_back(path: str) -> Vectors:
    vectors, found = exchange.import_vectors(path, None, None, None)
    assert found is ImportFormat.FASTTEXT
    return vectors


@pytest.mark.parametrize("name", ["model.bin", "model.bin.gz"])
def test_round_trip(workplace: Path, name: str) -> None:
    ours = some_vectors()
    exchange.write_fasttext(ours, name)
    back = read_back(name)
    assert list(back.words) == WORDS
    assert back.words.counts.tolist() == ours.words.counts.tolist()
    assert back.subwords is not None
    assert ours.subwords is not None
    assert back.subwords.lengths == "2-4"
    for mine, expected in (
        (back.vectors, ours.vectors),
        (back.subwords.words, ours.subwords.words),
        (back.subwords.ngrams, ours.subwords.ngrams),
        (back.context_vectors, ours.context_vectors),
    ):
        np.testing.assert_array_equal(mine, expected)


def test_vectors_without_subwords_and_contexts(workplace: Path) -> None:
    whole = some_vectors()
    plain = replace(whole, subwords=None, contexts=NO_CONTEXTS, context_vectors=np.empty((0, 5), np.float32))
    exchange.write_fasttext(plain, "model.bin")
    back = read_back("model.bin")
    assert back.subwords is None
    np.testing.assert_array_equal(back.vectors, plain.vectors)
    assert not back.context_vectors.any()


def test_the_most_frequent_words(workplace: Path) -> None:
    part = exchange.subset(some_vectors(), 2)
    assert list(part.words) == WORDS[:2]
    assert part.subwords is not None
    np.testing.assert_array_equal(part.subwords.known(part.words), part.vectors)


# fastText 0.9.3 initializes a tenth of its input matrix for each thread, and leaves the rest as it finds the memory:
# with fewer than ten threads, or values that ten does not divide, trainings may end in NaN.
SIZE, THREADS = 10, 10
DESCRIBE = """
import json, sys
import fasttext
def describe(model, unknown):
    words, counts = model.get_words(include_freq=True)
    vectors = [model.get_word_vector(word).tolist() for word in [*words, *unknown]]
    sampled = model.f.getArgs().loss.name == "ns"
    outputs = model.get_output_matrix().tolist() if sampled and not model.is_quantized() else []
    print(json.dumps([words, counts.tolist(), vectors[:len(words)], vectors[len(words):], outputs]))
"""
LOAD = DESCRIBE + "describe(fasttext.load_model('model.bin'), json.loads(sys.argv[1]))"
TRAIN = (
    DESCRIBE
    + """
unknown, supervised, settings, quantize = map(json.loads, sys.argv[1:])
train = fasttext.train_supervised if supervised else fasttext.train_unsupervised
model = train("text", **settings)
if quantize is not None:
    model.quantize(**quantize)
model.save_model("model.bin")
describe(fasttext.load_model("model.bin"), unknown)
"""
)
TEXT = "the cat sat on the mat . süß 日本 the mats\n" * 30
LABELED = "".join(f"__label__{i % 3} the cat {i % 7} sat\n" for i in range(300))


class Theirs(NamedTuple):
    """What fastText says of a model."""

    words: list[str]
    counts: list[int]
    vectors: list[list[float]]
    unknown: list[list[float]]  # vectors of UNKNOWN
    outputs: list[list[float]]  # of models with negative sampling that are not quantized


def spelled(words: list[bytes]) -> list[str]:
    return [word.decode() for word in words]


def check_unknown(vectors: Vectors, theirs: Theirs) -> None:
    assert vectors.subwords is not None
    for word, expected in zip(UNKNOWN, theirs.unknown, strict=True):
        vector = vectors.subwords.unknown(word)
        found = np.zeros(vectors.size) if vector is None else vector  # fastText has zeros for words without n-grams
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("lengths", ["3-6", "1-2", "4-4"])
def test_fasttext_reads_our_models(workplace: Path, lengths: str) -> None:
    ours = some_vectors(lengths)
    exchange.write_fasttext(ours, "model.bin")
    theirs = Theirs(*peers.result_of("fasttext", LOAD, spelled(UNKNOWN)))
    assert theirs.words == spelled(WORDS)
    np.testing.assert_allclose(ours.vectors, theirs.vectors, rtol=1e-6, atol=1e-6)
    check_unknown(ours, theirs)


def trained(quantize: dict[str, Any] | None = None, supervised: bool = False, **settings: Any) -> Theirs:
    """Write model.bin, and return what fastText says of it."""
    Path("text").write_text(LABELED if supervised else TEXT)
    given = {"dim": SIZE, "epoch": 1, "minCount": 1, "thread": THREADS, "bucket": 300, "verbose": 0} | settings
    return Theirs(*peers.result_of("fasttext", TRAIN, spelled(UNKNOWN), supervised, given, quantize))


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "skipgram"},
        {"model": "cbow", "minn": 2, "maxn": 3},
        {"model": "skipgram", "loss": "hs"},
        {"model": "skipgram", "minn": 0, "maxn": 0},
        {"model": "skipgram", "minn": 0, "maxn": 3},
        {"supervised": True},
        {"supervised": True, "minn": 2, "maxn": 4, "wordNgrams": 2, "bucket": 5000},
    ],
)
def test_we_read_models_of_fasttext(workplace: Path, settings: dict[str, Any]) -> None:
    theirs = trained(**settings)
    ours = read_back("model.bin")
    assert spelled(list(ours.words)) == theirs.words
    np.testing.assert_allclose(ours.vectors, theirs.vectors, rtol=1e-6, atol=1e-6)
    assert ours.words.counts.tolist() == theirs.counts
    if settings.get("maxn", 0 if "supervised" in settings else 6):
        check_unknown(ours, theirs)
    else:
        assert ours.subwords is None
    sampled = "loss" not in settings and "supervised" not in settings
    assert len(ours.contexts) == (len(ours.words) if sampled else 0)
    if sampled:
        np.testing.assert_allclose(ours.context_vectors, theirs.outputs, rtol=1e-6)


@pytest.mark.parametrize("qnorm", [False, True])
def test_we_read_quantized_models(workplace: Path, qnorm: bool) -> None:
    theirs = trained({"qnorm": qnorm, "dsub": 4}, supervised=True, minn=2, maxn=4, bucket=5000)
    ours = read_back("model.bin")
    np.testing.assert_allclose(ours.vectors, theirs.vectors, rtol=1e-6, atol=1e-6)
    check_unknown(ours, theirs)


def test_quantized_models_without_some_ngrams(workplace: Path) -> None:
    trained({"input": "text", "cutoff": 1000, "retrain": False}, supervised=True, minn=2, maxn=4, bucket=5000)
    with pytest.raises(NeglmError, match="without some of its n-grams, which neglm does not read: import the .bin"):
        read_back("model.bin")


def sample(workplace: Path) -> bytes:
    exchange.write_fasttext(some_vectors(buckets=3, size=2), "model.bin")
    return Path("model.bin").read_bytes()


def test_models_cut_short(workplace: Path) -> None:
    whole = sample(workplace)
    for length in range(4, len(whole)):
        Path("model.bin").write_bytes(whole[:length])
        with pytest.raises(
            NeglmError, match="^model.bin is cut short: it is not a whole fastText model; get it again$"
        ):
            read_back("model.bin")
    Path("model.bin").write_bytes(whole + b"x")
    with pytest.raises(NeglmError, match="it has bytes after its end"):
        read_back("model.bin")


HUGE = 2**31 - 1
SIZES = 4 * (2 + len(fasttext.SETTINGS)) + 8  # where the numbers of the dictionary start


@pytest.mark.parametrize(
    ("offset", "format", "value", "message"),
    [
        (4, "i", 10, "version 10, and neglm reads versions 11 and 12"),
        (8, "i", 0, "vectors of size 0"),
        (8, "i", HUGE, "vectors of size 2,147,483,647"),
        (8, "i", 3, "a matrix of 9 × 2 with vectors of size 3"),
        (8 + 4 * 8, "i", -1, "-1 buckets"),
        (8 + 4 * 8, "i", HUGE, "9 vectors for 6 words and 2,147,483,647 buckets"),
        (8 + 4 * 10, "i", 1000, "n-grams of up to 1,000 characters, and neglm reads up to 99"),
        (SIZES, "i", HUGE, "2,147,483,647 entries for 6 words and 0 labels"),
        (SIZES + 20, "q", 2**40, "is a damaged fastText model"),
        (SIZES + 20, "q", 5, "is a damaged fastText model|is cut short"),
    ],
)
def test_impossible_numbers(workplace: Path, offset: int, format: str, value: int, message: str) -> None:
    changed = bytearray(sample(workplace))
    struct.pack_into("<" + format, changed, offset, value)
    Path("model.bin").write_bytes(changed)
    with pytest.raises(NeglmError, match=message):
        read_back("model.bin")


def test_impossible_numbers_of_rows_need_no_memory(workplace: Path) -> None:
    whole = sample(workplace)
    matrix = whole.index(struct.pack("<qq", 9, 2))
    Path("model.bin").write_bytes(whole[:matrix] + struct.pack("<qq", 2**39, 2) + whole[matrix + 16 :])
    with pytest.raises(NeglmError, match="cut short"):
        read_back("model.bin")


def test_damaged_words_and_values(workplace: Path) -> None:
    whole = sample(workplace)
    for old, new, message in (
        (b"of\0", b"\0\0\0", "is empty or out of order"),
        (b"the\0", b"of\0\0", "duplicate word|is empty or out of order"),
        (b"of\0" + struct.pack("<q", 50), b"of\0" + struct.pack("<q", 2**63 - 1), "the counts of its words add up to"),
        (struct.pack("<f", some_vectors(buckets=3, size=2).subwords.ngrams[1, 1]), struct.pack("<f", np.nan), "NaN"),  # type: ignore[union-attr]
    ):
        assert old in whole
        Path("model.bin").write_bytes(whole.replace(old, new, 1))
        with pytest.raises(NeglmError, match=message):
            read_back("model.bin")


def test_options_that_a_model_does_not_need(workplace: Path) -> None:
    sample(workplace)
    for given in (("words", None), (None, "contexts")):
        with pytest.raises(NeglmError, match="is a fastText model, which includes these: leave out --"):
            exchange.import_vectors("model.bin", None, *given)
    Path("other").write_bytes(b"1 2\na 1 2\n")
    with pytest.raises(NeglmError, match="other is not a fastText model: leave out --format"):
        exchange.import_vectors("other", ImportFormat.FASTTEXT, None, None)
