"""ONNX graphs in onnxruntime: the log-probabilities of `neglm score`, for every loss."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.interop.network import Network
from neglm_cli.lm.model import LanguageModel
from tests.conftest import Neglm, one_sentence, only_text
from tests.interop.making import MODELS, TEXT, line_scores, tie, train, word_scores

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NATS = 1e-4


def session(path: str) -> Any:
    onnx.checker.check_model(path, full_check=True)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def zeros(opened: Any, rows: int) -> np.ndarray:
    metadata = opened.get_modelmeta().custom_metadata_map
    return np.zeros((int(metadata["num_layers"]), rows, int(metadata["hidden_size"])), np.float32)


def lines_of(rows: list[tuple[str, int, float]]) -> list[list[int]]:
    """Return the ids of each line of the text, without its end."""
    lines: list[list[int]] = [[]]
    for word, number, _ in rows:
        if word == "<eos>":
            lines.append([])
        else:
            lines[-1].append(number)
    return lines[:-1]


@pytest.mark.parametrize("steps", [1, 7, 1000])
@pytest.mark.parametrize("name", MODELS)
def test_the_stateful_graph_gives_the_log_probabilities_of_score(neglm: Neglm, name: str, steps: int) -> None:
    train(neglm, name)
    neglm("export", "--onnx", "lm.onnx")
    opened, expected = session("lm.onnx"), word_scores(neglm, "--carry")
    end = int(opened.get_modelmeta().custom_metadata_map["sos_id"])
    ids = np.array([end, *(number for _, number, _ in expected)])
    h = c = zeros(opened, 1)
    found = []
    for at in range(0, len(expected), steps):
        inputs, targets = ids[:-1][at : at + steps], ids[1:][at : at + steps]
        log_probs, h, c = opened.run(None, {"ids": inputs[None], "h": h, "c": c})
        found += log_probs[0, np.arange(len(targets)), targets].tolist()
        np.testing.assert_allclose(np.exp(log_probs).sum(axis=2), 1, atol=1e-4)
    np.testing.assert_allclose(found, [score for *_, score in expected], atol=NATS, rtol=0)


def test_a_tied_model_gives_the_log_probabilities_of_its_tables(neglm: Neglm) -> None:
    from neglm_cli.interop import onnx_files

    train(neglm, "softmax")
    tied = tie("model.safetensors")
    onnx_files.export(tied, "lm.onnx", False)
    opened, expected = session("lm.onnx"), word_scores(neglm, "--carry")
    ids = np.array([tied.end_of_line, *(number for _, number, _ in expected)])
    state = zeros(opened, 1)
    (log_probs,) = opened.run(["log_probs"], {"ids": ids[None, :-1], "h": state, "c": state})
    found = log_probs[0, np.arange(len(expected)), ids[1:]]
    np.testing.assert_allclose(found, [score for *_, score in expected], atol=NATS, rtol=0)


def test_rows_of_a_batch_are_independent(neglm: Neglm) -> None:
    train(neglm, "neglm, reset")
    neglm("export", "--onnx", "lm.onnx")
    opened = session("lm.onnx")
    random = np.random.default_rng(1)
    ids = random.integers(0, 20, (3, 11))
    together = opened.run(None, {"ids": ids, "h": zeros(opened, 3), "c": zeros(opened, 3)})
    for row in range(3):
        alone = opened.run(None, {"ids": ids[[row]], "h": zeros(opened, 1), "c": zeros(opened, 1)})
        np.testing.assert_allclose(together[0][[row]], alone[0], atol=1e-5)
        np.testing.assert_allclose(together[2][:, [row]], alone[2], atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_scoring_graph_gives_the_scores_of_lines(neglm: Neglm, name: str) -> None:
    """As sherpa-onnx calls it: all lines at once, padded with 0."""
    train(neglm, name)
    Path("test.txt").write_bytes(TEXT.replace(b"<eos>", b"w5"))
    neglm("export", "--onnx", "lm.onnx")
    lines, expected = lines_of(word_scores(neglm)), line_scores(neglm)
    x = np.zeros((len(lines), max(map(len, lines))), np.int64)
    for row, line in enumerate(lines):
        x[row, : len(line)] = line
    opened = session("lm.no-state.onnx")
    (nll,) = opened.run(["nll"], {"x": x, "x_lens": np.array([len(line) for line in lines])})
    assert nll.shape == (len(lines),)
    lengths = np.array([len(line) + 1 for line in lines])
    np.testing.assert_allclose(-nll / lengths, expected / lengths, atol=NATS, rtol=0)
    (alone,) = opened.run(None, {"x": x[[1], : len(lines[1])], "x_lens": np.array([len(lines[1])])})
    assert alone[0] == pytest.approx(nll[1], abs=1e-4)


def test_names_and_metadata_are_icefalls(neglm: Neglm) -> None:
    train(neglm, "neglm-b")
    result = json.loads(neglm("export", "--onnx", "lm.onnx", "--json").stdout)
    assert result["companions"] == ["lm.no-state.onnx", "lm.tokens.txt"]
    assert sorted(name for name in os.listdir() if name.startswith("lm")) == sorted(["lm.onnx", *result["companions"]])
    stateful, scoring = session("lm.onnx"), session("lm.no-state.onnx")
    assert [value.name for value in stateful.get_inputs()] == ["ids", "h", "c"]
    assert [value.name for value in stateful.get_outputs()] == ["log_probs", "next_h", "next_c"]
    assert [value.name for value in scoring.get_inputs()] == ["x", "x_lens"]
    assert [value.name for value in scoring.get_outputs()] == ["nll"]
    words = neglm("info", "model.safetensors", "--words").stdout.splitlines()
    end = [line.split(b"\t")[0] for line in words].index(b"<eos>")
    for opened in (stateful, scoring):
        metadata = opened.get_modelmeta().custom_metadata_map
        assert metadata["model_type"] == "rnnlm"
        assert (metadata["sos_id"], metadata["eos_id"], metadata["vocab_size"]) == (str(end), str(end), "179")
        assert (metadata["num_layers"], metadata["hidden_size"], metadata["embedding_dim"]) == ("3", "9", "5")
    tokens = [line.split(b" ") for line in Path("lm.tokens.txt").read_bytes().splitlines()]
    assert tokens == [[line.split(b"\t")[0], b"%d" % number] for number, line in enumerate(words)]


@pytest.mark.parametrize("name", ["neglm", "softmax, reset"])
def test_int8_graphs_are_smaller_and_nearly_as_good(neglm: Neglm, name: str) -> None:
    train(neglm, name)
    result = json.loads(neglm("export", "--onnx", "lm.onnx", "--int8", "--test", "test.txt", "--json").stdout)
    full, small = result["compared"]
    assert [full["file"], small["file"]] == ["lm.onnx", "lm.int8.onnx"]
    for each in (full, small):
        assert each["bytes"] == os.path.getsize(each["file"])
    assert small["bytes"] < full["bytes"]
    expected = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)["perplexity"]
    assert full["perplexity"] == pytest.approx(expected, rel=1e-5)
    assert small["perplexity"] != full["perplexity"]
    assert small["perplexity"] == pytest.approx(expected, rel=0.05)
    session("lm.no-state.int8.onnx")


def test_the_comparison_needs_a_text(neglm: Neglm) -> None:
    train(neglm, "nce")
    done = neglm("export", "--onnx", "lm.onnx", "--int8")
    assert b"name a text with --test to compare perplexities" in done.stderr
    assert b"perplexity" not in done.stdout
    neglm("train-lm", "corpus.txt", "--hidden", "4", "--epochs", "1", "--valid", "test.txt", "--no-cache", "--quiet")
    done = neglm("export", "--onnx", "lm.onnx", "--int8")
    assert done.stdout.count(b"words/s") == 2


def test_a_table_that_is_too_large_is_refused(neglm: Neglm, monkeypatch: pytest.MonkeyPatch) -> None:
    from neglm_cli.errors import NeglmError
    from neglm_cli.interop import onnx_files

    train(neglm, "nce")
    monkeypatch.setattr(onnx_files, "MAX_BYTES", 1000)
    with pytest.raises(NeglmError, match="an ONNX file holds 1,000; use --pytorch"):
        onnx_files.export(Network.of(LanguageModel.load("model.safetensors")), "lm.onnx", False)
    assert not os.path.exists("lm.onnx")


def test_wrong_usage(neglm: Neglm) -> None:
    train(neglm, "nce")
    for arguments, expected in (
        (("--int8", "-o", "x.txt"), "--int8 is for --onnx"),
        (("--onnx", "lm.onnx", "--license", "mit"), "--license is for --hub"),
        (("--onnx", "lm.onnx", "--pytorch", "lm"), "--pytorch and --onnx exclude each other"),
    ):
        assert expected in one_sentence(neglm("export", *arguments, code=2).stderr)
    assert "cannot write" in one_sentence(neglm("export", "--onnx", "no/lm.onnx", code=1).stderr)
    neglm("export", "-o", "vectors.bin", "model.safetensors")
