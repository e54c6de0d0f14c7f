"""Subwords on the command line and in Python: training, unknown words, other tools' files, bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

import neglm_cli
from neglm_cli.vectors.vectors import Vectors
from tests.conftest import Neglm, one_sentence
from tests.sgns.making import some_text

TINY = ("--size", "8", "--min-count", "1", "--epochs", "1", "--threads", "1", "--no-cache", "--quiet")


@pytest.fixture
def vectors(neglm: Neglm, workplace: Path) -> Vectors:
    Path("corpus.txt").write_bytes(some_text(3000))
    neglm("embed", "corpus.txt", *TINY, "--subwords", "2-4", "--buckets", "300")
    return Vectors.load("vectors.safetensors")


def unknown(vectors: Vectors, word: str) -> np.ndarray:
    assert vectors.subwords is not None
    vector = vectors.subwords.unknown(word.encode())
    assert vector is not None
    return vector


def test_training_tells_its_memory(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(some_text(3000))
    result = neglm("embed", "corpus.txt", *TINY[:-1], "--subwords", "2-4", "--buckets", "300")
    assert b"n-grams of 2-4 characters use " in result.stderr
    assert b" of 300 buckets; all tables need " in result.stderr


def test_deterministic_and_resumed(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(some_text(3000))
    options = (*TINY, "--subwords", "3-5", "--deterministic")
    neglm("embed", "corpus.txt", *options, "-o", "a")
    neglm("embed", "corpus.txt", *options, "-o", "b")
    assert Path("a").read_bytes() == Path("b").read_bytes()
    assert neglm_cli.load("a").has_subwords  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--subwords", "6-3"),
            "--subwords '6-3' is no range of lengths from 1 to 99: give it as 3-6, the shorter first",
        ),
        (("--subwords", "3"), "--subwords '3' is no range"),
        (("--subwords", "0-3"), "--subwords '0-3' is no range"),
        (("--subwords", "3-100"), "--subwords '3-100' is no range"),
        (("--subwords", "3-6", "--buckets", "0"), "--buckets must be at least 1"),
        (("--subwords", "3-6", "--buckets", "9999999999"), "--buckets must be at most 2,147,483,647"),
        (("--buckets", "10"), "--buckets is for n-grams: choose their lengths with --subwords"),
        (("--pairs", "p.tsv", "--full-batch", "--subwords", "3-6"), "--subwords is for sampled training"),
        (("--floret",), "--floret is for n-grams: choose their lengths with --subwords"),
        (("--subwords", "3-6", "--hash-count", "2"), "--hash-count is for --floret"),
        (("--subwords", "3-6", "--floret", "--hash-count", "5"), "--hash-count must be at most 4"),
        (("--subwords", "3-6", "--floret", "--hash-count", "0"), "--hash-count must be at least 1"),
        (("--subwords", "3-6", "--cbow"), "--cbow trains vectors of whole words: leave out --subwords"),
        (("--pairs", "p.tsv", "--cbow"), "--cbow is for text: a table of pairs has no windows"),
    ],
)
def test_bad_options(neglm: Neglm, workplace: Path, options: tuple[str, ...], message: str) -> None:
    Path("corpus.txt").write_bytes(some_text(100))
    corpus = () if "--pairs" in options else ("corpus.txt",)
    assert message in one_sentence(neglm("embed", *corpus, *options, code=2).stderr)


def test_a_word_of_ten_megabytes(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(b"a " + b"xy" * 5_000_000 + b" b c\n" * 3)
    neglm("embed", "corpus.txt", *TINY, "--sample", "0", "--subwords", "3-6", "--buckets", "1000")
    assert neglm("vectors", "b").stdout.startswith(b"b ")


def test_nearest(neglm: Neglm, vectors: Vectors) -> None:
    result = neglm("nearest", "w1x", "w1", "w1 w1x", "--top", "2").stdout
    assert result.count(b"nearest to w1x (w1x: from subwords), among ") == 1
    assert result.count(b"nearest to w1, among ") == 1
    assert result.count(b"nearest to w1 w1x (w1x: from subwords), among ") == 1
    (answer,) = map(json.loads, neglm("nearest", "w1x", "--top", "1", "--json").stdout.splitlines())
    vector = unknown(vectors, "w1x")
    cosines = vectors.vectors @ vector / np.linalg.norm(vectors.vectors, axis=1) / np.linalg.norm(vector)
    assert answer["from_subwords"] == ["w1x"]
    (best,) = answer["neighbors"]
    assert best["cosine"] == pytest.approx(cosines.max(), abs=1e-5)
    assert best["cosine"] == pytest.approx(cosines[vectors.words.id(best["word"].encode())], abs=1e-5)
    sentence = one_sentence(neglm("nearest", "w1x", "--no-subwords", code=1).stderr)
    assert sentence == "neglm: `w1x` is not in the vocabulary of vectors.safetensors"


def test_analogy(neglm: Neglm, vectors: Vectors) -> None:
    assert neglm("analogy", "w1", "w2", "w3q").stdout.startswith(b"w1 is to w2 as w3q is to (w3q: from subwords)\n")
    (answer,) = map(json.loads, neglm("analogy", "w1", "w2", "w3", "--json").stdout.splitlines())
    assert answer["from_subwords"] == []
    assert b"is not in the vocabulary" in neglm("analogy", "w1", "w2", "w3q", "--no-subwords", code=1).stderr


def test_words_without_ngrams(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(some_text(3000))
    neglm("embed", "corpus.txt", *TINY, "--subwords", "5-6")
    sentence = one_sentence(neglm("nearest", "xy", code=1).stderr)
    assert sentence.endswith(
        "is not in the vocabulary of vectors.safetensors, and too short for n-grams of 5-6 characters"
    )


def test_vectors(neglm: Neglm, vectors: Vectors) -> None:
    result = neglm("vectors", "w1", "w1x")
    lines = [line.split(b" ") for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == [b"w1", b"w1x"]
    expected = np.array([vectors.vectors[vectors.words.id(b"w1")], unknown(vectors, "w1x")])
    np.testing.assert_array_equal(np.array([line[1:] for line in lines], np.float32), expected)
    assert b"1 out-of-vocabulary word composed from subwords" in result.stderr
    assert neglm("vectors", stdin=b"w1 w1x\n").stdout == result.stdout
    one, other = map(json.loads, neglm("vectors", "w1", "w1x", "--json").stdout.splitlines())
    assert (one["word"], one["from_subwords"], other["from_subwords"]) == ("w1", [], ["w1x"])
    np.testing.assert_array_equal(np.array(other["vector"], np.float32), expected[1])
    failed = neglm("vectors", "w1x", "w1", "--no-subwords", code=1)
    assert b"`w1x` is not in the vocabulary of vectors.safetensors" in failed.stderr
    assert failed.stdout.startswith(b"w1 ")


def test_similarity(neglm: Neglm, vectors: Vectors) -> None:
    Path("rated.tsv").write_text("w1\tw2\t5\nw1\tw3x\t4\nw9\tw8\t2\nW1q\tw3x\t1\n")
    assert b"  2 OOV words composed from subwords\n" in neglm("eval", "--similarity", "rated.tsv").stdout
    (result,) = json.loads(neglm("eval", "--similarity", "rated.tsv", "--json").stdout)["similarity"]
    assert (result["used"], result["oov"], result["composed_words"]) == (4, 0, 2)
    (result,) = json.loads(neglm("eval", "--similarity", "rated.tsv", "--json", "--no-subwords").stdout)["similarity"]
    assert (result["used"], result["oov"], result["composed_words"]) == (2, 2, 0)


def test_analogies(neglm: Neglm, vectors: Vectors) -> None:
    """OOV words of questions are composed; questions with OOV answers, or words without n-grams, are skipped."""
    questions = [("w1", "w2", "w3q"), ("w1x", "w2", "w3q"), ("w4", "w5", "w6")]
    lines = []
    for question in questions:
        (answer,) = map(json.loads, neglm("analogy", *question, "--top", "1", "--json").stdout.splitlines())
        lines.append(" ".join((*question, answer["answers"][0]["word"])))
    Path("questions.txt").write_text("\n".join([*lines, "w1 w2 w3q nowhere"]) + "\n")
    report = neglm("eval", "--analogy", "questions.txt").stdout
    assert b"questions.txt: 4 questions, 3 used, 1 skipped (OOV)\n  2 OOV words composed from subwords\n" in report
    (result,) = json.loads(neglm("eval", "--analogy", "questions.txt", "--json").stdout)["analogy"]
    assert (result["composed_words"], result["total"]["used"], result["total"]["add"]["correct"]) == (2, 3, 3)
    (result,) = json.loads(neglm("eval", "--analogy", "questions.txt", "--json", "--no-subwords").stdout)["analogy"]
    assert (result["composed_words"], result["total"]["used"], result["total"]["add"]["correct"]) == (0, 1, 1)


def test_python(vectors: Vectors) -> None:
    loaded = neglm_cli.load("vectors.safetensors")
    assert isinstance(loaded, neglm_cli.WordVectors)
    np.testing.assert_array_equal(loaded["w1x"], unknown(vectors, "w1x"))
    assert "w1x" not in loaded
    assert len(loaded.nearest("w1x", 3)) == len(loaded.analogy("w1", "w2", "w1x", 3)) == 3
    assert -1 <= loaded.similarity("w1", "w1x") <= 1
    without = neglm_cli.load("vectors.safetensors", subwords=False)
    with pytest.raises(KeyError, match="w1x"):
        without["w1x"]


def test_export_and_import(neglm: Neglm, vectors: Vectors) -> None:
    neglm("export", "--format", "fasttext", "-o", "model.bin")
    result = neglm("import", "model.bin", "-o", "back")
    assert b"buckets of n-grams, 8 dimensions, from fasttext" in result.stderr + result.stdout
    assert neglm("vectors", "w1", "w1x", "-m", "back").stdout == neglm("vectors", "w1", "w1x").stdout
    assert b"this format has no subwords; --format fasttext keeps them" in neglm("export", "-o", "words.vec").stderr
    one_sentence(neglm("export", "--format", "fasttext", "--normalize", "-o", "n.bin", code=2).stderr)


def test_floret(neglm: Neglm, workplace: Path) -> None:
    """Trained, used, exported, imported and started from."""
    Path("corpus.txt").write_bytes(some_text(3000))
    options = (*TINY, "--subwords", "2-4", "--floret", "--buckets", "300")
    neglm("embed", "corpus.txt", *options, "--deterministic")
    neglm("embed", "corpus.txt", *options, "--deterministic", "-o", "same")
    assert Path("same").read_bytes() == Path("vectors.safetensors").read_bytes()
    assert b"(w1x: from subwords)" in neglm("nearest", "w1x").stdout
    neglm("export", "-o", "t.floret")
    Path("words.txt").write_bytes(b"w1\nw2\n")
    result = neglm("import", "t.floret", "--word-list", "words.txt", "-o", "back")
    assert b"back: 2 words and 300 buckets of n-grams, 8 dimensions, from floret" in result.stdout + result.stderr
    assert neglm("vectors", "w1", "w1x", "-m", "back").stdout == neglm("vectors", "w1", "w1x").stdout
    neglm("embed", "corpus.txt", *options, "--lr", "1e-12", "--init-vectors", "vectors.safetensors", "-o", "again")
    np.testing.assert_allclose(Vectors.load("again").vectors, Vectors.load("vectors.safetensors").vectors, atol=1e-6)
    neglm("embed", "corpus.txt", *TINY, "-o", "plain")
    start = ("--init-vectors", "plain", "-o", "other")
    sentence = one_sentence(neglm("embed", "corpus.txt", *options, *start, code=1).stderr)
    assert "--floret starts only from vectors of --floret with the same --subwords, --hash-count and" in sentence
    assert "there is no table of floret" in one_sentence(neglm("export", "plain", "-o", "p.floret", code=1).stderr)
    assert "use --format floret" in one_sentence(neglm("export", "--format", "fasttext", "-o", "m", code=1).stderr)
    assert b"--format floret keeps them" in neglm("export", "-o", "words.vec").stderr
    one_sentence(neglm("export", "--max-vocab", "2", "-o", "u.floret", code=2).stderr)


def test_cbow(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(some_text(3000))
    neglm("embed", "corpus.txt", *TINY, "--cbow", "--deterministic", "-o", "a")
    neglm("embed", "corpus.txt", *TINY, "--cbow", "--deterministic", "--lr", "0.05", "-o", "b")
    neglm("embed", "corpus.txt", *TINY, "--deterministic", "--lr", "0.05", "-o", "skip-gram")
    assert Path("a").read_bytes() == Path("b").read_bytes()  # word2vec's learning rate of CBOW
    assert Vectors.load("a").arguments["cbow"]
    assert (Vectors.load("a").vectors != Vectors.load("skip-gram").vectors).any()
    assert "was trained with --cbow" in one_sentence(neglm("pmi", "a", code=1).stderr)


def test_start_from_vectors_with_subwords(neglm: Neglm, vectors: Vectors) -> None:
    """At a learning rate of nearly zero, vectors stay: with the same n-grams, with others, and without."""
    same = (*TINY, "--lr", "1e-12", "--init-vectors", "vectors.safetensors")
    for options in (("--subwords", "2-4"), ("--subwords", "3-3"), ()):
        neglm("embed", "corpus.txt", *same, *options, "-o", "again")
        again = Vectors.load("again")
        np.testing.assert_allclose(again.vectors, vectors.vectors, atol=1e-6)
        assert again.arguments.get("subwords", "") == (options[1] if options else "")
        if options == ("--subwords", "2-4"):
            assert again.subwords is not None
            np.testing.assert_allclose(unknown(again, "w1x"), unknown(vectors, "w1x"), atol=1e-6)
