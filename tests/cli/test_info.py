import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encoded import open_encoded
from tests.conftest import Neglm, one_sentence
from tests.store.samples import write_samples
from tests.text.making import vocabulary_of


@pytest.fixture
def vocabulary(neglm: Neglm) -> Path:
    Path("corpus.txt").write_bytes(b"a b a\n")
    neglm("vocab", "corpus.txt", "--min-count", "2")
    return Path("vocab.safetensors")


def test_says_what_a_file_is(neglm: Neglm, vocabulary: Path) -> None:
    output = neglm("info", "vocab.safetensors").stdout.decode()
    for expected in (
        "vocab.safetensors: vocabulary",
        "checksum verified",
        "max_vocab none, min_count 2",
        "offsets         int64 4",
        "corpus.txt, there, 6 bytes",
    ):
        assert expected in output


def test_a_model_is_described_in_plain_words(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(b"a b c d a b\na a b\n" * 30)
    Path("valid.txt").write_bytes(b"a b c\n" * 10)
    small = ("--hidden", "4", "--batch", "2", "--no-cache", "--k", "1000")
    neglm("train-lm", "corpus.txt", *small, "--epochs", "5")
    neglm("train-lm", "corpus.txt", *small, "--epochs", "1", "--valid", "valid.txt", "-o", "validated.safetensors")
    neglm("embed", "corpus.txt", "--min-count", "1", "--size", "4", "--no-cache")
    model, vectors = (neglm("info", f"{name}.safetensors").stdout.decode() for name in ("model", "vectors"))
    for output in (model, vectors):
        assert not re.search(r"None|True|False|[\[\]{}]", output)
        assert all(len(line) <= 130 for line in output.splitlines())
    said = " ".join(model.split())
    for expected in ("k 1,000", "bias_init none", "reset_at_eos no", "log_z 6.90776", "losses 5 values, the last "):
        assert expected in said
    validated = neglm("info", "validated.safetensors").stdout.decode()
    assert re.search(r"^  validation +valid.txt, there, 60 bytes, fingerprint [0-9a-f]{32}$", validated, re.MULTILINE)
    assert re.search(r"^  lstm.0.w_hh +float32 4 × 16$", model, re.MULTILINE)
    assert "deterministic no" in vectors


def test_json(neglm: Neglm, vocabulary: Path) -> None:
    description = json.loads(neglm("info", "vocab.safetensors", "--json").stdout)
    assert description["kind"] == "vocabulary"
    assert description["checksum_verified"] is True
    assert description["bytes"] == vocabulary.stat().st_size
    assert description["metadata"]["arguments"] == {"max_vocab": None, "min_count": 2}
    assert description["tensors"]["counts"] == {"dtype": "int64", "shape": [3]}
    assert description["metadata"]["corpus"][0]["path"] == "corpus.txt"
    metadata = description["metadata"]
    assert (metadata["lines"], metadata["tokens"], metadata["oov_tokens"]) == (1, 3, 1)


def test_words(neglm: Neglm, vocabulary: Path) -> None:
    assert neglm("info", "vocab.safetensors", "--words").stdout == b"a\t2\n<eos>\t1\n<unk>\t1\n"
    assert json.loads(neglm("info", "vocab.safetensors", "--words", "--json").stdout) == [
        ["a", 2],
        ["<eos>", 1],
        ["<unk>", 1],
    ]


def test_words_of_vectors_models_and_states(neglm: Neglm, workplace: Path) -> None:
    for kind, contents in write_samples(workplace).items():
        Path("file").write_bytes(contents)
        if kind != "encoded corpus":
            lines = neglm("info", "file", "--words").stdout.decode().splitlines()
            listed = json.loads(neglm("info", "file", "--words", "--json").stdout)
            assert lines == [f"{word}\t{count}" for word, count in listed]
            assert [len(listed)] == json.loads(neglm("info", "file", "--json").stdout)["tensors"]["counts"]["shape"]


def test_an_encoded_corpus(neglm: Neglm, workplace: Path) -> None:
    vocabulary = vocabulary_of(b"a b\nc\n", directory=workplace)
    open_encoded(open_corpus(["0"]), vocabulary, 1, workplace / "cache", lambda sentence: None)
    (copy,) = (workplace / "cache").iterdir()
    output = neglm("info", str(copy)).stdout.decode()
    assert "encoded corpus" in output
    assert "ids             int32 5" in output
    assert "has no vocabulary" in one_sentence(neglm("info", str(copy), "--words", code=1).stderr)


def test_bad_files(neglm: Neglm, vocabulary: Path) -> None:
    whole = vocabulary.read_bytes()
    Path("cut").write_bytes(whole[:-1])
    Path("flipped").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    Path("newer").write_bytes(whole.replace(b'"format_version":"2"', b'"format_version":"7"'))
    Path("kind").write_bytes(whole.replace(b'"kind":"vocabulary"', b'"kind":"vocabulaty"'))
    save_file({"x": np.zeros(1)}, "foreign")
    for name, message in {
        "nothing": "nothing does not exist",
        "corpus.txt": "corpus.txt is not a neglm file",
        ".": ". is a directory, not a file",
        "cut": "cut is cut short",
        "flipped": "flipped is damaged: its checksum does not match its contents",
        "newer": "newer has format version 7 and this neglm reads up to 2",
        "kind": "kind is damaged",
        "foreign": "foreign is a safetensors file, but not one of neglm's",
    }.items():
        assert message in one_sentence(neglm("info", name, code=1).stderr)


def test_the_state_of_the_corpus(neglm: Neglm, vocabulary: Path) -> None:
    Path("corpus.txt").write_bytes(b"a b a c\n")
    assert "corpus.txt, changed, 6 bytes" in neglm("info", "vocab.safetensors").stdout.decode()
    neglm("vocab", "-", stdin=b"a b\n")
    assert "corpus          a pipe, 4 bytes" in neglm("info", "vocab.safetensors").stdout.decode()
