"""neglm from Python, and language models as vectors: the same figures as from the command line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import neglm_cli
from neglm_cli.errors import NeglmError
from neglm_cli.store import container
from tests.cli.test_score import model, rows, trained  # noqa: F401
from tests.conftest import Neglm, only_text
from tests.sgns.making import some_text


@pytest.mark.usefixtures("model")
def test_a_language_model_from_python(neglm: Neglm) -> None:
    text = some_text(300)
    Path("test.txt").write_bytes(text)
    loaded = neglm_cli.load("model.safetensors")
    lines = [line.decode() for line in text.split(b"\n")[:5]] + ["w1 nowhere", ""]
    expected = rows(neglm("score", "--base", "e", stdin="\n".join(lines).encode() + b"\n").stdout)
    scores = loaded.score(lines)
    np.testing.assert_allclose(scores, [float(row[0]) for row in expected], atol=1e-4)
    assert loaded.score(lines[0]) == pytest.approx(scores[0], abs=1e-5)
    assert loaded.score("") == pytest.approx(scores[-1], abs=1e-5)
    assert isinstance(loaded.score(lines[0]), float)
    assert loaded.score([]) == []
    assert loaded.score(line for line in lines[:2]) == pytest.approx(scores[:2], abs=1e-5)
    figures = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)
    assert loaded.perplexity("test.txt") == pytest.approx(figures["perplexity"], abs=1e-5)
    generated = neglm("generate", "--prompt", "w1 w2", "--lines", "1", "--max-words", "5").stdout.decode()
    assert loaded.generate("w1 w2", words=30).startswith(generated.split("\n")[0])
    assert loaded.words[loaded.id("w1")] == "w1"
    with pytest.raises(KeyError):
        loaded.id("nowhere")


@pytest.mark.usefixtures("model")
def test_a_file_is_read_once() -> None:
    loaded = neglm_cli.load("model.safetensors")
    Path("model.safetensors").unlink()
    assert len(loaded.score(["w1 w2"])) == 1


@pytest.mark.usefixtures("model")
def test_both_tables_from_python_and_by_export(neglm: Neglm) -> None:
    tensors = container.read("model.safetensors").tensors
    for table, name in (("input", "embedding"), ("output", "output")):
        loaded = neglm_cli.load("model.safetensors", table)
        np.testing.assert_array_equal(loaded.vectors, tensors[name])
        neglm("export", "model.safetensors", "--table", table, "-o", f"{table}.npy")
        np.testing.assert_array_equal(np.load(f"{table}.npy"), tensors[name])


@pytest.mark.usefixtures("model")
def test_queries_of_a_language_model(neglm: Neglm) -> None:
    loaded = neglm_cli.load("model.safetensors", "output")
    unit = loaded.vectors / np.linalg.norm(loaded.vectors, axis=1, keepdims=True)
    cosines = unit @ unit[loaded.id("w1")]
    cosines[loaded.id("w1")] = -2
    best = loaded.words[int(np.argmax(cosines))]
    arguments = ("--vectors", "model.safetensors", "--table", "output", "--top", "1")
    assert rows(neglm("nearest", "w1", *arguments).stdout)[1][0] == best
    assert neglm("analogy", "w1", "w2", "w3", *arguments).stdout
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
    loaded = neglm_cli.load("vectors.safetensors")
    assert loaded.vectors.shape == (len(loaded.words), 9)
    with pytest.raises(NeglmError, match=r"^vectors\.safetensors is a file of vectors"):
        neglm_cli.load("vectors.safetensors", "output")
    with pytest.raises(NeglmError, match=r"^vectors\.safetensors is a file of vectors, not a language model$"):
        loaded.score(["w1"])


@pytest.mark.usefixtures("model")
def test_a_training_that_starts_from_vectors(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(some_text(1000))
    neglm("embed", "corpus.txt", "--size", "9", "--no-cache", "--min-count", "3")
    vectors = neglm_cli.load("vectors.safetensors")
    small = ("--hidden", "9", "--k", "2", "--batch", "3", "--bptt", "6", "--no-cache", "--output", "new.safetensors")
    rest = ("--epochs", "1", "--lr", "1e-12", "--init-vectors", "vectors.safetensors")
    result = neglm("train-lm", "corpus.txt", *small, *rest)
    assert f"{len(vectors.words)} of ".encode() in result.stderr
    started = neglm_cli.load("new.safetensors")
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
    code = "import sys, neglm_cli; assert 'numpy' not in sys.modules; neglm_cli.load; assert 'numpy' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
