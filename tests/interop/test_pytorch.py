"""Language models for PyTorch and back: the same perplexity, in PyTorch itself where it is installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from neglm_cli.interop import pytorch
from tests.conftest import Neglm, one_sentence, only_text
from tests.interop.making import MODELS, TEXT, tie, train, word_scores

PYTORCH = os.environ.get("PEERS", sys.executable)  # a Python that may have PyTorch: PEERS as in the Makefile


@pytest.fixture(scope="module")
def has_pytorch() -> bool:
    found = subprocess.run([PYTORCH, "-c", "import torch, safetensors"], capture_output=True)
    return found.returncode == 0


def perplexity(neglm: Neglm, model: str = "model.safetensors") -> float:
    return float(only_text(neglm("eval", model, "--test", "test.txt", "--json").stdout)["perplexity"])


def in_pytorch(folder: str) -> float:
    """Run the exported module, without neglm on its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [PYTORCH, f"{folder}/language_model.py", "test.txt"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("name", MODELS)
def test_the_module_reproduces_eval_to_five_digits(neglm: Neglm, has_pytorch: bool, name: str) -> None:
    if not has_pytorch:
        pytest.skip("there is no PyTorch here")
    train(neglm, name)
    neglm("export", "--pytorch", "lm")
    assert in_pytorch("lm") == pytest.approx(perplexity(neglm), rel=5e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_round_trip_keeps_every_probability(neglm: Neglm, name: str) -> None:
    train(neglm, name)
    before = word_scores(neglm, "--carry")
    neglm("export", "--pytorch", "lm")
    output = neglm("import", "--pytorch", "lm", "-o", "back.safetensors").stdout.decode()
    assert output.startswith("back.safetensors: 179 words, ")
    os.replace("back.safetensors", "model.safetensors")
    after = word_scores(neglm, "--carry")
    assert [row[:2] for row in after] == [row[:2] for row in before]
    np.testing.assert_allclose([row[2] for row in after], [row[2] for row in before], atol=1e-5, rtol=0)
    assert json.loads(neglm("info", "model.safetensors", "--json").stdout)["metadata"]["loss"] == "softmax"


def test_names_shapes_and_files(neglm: Neglm) -> None:
    train(neglm, "neglm-b")
    result = json.loads(neglm("export", "model.safetensors", "--pytorch", "lm", "--json").stdout)
    assert result == {"output": "lm", "format": "pytorch", "vocabulary": 179, "layers": 3, "hidden": 9}
    assert sorted(os.listdir("lm")) == ["config.json", "language_model.py", "model.safetensors", "vocab.txt"]
    shapes = {name: tensor.shape for name, tensor in load_file("lm/model.safetensors").items()}
    expected: dict[str, tuple[int, ...]] = {
        "embedding.weight": (179, 5),
        "output.weight": (179, 9),
        "output.bias": (179,),
    }
    for layer, inputs in enumerate((5, 9, 9)):
        expected |= {f"lstm.weight_ih_l{layer}": (36, inputs), f"lstm.weight_hh_l{layer}": (36, 9)}
        expected |= {f"lstm.bias_{kind}_l{layer}": (36,) for kind in ("ih", "hh")}
    assert shapes == expected
    listed = [line.split(b"\t") for line in Path("lm/vocab.txt").read_bytes().splitlines()]
    counted = neglm("info", "model.safetensors", "--words").stdout.splitlines()
    assert [b"\t".join(pair) for pair in listed] == counted


def test_the_module_is_short_enough_to_read() -> None:
    source = pytorch.MODULE_SOURCE.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60


# --- models of other programs -------------------------------------------------------------------------------------


def renamed(names: dict[str, str]) -> None:
    """Rename the modules of lm's state dict."""
    tensors = load_file("lm/model.safetensors")
    found = {}
    for key, tensor in tensors.items():
        module, _, kind = key.rpartition(".")
        found[f"{names.get(module, module)}.{kind}"] = tensor
    save_file(found, "lm/model.safetensors")


@pytest.mark.parametrize(
    "names",
    [
        {"embedding": "encoder", "lstm": "rnn", "output": "decoder"},
        {"embedding": "input_embedding", "lstm": "rnn", "output": "output_linear"},
        {"embedding": "model.embed", "lstm": "model.lstm", "output": "lm_head"},
    ],
    ids=["pytorch's example", "icefall", "nested"],
)
def test_other_names_are_understood(neglm: Neglm, names: dict[str, str]) -> None:
    train(neglm, "nce")
    expected = perplexity(neglm)
    neglm("export", "--pytorch", "lm")
    renamed(names)
    words = [line.split("\t")[0] for line in Path("lm/vocab.txt").read_text().splitlines()]
    Path("lm/vocab.txt").unlink()
    Path("lm/config.json").unlink()
    Path("lm/vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    neglm("import", "lm", "--pytorch", "-o", "back")
    assert perplexity(neglm, "back") == pytest.approx(expected, rel=1e-5)


def test_a_tied_model_has_one_table(neglm: Neglm, has_pytorch: bool) -> None:
    train(neglm, "softmax")
    pytorch.export(tie("tied"), "lm")
    assert "output.weight" not in load_file("lm/model.safetensors")
    neglm("import", "--pytorch", "lm", "-o", "back")
    expected, found = load_file("tied"), load_file("back")
    assert expected.keys() == found.keys()
    assert all(np.array_equal(found[name], tensor) for name, tensor in expected.items())
    if has_pytorch:
        assert in_pytorch("lm") == pytest.approx(perplexity(neglm, "tied"), rel=5e-6)


def refused(neglm: Neglm, *arguments: str, code: int = 1) -> str:
    before = sorted(os.listdir())
    sentence = one_sentence(neglm(*arguments, code=code).stderr)
    assert sorted(os.listdir()) == before
    return sentence


def test_what_cannot_be_imported(neglm: Neglm) -> None:
    train(neglm, "nce")
    neglm("export", "--pytorch", "good")
    tensors, lines = load_file("good/model.safetensors"), Path("good/vocab.txt").read_bytes().splitlines(True)

    def problem(words: list[bytes] | None = None, **changed: np.ndarray | None) -> str:
        shutil.rmtree("lm", ignore_errors=True)
        shutil.copytree("good", "lm")
        given = {key.replace("__", "."): tensor for key, tensor in changed.items()}
        save_file({k: t for k, t in (tensors | given).items() if t is not None}, "lm/model.safetensors")
        if words is not None:
            Path("lm/vocab.txt").write_bytes(b"".join(words))
        return refused(neglm, "import", "--pytorch", "lm")

    assert "nowhere is not a folder" in refused(neglm, "import", "--pytorch", "nowhere")
    assert "the words and the LSTM need 178 × 12" in problem(lines[:-1])
    assert "has no <eos>" in problem([line.replace(b"<eos>", b"end") for line in lines])
    assert "has a word twice" in problem([lines[0], *lines[:-1]])
    assert "line 1: expected a word, a tab, and a count" in problem([b"word\n", *lines[1:]])
    assert "has no embedding: expected embedding.weight, " in problem(embedding__weight=None)
    assert "has no output layer" in problem(output__weight=None)
    assert "has no LSTM (weight_ih_l0)" in problem(lstm__weight_ih_l0=None)
    assert "has no tensor `lstm.weight_hh_l0`" in problem(lstm__weight_hh_l0=None)
    assert "bidirectional" in problem(lstm__weight_ih_l0_reverse=tensors["lstm.weight_ih_l0"])
    assert "has the type F16; convert it to F32" in problem(output__bias=tensors["output.bias"].astype(np.float16))
    assert "tensor `output.bias` contains NaN" in problem(output__bias=np.full(179, np.nan, np.float32))
    assert "do not have the shapes of nn.LSTM" in problem(lstm__weight_hh_l0=np.zeros((36, 8), np.float32))
    assert "need 36" in problem(lstm__bias_ih_l0=np.zeros(8, np.float32))
    assert "has no embedding" in problem(embedding__weight=np.zeros((179, 12), np.int64))
    assert "do not have the shapes of nn.LSTM" in problem(lstm__weight_ih_l0=np.zeros((), np.float32))
    for damaged in (b"", b"nothing", Path("good/model.safetensors").read_bytes()[:-1]):
        Path("lm/model.safetensors").write_bytes(damaged)
        assert "lm/model.safetensors is" in refused(neglm, "import", "--pytorch", "lm")
    Path("lm/model.safetensors").unlink()
    assert "lm/model.safetensors does not exist" in refused(neglm, "import", "--pytorch", "lm")
    shutil.rmtree("lm")
    Path("lm").mkdir()
    save_file(tensors, "lm/model.safetensors")
    assert "lm has no words: expected vocab.txt" in refused(neglm, "import", "--pytorch", "lm")
    Path("lm/vocab.json").write_text('{"a": 1}')
    assert "is not a JSON object with a different id, from 0 on" in refused(neglm, "import", "--pytorch", "lm")


def test_what_cannot_be_exported(neglm: Neglm) -> None:
    Path("file").write_bytes(TEXT)
    assert "no model.safetensors here" in refused(neglm, "export", "--pytorch", "lm")
    train(neglm, "neg")
    assert "cannot write" in refused(neglm, "export", "--pytorch", "no/lm")
    assert "cannot write file" in refused(neglm, "export", "--pytorch", "file")
    assert "--contexts is for --output" in refused(neglm, "export", "--pytorch", "lm", "--contexts", code=2)
    assert "exclude each other" in refused(neglm, "export", "--pytorch", "lm", "-o", "x.txt", code=2)
    assert "is one of the inputs" in refused(neglm, "export", "--pytorch", ".", code=2)
