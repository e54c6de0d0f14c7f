"""neglm-format(5): evaluates its formulas and runs its example programs, verbatim."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from neglm_cli.cli import manual_model, manual_programs
from neglm_cli.cli.manual import pages
from neglm_cli.cli.roff import verbatim
from neglm_cli.kernels import kernel
from neglm_cli.lm import reference, scalar
from neglm_cli.lm.cpu.optimizer import Moments, Update, update_range
from neglm_cli.lm.optimizers import KINDS, step_rate
from neglm_cli.objective.losses import logit_offsets, train_offsets
from neglm_cli.objective.noise import probabilities
from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.parameters import OPTIMIZERS
from neglm_cli.settings.train_lm import Settings
from tests.conftest import Neglm, one_sentence, only_text
from tests.lm import making
from tests.sgns.making import some_text

PYTORCH = os.environ.get("PEERS", sys.executable)  # a Python that may have PyTorch: PEERS as in the Makefile
PROGRAMS = ("VOCABULARY", "QUANTIZED", "PYTORCH", "NUMPY", "CHECKSUM")  # in the page's order
MODELS = {
    "neglm": "--layers 2",
    "neglm, log Z = 0": "--noise-alpha 0.75 --log-z 0 --layers 1",
    "neglm, reset": "--reset-at-eos --layers 2",
    "neglm-b": "--loss neglm-b --layers 3 --embedding 5",
    "neglm-b, reset": "--loss neglm-b --layers 1 --reset-at-eos --noise-alpha 0.5 --log-z 2",
    "nce": "--loss nce --layers 1 --embedding 12",
    "nce, reset": "--loss nce --layers 2 --log-z 2 --reset-at-eos",
    "neg": "--loss neg --layers 2 --noise-alpha 0.75",
    "neg, reset": "--loss neg --layers 1 --reset-at-eos",
    "softmax": "--loss softmax --layers 2",
    "softmax, reset": "--loss softmax --layers 1 --reset-at-eos",
    "tied": "--tie --layers 2 --recurrent-dropout 0.2 --average 1 --epochs 2",
}
TEXT = some_text(150, seed=3) + b"nowhere <unk> w1\n\nw3 <eos> w2 w1\n w2\tw1"  # the last line has no end


def examples(page: str) -> dict[str, str]:
    """Return the programs of EXAMPLES, by the name of their source."""
    blocks = re.findall(r"^\.EX\n(.*?)^\.EE\n", page.partition(".SH EXAMPLES\n")[2], re.DOTALL | re.MULTILINE)
    plain = {r"\-": "-", r"\e": "\\", r"\&": "", r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~"}
    found = [re.sub(r"\\(?:\(..|.)", lambda match: plain[match[0]], block) for block in blocks]
    return dict(zip(PROGRAMS, found, strict=True))


EXAMPLES = examples(pages()["neglm-format.5"])


def run(name: str, *arguments: str, python: str = sys.executable, code: int = 0) -> str:
    """Run an example, without neglm on its path."""
    Path(f"{name}.py").write_text(EXAMPLES[name], encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, f"{name}.py", *arguments], capture_output=True, text=True, encoding="utf-8", env=environment
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def has_pytorch() -> bool:
    found = subprocess.run([PYTORCH, "-c", "import torch, safetensors"], capture_output=True)
    return found.returncode == 0


# --- the page as it is read ------------------------------------------------------------------------------


def test_examples_are_the_programs_in_the_source() -> None:
    for name, program in EXAMPLES.items():
        assert program == getattr(manual_programs, name).lstrip("\n")
        assert max(map(len, program.splitlines())) <= 80 - 11  # man's indentation


def test_tensor_names_and_symbols_are_readable() -> None:
    page = pages()["neglm-format.5"]
    assert "\N{GREEK CAPITAL LETTER ALPHA}" not in page
    explained = page.partition(".SH LETTERS")[2].partition(".SH ")[0]
    for name in set(re.findall(r"\{\w+\}", page.partition(".SH EXAMPLES")[0])):
        assert name in explained


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man(1) here")
def test_programs_can_be_copied_from_the_output_of_man(workplace: Path) -> None:
    Path("page.5").write_text(pages()["neglm-format.5"], encoding="utf-8")
    environment = os.environ | {"MANWIDTH": "120"}
    command = ["man", "-E", "UTF-8", "-l", "page.5"]
    shown = subprocess.run(command, capture_output=True, env=environment, check=True).stdout.decode()
    plain = re.sub(r"\x1b\[[\d;]*m|.\x08", "", shown)
    for program in EXAMPLES.values():
        assert "\n".join(f"{' ' * 11 if line else ''}{line}" for line in program.splitlines()) in plain


@pytest.mark.skipif(not shutil.which("groff"), reason="there is no groff(1) here")
def test_code_stays_ascii_in_groff() -> None:
    line = r""".x = '"`^~\-' + "\n" - 1"""
    page = "\n".join([".nf", *(part for part in verbatim(line) if part not in (".PP", ".RS 4", ".EX", ".EE", ".RE"))])
    shown = subprocess.run(["groff", "-Tutf8"], input=page.encode() + b"\n", capture_output=True, check=True).stdout
    assert shown.decode().replace("\N{MINUS SIGN}", "-").strip() == line  # only man's macros make \- ASCII


# --- programs --------------------------------------------------------------------------------------------


def test_a_vocabulary_is_read(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(b"a b a\n")
    neglm("vocab", "corpus.txt")
    assert run("VOCABULARY") == "b'a' 2 vocabulary\n"


@pytest.mark.parametrize("dsub", ["2", "3"])
def test_quantized_vectors_are_decoded(neglm: Neglm, dsub: str) -> None:
    Path("corpus.txt").write_bytes(some_text(3000))
    neglm("embed", "corpus.txt", "--size", "8", "--min-count", "1", "--epochs", "1", "--threads", "1", "--no-cache")
    neglm("export", "--quantize", "-o", "small.safetensors", "--dsub", dsub)
    decoded = [line.split(" ") for line in run("QUANTIZED").splitlines()]
    words = [word for word, *_ in decoded]
    asked = neglm("vectors", *words, "-m", "small.safetensors").stdout.decode()
    expected = [line.split(" ") for line in asked.splitlines()]
    assert words == [word for word, *_ in expected]
    assert len(words) > 10
    found, correct = (np.array([row[1:] for row in rows], np.float32) for rows in (decoded, expected))
    np.testing.assert_allclose(found, correct, rtol=1e-6)


def scores(output: str) -> list[tuple[str, int, float]]:
    """Parse word, id and logarithm from the output of `neglm score --per-word`."""
    rows = [line.split("\t") for line in output.splitlines() if line]
    return [(word, int(id_), float(value)) for word, id_, value, _ in rows]


@pytest.mark.parametrize("options", MODELS.values(), ids=list(MODELS))
def test_readers_of_language_models_match_neglm(neglm: Neglm, has_pytorch: bool, options: str) -> None:
    Path("corpus.txt").write_bytes(some_text(1000))
    Path("test.txt").write_bytes(TEXT)
    neglm(
        "train-lm",
        "corpus.txt",
        *making.SMALL_OPTIONS,
        *(() if "--tie" in options else making.OWN_TABLE),
        *options.split(),
    )
    asked = ("score", "model.safetensors", "test.txt", "--carry", "--per-word", "--base", "e")
    normalized = scores(neglm(*asked).stdout.decode())
    unnormalized = scores(neglm(*asked, "--unnormalized").stdout.decode())
    figures = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)
    readers = {"NUMPY": sys.executable} | ({"PYTORCH": PYTORCH} if has_pytorch else {})
    for name, python in readers.items():
        rows = [line.split(" ") for line in run(name, "model.safetensors", "test.txt", python=python).splitlines()]
        assert [(word, int(id_)) for word, id_, _, _ in rows] == [row[:2] for row in normalized]
        log_p, logit = np.array([[float(row[2]), float(row[3])] for row in rows]).T
        np.testing.assert_allclose(log_p, [row[2] for row in normalized], atol=1e-5, rtol=0)
        np.testing.assert_allclose(logit, [row[2] for row in unnormalized], atol=1e-5, rtol=0)
        assert len(rows) == figures["tokens"] + figures["lines"]
        assert math.exp(-log_p.mean()) == pytest.approx(figures["perplexity"], rel=1e-5)
        assert math.exp(-logit.mean()) == pytest.approx(figures["unnormalized_perplexity"], rel=1e-5)
        assert (logit - log_p).mean() == pytest.approx(figures["log_z_mean"], abs=1e-5)
        assert (logit - log_p).std() == pytest.approx(figures["log_z_std"], abs=1e-4)


def test_readers_handle_files_with_reset_only_in_arguments(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(some_text(1000))
    Path("test.txt").write_bytes(TEXT)
    neglm("train-lm", "corpus.txt", *making.SMALL_OPTIONS, "--reset-at-eos")
    with safe_open("model.safetensors", "numpy") as file:
        metadata = {name: text for name, text in file.metadata().items() if name != "reset_at_eos"}
    save_file(load_file("model.safetensors"), "older.safetensors", metadata)
    run("CHECKSUM", "--write", "older.safetensors")
    found = neglm("score", "older.safetensors", "test.txt", "--carry", "--per-word", "--base", "e").stdout.decode()
    rows = [line.split(" ") for line in run("NUMPY", "older.safetensors", "test.txt").splitlines()]
    np.testing.assert_allclose([float(row[2]) for row in rows], [row[2] for row in scores(found)], atol=1e-5, rtol=0)


def test_pytorch_is_installed_if_required(has_pytorch: bool) -> None:
    if "PEERS" in os.environ:
        assert has_pytorch, f"{PYTORCH} has no PyTorch, or no safetensors"


def test_eval_counts_line_ends_but_not_as_words(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(some_text(1000))
    Path("test.txt").write_bytes(b"w1 w2\nw3\n\n")
    neglm("train-lm", "corpus.txt", *making.SMALL_OPTIONS)
    found = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)
    assert (found["tokens"], found["lines"]) == (3, 3)
    assert found["perplexity"] == pytest.approx(10 ** (-found["log10_probability"] / 6), rel=1e-6)
    assert found["bits_per_word"] == pytest.approx(-found["log10_probability"] / math.log10(2) / 6, rel=1e-6)


def test_a_checksum_is_verified_and_written(neglm: Neglm) -> None:
    """Also for a file written by safetensors itself, in its own order."""
    Path("corpus.txt").write_bytes(b"a b a\n")
    neglm("vocab", "corpus.txt")
    run("CHECKSUM", "vocab.safetensors")
    with safe_open("vocab.safetensors", "numpy") as file:
        metadata = file.metadata()
    save_file(load_file("vocab.safetensors"), "mine.safetensors", metadata | {"checksum": "0" * 32})
    assert "wrong checksum" in run("CHECKSUM", "mine.safetensors", code=1)
    assert "checksum" in one_sentence(neglm("info", "mine.safetensors", code=1).stderr)
    run("CHECKSUM", "--write", "mine.safetensors")
    run("CHECKSUM", "mine.safetensors")
    outputs = [neglm("info", f"{name}.safetensors", "--words").stdout for name in ("vocab", "mine")]
    assert outputs[0].splitlines()[1:] == outputs[1].splitlines()[1:]


# --- formulas --------------------------------------------------------------------------------------------


def test_losses_match_the_table() -> None:
    assert set(manual_model.LOSSES) == set(LOSSES)
    random = np.random.default_rng(1)
    counts = making.counts(20)
    for name, formulas in manual_model.LOSSES.items():
        log_z = 1.5 if LOSSES[name].log_z else 0.0
        given: dict[str, Any] = {
            "x": random.normal(size=20),
            "b": random.normal(size=20),
            "k": 7,
            "log_z": log_z,
            "log": np.log,
        }
        given |= {"counts": counts, "noise_alpha": 0.75, "sum": sum}
        exec(manual_model.NOISE, given)
        raw = given["x"] + LOSSES[name].bias * given["b"]
        noise = probabilities(counts, 0.75)
        for formula, offsets in ((formulas.score, train_offsets), (formulas.logit, logit_offsets)):
            np.testing.assert_allclose(eval(formula, given), raw + offsets(name, noise, 7, log_z), rtol=1e-12)


def test_a_layer_matches_the_formulas() -> None:
    model = making.ReferenceTraining(making.SMALL, 20).model
    random = np.random.default_rng(1)
    h, c = random.normal(size=(2, 2, 1, 13))
    passed = reference.forward(model, np.array([[5]]), list(h), list(c))
    given: dict[str, Any] = {"x": model.embedding[[5]], "sigmoid": scalar.sigmoid, "tanh": np.tanh}
    given["split"] = lambda z, parts: np.split(z, parts, axis=1)
    for n in range(2):
        given |= {"h": h[n], "c": c[n], "w_ih": model.w_ih[n], "w_hh": model.w_hh[n], "bias": model.bias[n]}
        for formula in manual_model.NETWORK:
            exec(formula.replace("lstm.n.", ""), given)
        np.testing.assert_allclose(given["h"], passed.h[n], rtol=1e-12)
        np.testing.assert_allclose(given["c"], passed.c[n], rtol=1e-12)
        given["x"] = given["h"]


def test_optimizers_match_the_formulas() -> None:
    """Gradients are so small that epsilon, and its position, matter."""
    random = np.random.default_rng(1)
    assert set(manual_model.OPTIMIZERS) == set(OPTIMIZERS)
    for name, formulas in manual_model.OPTIMIZERS.items():
        kind, lr = KINDS[name], 0.5
        p, m, v = (np.zeros((1, 8), np.float32) for _ in range(3))
        given: dict[str, Any] = {"p": np.zeros(8), "m": np.zeros(8), "v": np.zeros(8), "lr": lr, "sqrt": np.sqrt}
        for step in range(1, 6):
            g = random.normal(0, 3e-8, (1, 8)).astype(np.float32)
            update = Update(kind, step, step_rate(kind, lr, step), np.float32(1))
            kernel(update_range)(Moments(p, m, v), g, 0, 1, update)
            given |= {"g": g[0].astype(np.float64), "t": step}
            for formula in formulas:
                exec(formula, given)
        np.testing.assert_allclose(p[0], given["p"], rtol=1e-4)


OPTIMIZERS_IN_PYTORCH = """
import math, torch
torch.manual_seed(1)
for ours in ("adagrad", "adam"):
    a, p, m, v = torch.zeros(4, 8, dtype=torch.float64).unbind()
    a, lr = torch.nn.Parameter(a), 0.5
    peer = torch.optim.Adagrad([a], lr, eps=1e-8) if ours == "adagrad" else torch.optim.Adam([a], lr)
    sqrt = lambda x: x.sqrt() if isinstance(x, torch.Tensor) else math.sqrt(x)
    for t in range(1, 6):
        g = a.grad = torch.randn(8, dtype=torch.float64) * 3e-8
        if ours == "adam":
            peer.param_groups[0]["eps"] = 1e-8 / math.sqrt(1 - 0.999**t)
        peer.step()
        for formula in FORMULAS[ours]:
            exec(formula)
    assert torch.allclose(a, p, rtol=1e-9, atol=0), (a, p)
assert torch.optim.Adagrad([a]).defaults["eps"] == 1e-10
"""


def test_pytorch_optimizers_agree_as_documented(has_pytorch: bool) -> None:
    if not has_pytorch:
        pytest.skip("there is no PyTorch here")
    program = f"FORMULAS = {manual_model.OPTIMIZERS!r}\n{OPTIMIZERS_IN_PYTORCH}"
    subprocess.run([PYTORCH, "-c", program], check=True)


@pytest.mark.parametrize("schedule", manual_model.LEARNING_RATES)
def test_learning_rate(schedule: str) -> None:
    settings = Settings(lr=0.7, schedule=schedule, decay=1.3, decay_from=4, epochs=9)
    given = {"lr": 0.7, "decay": 1.3, "decay_from": 4, "epochs": 9, "cos": math.cos, "pi": math.pi, "minibatches": 5}
    perplexities = [9, 8, 8, 7, 7.5, 6, 5, 6, 4]
    worse = [0, 0, 0, 1, 1, 2, 2, 2, 3]  # before each epoch
    for epoch, minibatch in product(range(1, 10), range(5)):
        rate = settings.rate(epoch - 1, minibatch / 5, perplexities[: epoch - 1])
        values = given | {"epoch": epoch, "minibatch": minibatch, "worse": worse[epoch - 1]}
        assert rate == pytest.approx(eval(manual_model.LEARNING_RATES[schedule], values))


def test_the_reported_norm_is_before_clipping() -> None:
    norms = []
    for clip in (1e-3, 1e3):
        settings = replace(making.SMALL, clip=clip, dropout=0.0)
        device = making.device(settings, 20)
        norms.append(device.train(making.minibatch(settings, 20, 0)).result().norm)
        device.close()
    assert norms[0] == norms[1] > 1e-3


# --- progress --------------------------------------------------------------------------------------------


def test_progress_keys_are_as_documented(neglm: Neglm) -> None:
    text = some_text(1000)
    Path("corpus.txt").write_bytes(text)
    Path("valid.txt").write_bytes(TEXT)
    neglm("train-lm", "corpus.txt", *making.SMALL_OPTIONS, "--valid", "valid.txt", "--log", "log")
    with safe_open("model.safetensors", "numpy") as file:
        progress = json.loads(file.metadata()["progress"])
    ends = [line for line in map(json.loads, Path("log").read_text().splitlines()) if line["event"] == "epoch"]
    epochs = progress["epoch"]  # the best one's
    per_row = (len(text.split()) + text.count(b"\n") - 1) // 3
    assert progress["words"] == epochs * per_row * 3
    assert progress["step"] == epochs * -(-per_row // 6)
    assert (progress["minibatch"], progress["loss_sum"], progress["loss_words"]) == (0, 0.0, 0)
    assert progress["epoch_losses"] == [end["loss"] for end in ends[:epochs]]
    assert progress["valid_perplexities"] == [end["valid_perplexity"] for end in ends[:epochs]]


def test_a_foreign_model_is_scored_as_documented(neglm: Neglm) -> None:
    """A softmax with random weights, written as documented, without neglm."""
    words = [b"<eos>", b"the", b"<unk>", b"cat"]
    random = np.random.default_rng(1)
    shapes = {"embedding": (4, 3), "output": (4, 5), "output_bias": (4,)}
    for n, inputs in enumerate((3, 5)):
        shapes |= {f"lstm.{n}.w_ih": (inputs, 20), f"lstm.{n}.w_hh": (5, 20), f"lstm.{n}.bias": (20,)}
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    tensors |= {
        "words": np.frombuffer(b"".join(words), np.uint8),
        "offsets": np.cumsum([0, *map(len, words)]),
        "counts": np.array([9, 7, 2, 1]),
    }
    metadata = {
        "checksum": "0" * 32, "format": "neglm", "format_version": "2", "kind": "language model",
        "tool_version": "mine", "arguments": "{}", "corpus": "[]", "validation": "[]", "loss": "softmax", "k": "0",
        "noise_alpha": "1", "log_z": "0", "layers": "2", "reset_at_eos": "false", "progress": "{}",
    }  # fmt: skip
    save_file(tensors, "model.safetensors", metadata)
    run("CHECKSUM", "--write", "model.safetensors")
    Path("test.txt").write_bytes(b"the cat\nthe dog\n")
    found = scores(
        neglm("score", "model.safetensors", "test.txt", "--carry", "--per-word", "--base", "e").stdout.decode()
    )
    expected = [line.split(" ") for line in run("NUMPY", "model.safetensors", "test.txt").splitlines()]
    assert [word for word, _, _ in found] == ["the", "cat", "<eos>", "the", "dog", "<eos>"]
    np.testing.assert_allclose([row[2] for row in found], [float(row[2]) for row in expected], atol=1e-5, rtol=0)
