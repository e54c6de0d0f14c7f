"""neglm from Python, and language models as vectors: the same figures as from the command line."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import neglm_cli
from neglm_cli.errors import NeglmError
from neglm_cli.store import container
from tests.cli.test_score import model, rows, trained  # noqa: F401
from tests.conftest import Neglm
from tests.sgns.making import some_text


def load(table: Literal["input", "output"] | None = None) -> neglm_cli.LanguageModel:
    loaded = neglm_cli.load("model.safetensors", table)
    assert isinstance(loaded, neglm_cli.LanguageModel)
    return loaded


def load_vectors() -> neglm_cli.WordVectors:
    loaded = neglm_cli.load("vectors.safetensors")
    assert type(loaded) is neglm_cli.WordVectors
    return loaded


LINES = [line.decode() for line in some_text(300).split(b"\n")[:5]] + ["w1 nowhere", ""]


@pytest.mark.usefixtures("model")
def test_scores_are_those_of_the_command(neglm: Neglm) -> None:
    loaded = load()
    expected = rows(neglm("score", "--base", "e", stdin="\n".join(LINES).encode() + b"\n").stdout)
    scores = loaded.score(LINES)
    np.testing.assert_allclose(scores, [float(row[0]) for row in expected], atol=1e-4)
    assert loaded.score(LINES[0]) == pytest.approx(scores[0], abs=1e-5)
    assert loaded.score("") == pytest.approx(scores[-1], abs=1e-5)
    assert isinstance(loaded.score(LINES[0]), float)
    assert loaded.score([]) == []
    assert loaded.score(line for line in LINES[:2]) == pytest.approx(scores[:2], abs=1e-5)
    assert loaded.score(LINES[0], base=10) == pytest.approx(scores[0] / math.log(10), abs=1e-5)
    for base in (1, 0, -2, math.nan, math.inf):
        with pytest.raises(ValueError, match="base"):
            loaded.score(LINES, base=base)


@pytest.mark.usefixtures("model")
def test_word_scores_add_up() -> None:
    loaded = load()
    by_line = loaded.word_scores(LINES)
    for line, words, score in zip(LINES, by_line, loaded.score(LINES), strict=True):
        assert [word for word, _ in words] == [*line.split(), "<eos>"]
        assert sum(found for _, found in words) == pytest.approx(score, abs=1e-5)
    assert [word for word, _ in loaded.word_scores("w1 nowhere")] == ["w1", "nowhere", "<eos>"]
    halves = [found for _, found in loaded.word_scores(LINES[0], base=2)]
    np.testing.assert_allclose(halves, [found / math.log(2) for _, found in by_line[0]], atol=1e-5)


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\x1c", "\x85"])
@pytest.mark.usefixtures("model")
def test_only_ascii_white_space_separates_words(space: str) -> None:
    """As in the tokenizer; prompts are not rewritten."""
    loaded, line = load(), f"a{space}b c"
    assert [word for word, _ in loaded.word_scores(line)] == [f"a{space}b", "c", "<eos>"]
    assert loaded.generate(line, words=0) == line


@pytest.mark.usefixtures("model")
def test_next_words_are_those_of_the_command(neglm: Neglm) -> None:
    loaded = load()
    answer = json.loads(neglm("next", "--after", "w1 w2", "--top", "3", "--json").stdout)
    found = loaded.next("w1 w2", 3)
    assert [word for word, _ in found] == [each["word"] for each in answer["next"]]
    assert sum(probability for _, probability in loaded.next("w1", len(loaded))) == pytest.approx(1, abs=1e-5)
    assert math.log(found[0][1]) == pytest.approx(loaded.word_scores(f"w1 w2 {found[0][0]}")[2][1], abs=1e-4)


@pytest.mark.usefixtures("model")
def test_texts_read_and_written(neglm: Neglm) -> None:
    loaded = load()
    Path("test.txt").write_bytes(some_text(300))
    figures = json.loads(neglm("eval", "--test", "test.txt", "--json").stdout)
    assert loaded.perplexity(Path("test.txt")) == pytest.approx(figures["test"][0]["perplexity"], abs=1e-5)
    generated = neglm("generate", "--prompt", "w1 w2", "--lines", "1", "--max-words", "5").stdout.decode()
    assert loaded.generate("w1 w2", words=30).startswith(generated.split("\n")[0])


@pytest.mark.usefixtures("model")
def test_words_of_a_model() -> None:
    loaded = load()
    assert loaded.words[loaded.id("w1")] == "w1"
    assert list(loaded) == loaded.words
    assert len(loaded) == len(loaded.words) == len(loaded.counts)
    assert "w1" in loaded
    assert "nowhere" not in loaded
    assert 1 not in loaded
    np.testing.assert_array_equal(loaded["w1"], loaded.vectors[loaded.id("w1")])
    for ask in (loaded.id, loaded.__getitem__, loaded.nearest):
        with pytest.raises(KeyError, match="'nowhere' is not in model.safetensors"):
            ask("nowhere")
    assert repr(loaded) == f"<LanguageModel model.safetensors: neglm, {len(loaded)} words, 2×9>"


def test_a_vocabulary(workplace: Path, neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(b"a b a\na c\n")
    neglm("vocab", "corpus.txt", "--min-count", "2")
    loaded = neglm_cli.load(workplace / "vocab.safetensors")
    assert isinstance(loaded, neglm_cli.Vocabulary)
    assert (loaded["a"], loaded["<eos>"], loaded["<unk>"]) == (3, 2, 2)
    assert "b" not in loaded
    assert loaded.tokens == 5
    assert repr(loaded) == f"<Vocabulary {workplace / 'vocab.safetensors'}: 3 words, 60.00% of 5 tokens>"
    with pytest.raises(NeglmError, match="^vocab.safetensors is a vocabulary, not a language model: leave out table$"):
        neglm_cli.load("vocab.safetensors", "input")


@pytest.mark.usefixtures("model")
def test_a_file_is_read_once() -> None:
    loaded = load()
    Path("model.safetensors").unlink()
    assert len(loaded.score(["w1 w2"])) == 1


@pytest.mark.usefixtures("model")
def test_both_tables_from_python_and_by_export(neglm: Neglm) -> None:
    tensors = container.read("model.safetensors").tensors
    tables: tuple[tuple[Literal["input", "output"], str], ...] = (("input", "embedding"), ("output", "output"))
    for table, name in tables:
        loaded = load(table)
        np.testing.assert_array_equal(loaded.vectors, tensors[name])
        neglm("export", "model.safetensors", "--table", table, "-o", f"{table}.npy")
        np.testing.assert_array_equal(np.load(f"{table}.npy"), tensors[name])


@pytest.mark.usefixtures("model")
def test_queries_of_a_language_model(neglm: Neglm) -> None:
    loaded = load("output")
    unit = loaded.vectors / np.linalg.norm(loaded.vectors, axis=1, keepdims=True)
    cosines = unit @ unit[loaded.id("w1")]
    cosines[loaded.id("w1")] = -2
    best = loaded.words[int(np.argmax(cosines))]
    arguments = ("--vectors", "model.safetensors", "--table", "output", "--top", "1")
    assert rows(neglm("nearest", "w1", *arguments).stdout)[1][0] == best
    ((word, cosine),) = loaded.nearest("w1", 1)
    assert word == best
    assert cosine == pytest.approx(cosines.max(), abs=1e-6)
    assert loaded.similarity("w1", best) == pytest.approx(cosines.max(), abs=1e-6)
    (word, cosine), *_ = loaded.nearest(loaded["w1"])
    assert word == "w1"
    assert cosine == pytest.approx(1, abs=1e-6)
    both = unit[loaded.id("w1")] + unit[loaded.id("w2")]
    assert [word for word, _ in loaded.nearest(["w1", "w2"], 3)] == [
        word for word, _ in loaded.nearest(both, 5) if word not in ("w1", "w2")
    ][:3]
    with pytest.raises(ValueError, match="shape"):
        loaded.nearest(both[:-1])
    answer = rows(neglm("analogy", "w1", "w2", "w3", *arguments).stdout)[1][0]
    assert loaded.analogy("w1", "w2", "w3", 1)[0][0] == answer
    Path("pairs.tsv").write_bytes(b"w1\tw2\t3\nw1\tw3\t1\nw2\tw3\t2\nw4\tw5\t5\n")
    by_table = [
        neglm("eval", "model.safetensors", "--similarity", "pairs.tsv", *more).stdout
        for more in ((), ("--table", "input"), ("--table", "output"))
    ]
    assert by_table[0] == by_table[1] != by_table[2]


@pytest.mark.usefixtures("model")
def test_vectors_from_python(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(some_text(1000))
    neglm("embed", "corpus.txt", "--size", "9", "--no-cache", "--min-count", "1")
    loaded = load_vectors()
    assert loaded.vectors.shape == (len(loaded.words), 9)
    assert repr(loaded) == f"<WordVectors vectors.safetensors: {len(loaded)} words, 9 dimensions>"
    assert not hasattr(loaded, "score")
    with pytest.raises(NeglmError, match=r"^vectors\.safetensors is a file of vectors.*: leave out table$"):
        neglm_cli.load("vectors.safetensors", "output")


@pytest.mark.usefixtures("model")
def test_a_training_that_starts_from_vectors(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(some_text(1000))
    neglm("embed", "corpus.txt", "--size", "9", "--no-cache", "--min-count", "3")
    vectors = load_vectors()
    small = ("--hidden", "9", "--k", "2", "--batch", "3", "--bptt", "6", "--no-cache", "--output", "new.safetensors")
    rest = ("--epochs", "1", "--lr", "1e-12", "--init-vectors", "vectors.safetensors")
    result = neglm("train-lm", "corpus.txt", *small, *rest)
    assert f"{len(vectors.words)} of ".encode() in result.stderr
    started = neglm_cli.load("new.safetensors")
    assert isinstance(started, neglm_cli.LanguageModel)
    for word in vectors.words:
        np.testing.assert_allclose(started.vectors[started.id(word)], vectors.vectors[vectors.id(word)], atol=1e-6)
    others = [started.id(word) for word in started.words if word not in vectors.words]
    assert others
    assert np.abs(started.vectors[others]).max() <= 0.1
    Path("new.safetensors").unlink()
    wrong = neglm("train-lm", "corpus.txt", *small, "--embedding", "8", *rest, code=1)
    assert b"use --embedding 9" in wrong.stderr
    assert not Path("new.safetensors").exists()


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = (
        "import sys, neglm_cli; assert {'load', 'vocab', 'embed', 'train_lm', 'WordVectors'} <= set(dir(neglm_cli)); "
        "assert not {'numpy', 'numba', 'typer'} & set(sys.modules); neglm_cli.load; assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_has_only_names_that_exist() -> None:
    assert all(hasattr(neglm_cli, name) for name in dir(neglm_cli))
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        neglm_cli.train  # noqa: B018
