"""Folders for the Hugging Face Hub: read by neglm everywhere, and by the packages they are made for."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import neglm_cli
from neglm_cli.api.loading import load_as
from neglm_cli.interop.tokenizer import tokenizer, vocabulary
from neglm_cli.store import container
from neglm_cli.text.encode import Encoder
from neglm_cli.text.word_index import WordIndex
from tests.conftest import Neglm, one_sentence
from tests.interop.making import TEXT, train, word_scores
from tests.sgns.making import some_text
from tests.vectors.exchange import vectors_of


def contents(stored: container.Stored) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in stored.tensors.items()}


def embed(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(some_text(400))
    neglm("embed", "corpus.txt", "--size", "6", "--epochs", "1", "--min-count", "1", "--no-cache", "--quiet")


# --- language models ----------------------------------------------------------------------------------------------


def test_every_command_reads_the_folder_of_a_language_model(neglm: Neglm) -> None:
    train(neglm, "neglm-b")
    neglm("export", "--hub", "lm", "--license", "mit", "--test", "test.txt")
    assert contents(container.read("lm")) == contents(container.read("model.safetensors"))
    for command in (
        "eval {} --test test.txt --json", "eval {} --similarity pairs.tsv", "score {} test.txt", "score -m {} test.txt",
        "next {} --after w1", "generate {} --lines 2 --seed 3", "nearest w1 --vectors {} --table output",
        "analogy w1 w2 w3 --vectors {}", "export {} --format text -o -", "info {} --words",
    ):  # fmt: skip
        Path("pairs.tsv").write_bytes(b"w1\tw2\t3\nw2\tw3\t2\n")
        expected, found = (
            neglm(*command.format(model).split(), "--quiet").stdout.decode().replace(f"{model}: ", "")
            for model in ("model.safetensors", "lm")
        )
        if "--json" in command:
            expected, found = (_without_times(json.loads(output)) for output in (expected, found))
        assert found == expected, command
    neglm("plot", "lm", "-o", "map.svg")
    neglm(
        "train-lm",
        "corpus.txt",
        "--init-vectors",
        "lm",
        "--embedding",
        "5",
        "--hidden",
        "4",
        "--epochs",
        "1",
        "-o",
        "x",
    )
    sentence = one_sentence(neglm("export", "lm", "--hub", "lm", code=2).stderr)
    assert "is one of the inputs" in sentence


def _without_times(report: dict[str, Any]) -> Any:
    (text,) = report.pop("test")
    return {name: value for name, value in text.items() if name not in ("seconds", "words_per_second")}


def test_python_loads_the_folder(neglm: Neglm) -> None:
    train(neglm, "nce")
    neglm("export", "--hub", "lm")
    one, other = (load_as(neglm_cli.LanguageModel, path) for path in ("model.safetensors", "lm"))
    assert other.score("w1 w2") == one.score("w1 w2")
    assert other.perplexity("test.txt") == one.perplexity("test.txt")
    shutil.move("lm", "elsewhere")
    assert len(neglm_cli.load(Path("elsewhere"))) == len(one)


def test_the_folder_describes_the_language_model(neglm: Neglm) -> None:
    Path("secret").mkdir()
    Path("secret/corpus.txt").write_bytes(some_text(1000))
    Path("valid.txt").write_bytes(TEXT)
    options = ["--hidden", "4", "--k", "3", "--epochs", "2", "--no-cache", "--quiet", "--threads", "1"]
    neglm("train-lm", "secret/corpus.txt", *options, "--valid", "valid.txt")
    neglm("export", "--hub", "lm", "--license", "cc-by-4.0", "--test", "valid.txt")
    assert sorted(os.listdir("lm")) == ["README.md", "config.json", "model.safetensors", "tokenizer.json", "vocab.json"]
    config = json.loads(Path("lm/config.json").read_text())
    assert (config["vocab_size"], config["hidden_size"], config["num_layers"], config["loss"]) == (179, 4, 2, "neglm")
    ids = json.loads(Path("lm/vocab.json").read_text())
    assert (ids["<eos>"], ids["<unk>"]) == (config["eos_token_id"], config["unk_token_id"])
    metadata = json.loads(neglm("info", "model.safetensors", "--json").stdout)["metadata"]
    card = Path("lm/README.md").read_text()
    assert card.startswith("---\nlicense: cc-by-4.0\n")
    assert metadata["corpus"][0]["fingerprint"] in card
    assert "| hidden | 4 |" in card
    for epoch, value in enumerate(metadata["progress"]["valid_perplexities"], 1):
        assert f"| validation, epoch {epoch} | {value:.2f} |" in card
    assert f"| valid.txt | {neglm_cli.load('lm').perplexity('valid.txt'):.2f} |" in card  # type: ignore[union-attr]
    for name in os.listdir("lm"):
        assert b"secret" not in Path("lm", name).read_bytes()


def test_tokenizers_give_the_ids_of_neglm(neglm: Neglm) -> None:
    package = pytest.importorskip("tokenizers")
    train(neglm, "softmax")
    neglm("export", "--hub", "lm")
    loaded = package.Tokenizer.from_file("lm/tokenizer.json")
    text = TEXT.removesuffix(b"\n").decode() + "\n"
    assert loaded.encode(text).ids == [number for _, number, _ in word_scores(neglm, "--carry")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(st.sampled_from("ab\u00e9\u3000\x85\u2028<>eos"), min_size=1), unique=True), st.text())
def test_tokenizers_split_as_neglm_does(words: list[str], text: str) -> None:
    """Unicode has more white space than neglm, which splits at ASCII's only."""
    package = pytest.importorskip("tokenizers")
    spelled = [b"<unk>", *(word.encode() for word in words if word != "<unk>")]
    index = WordIndex.of(spelled)
    loaded = package.Tokenizer.from_str(json.dumps(tokenizer(vocabulary(index), ends_of_line=False)))
    line = " ".join([*words, text.encode(errors="ignore").decode()]).replace("\n", " ")
    expected = [spelled.index(word) if word in spelled else 0 for word in line.encode().split()]
    assert loaded.encode(line).ids == expected


def test_words_that_are_not_utf_8_keep_their_ids() -> None:
    words = [b"a", b"\xff", rb"\xff", "é".encode(), b"\xffb"]
    ids = vocabulary(words)
    assert list(ids.values()) == [0, 1, 2, 3, 4]
    assert ids["é"] == 3
    json.dumps(ids).encode()


# --- vectors ------------------------------------------------------------------------------------------------------


def test_every_command_reads_the_folder_of_vectors(neglm: Neglm) -> None:
    embed(neglm)
    neglm("export", "vectors.safetensors", "--hub", "v")
    assert contents(container.read("v")) == contents(container.read("vectors.safetensors"))
    for command in (
        "nearest w1 --vectors {}",
        "analogy w1 w2 w3 --vectors {}",
        "pmi {} corpus.txt",
        "export {} -o - --format text",
    ):
        expected, found = (
            neglm(*command.format(path).split(), "--quiet").stdout.replace(path.encode(), b"")
            for path in ("vectors.safetensors", "v")
        )
        assert found.replace(b"/model.safetensors", b"") == expected, command
    assert "| size | 6 |" in Path("v/README.md").read_text()


def queries() -> tuple[list[str], np.ndarray]:
    loaded = load_as(neglm_cli.WordVectors, "v")
    words = ["w1", "w5", "w2"]
    return words, np.array([loaded[word] for word in words])


def test_staticvectors_loads_the_folder(neglm: Neglm) -> None:
    package = pytest.importorskip("staticvectors")
    embed(neglm)
    neglm("export", "vectors.safetensors", "--hub", "v")
    words, expected = queries()
    found = package.StaticVectors(os.path.abspath("v")).embeddings(words, normalize=False)
    np.testing.assert_array_equal(found, expected)


def test_model2vec_loads_the_folder(neglm: Neglm) -> None:
    package = pytest.importorskip("model2vec")
    embed(neglm)
    neglm("export", "vectors.safetensors", "--hub", "v")
    words, expected = queries()
    model = package.StaticModel.from_pretrained("v")
    np.testing.assert_allclose(model.encode(words), expected, rtol=1e-6)
    np.testing.assert_allclose(model.encode(" ".join(words)), expected.mean(axis=0), rtol=1e-5)


def test_sentence_transformers_loads_the_folder(neglm: Neglm, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    embed(neglm)
    neglm("export", "vectors.safetensors", "--hub", "v")
    words, expected = queries()
    model = package.SentenceTransformer(os.path.abspath("v"), device="cpu")
    np.testing.assert_allclose(model.encode(words), expected, rtol=1e-6)
    np.testing.assert_allclose(model.encode([" ".join(words)])[0], expected.mean(axis=0), rtol=1e-5)


def test_vectors_without_unk_get_a_row_of_zeros(neglm: Neglm) -> None:
    package = pytest.importorskip("model2vec")
    vectors_of([b"a", b"b"], np.array([[1, 2], [3, 4]])).save("vectors.safetensors")
    neglm("export", "vectors.safetensors", "--hub", "v")
    model = package.StaticModel.from_pretrained("v")
    assert model.encode(["a", "b", "elsewhere"]).tolist() == [[1, 2], [3, 4], [0, 0]]
    assert len(neglm_cli.load("v")) == 2


# --- errors -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_exported_or_read(neglm: Neglm) -> None:
    embed(neglm)
    neglm("vocab", "corpus.txt", "--quiet")

    def refused(*arguments: str, code: int = 1) -> str:
        before = sorted(os.listdir())
        sentence = one_sentence(neglm(*arguments, code=code).stderr)
        assert sorted(os.listdir()) == before
        return sentence

    assert "contains a vocabulary" in refused("export", "vocab.safetensors", "--hub", "v")
    assert "which have no perplexity" in refused("export", "vectors.safetensors", "--hub", "v", "--test", "corpus.txt")
    assert "is not a name such as mit" in refused(
        "export", "vectors.safetensors", "--hub", "v", "--license", "my own: yes", code=2
    )
    Path("empty").mkdir()
    assert "empty is a directory, not a file" in refused("info", "empty")
    neglm("train-lm", "corpus.txt", "--hidden", "3", "--epochs", "1", "--no-cache", "--quiet")
    neglm("export", "--pytorch", "pt")
    assert "`neglm import --pytorch` reads PyTorch's" in refused("info", "pt")


def test_encoders_agree_on_the_words_of_a_folder(neglm: Neglm) -> None:
    """The order of vocab.json is the order of ids."""
    train(neglm, "neg")
    neglm("export", "--hub", "lm")
    words = list(json.loads(Path("lm/vocab.json").read_text()))
    index = WordIndex.from_stored(container.read("lm"))
    assert Encoder(index).encode(" ".join(words).encode()).tolist() == list(range(len(words)))
