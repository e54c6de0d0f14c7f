"""`--device` on the command line, with Numba's simulator as the GPU."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.cli.app import SUBCOMMANDS
from neglm_cli.cli.manual import parameters
from neglm_cli.lm.devices import is_device
from neglm_cli.lm.model import LanguageModel
from tests.cli.test_train_lm import sentence
from tests.conftest import SIMULATOR, Neglm, only_text

TINY = (
    "--hidden", "3", "--layers", "1", "--k", "2", "--batch", "2", "--bptt", "2", "--no-cache", "--threads", "1",
    "--lr", "0.1",
)  # fmt: skip
SIMULATED = {SIMULATOR: "1", "PYTHONWARNINGS": "ignore"}
ROOT = Path(__file__).parents[2]
TEXT = b"a b c\nb a c\n"


@pytest.fixture
def corpus(workplace: Path) -> Path:
    path = workplace / "corpus.txt"
    path.write_bytes(TEXT)
    return path


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("auto", True), ("cpu", True), ("cuda", True), ("cuda:0", True), ("cuda:12", True), ("gpu", False),
        ("cuda:0,1", True), ("cuda:all", True), ("cuda:0,", False), ("cuda:,1", False), ("cuda:0,all", False),
        ("cuda:", False), ("cuda:x", False), ("cuda:-1", False), ("CPU", False), ("", False), ("cuda:0 ", False),
    ],
)  # fmt: skip
def test_names_of_devices(name: str, good: bool) -> None:
    assert is_device(name) == good


def test_another_name_is_wrong_usage(neglm: Neglm, corpus: Path) -> None:
    for command in (
        ("train-lm", "corpus.txt"), ("eval", "--test", "corpus.txt"), ("score", "model", "corpus.txt"), ("generate",),
        ("next", "--after", "a"),
    ):  # fmt: skip
        result = neglm(*command, "--device", "nonsense", code=2)
        assert b"--device nonsense is none of auto, cpu, cuda" in result.stderr
    assert sorted(os.listdir()) == ["corpus.txt"]


def test_without_a_gpu_it_says_what_is_missing(neglm: Neglm, corpus: Path) -> None:
    from numba import cuda

    if not os.environ.get(SIMULATOR) and cuda.is_available():
        pytest.skip("there is a GPU")
    message = sentence(neglm("train-lm", "corpus.txt", *TINY, "--device", "cuda", code=1).stderr)
    assert message.startswith("neglm: --device cuda cannot be used: ")
    assert "NVIDIA" in message
    assert sorted(os.listdir()) == ["corpus.txt"]


def test_help_says_on_what_the_same_bytes_depend() -> None:
    (page,) = [page for page in SUBCOMMANDS if page.name == "train-lm"]
    (seed,) = [option for option in parameters(page)[1] if "same bytes" in option.help]
    assert "on the CPU with the same threads and on the same model of GPU" in seed.help


def test_auto_takes_no_simulator(neglm: Neglm, corpus: Path) -> None:
    """The model is the same with and without a GPU."""
    neglm("train-lm", "corpus.txt", *TINY, "--epochs", "1", "--output", "one", **SIMULATED)
    neglm("train-lm", "corpus.txt", *TINY, "--epochs", "1", "--output", "two", "--device", "cpu")
    assert Path("one").read_bytes() == Path("two").read_bytes()


def simulated(*arguments: str) -> subprocess.Popen[bytes]:
    """Run neglm on Numba's simulator, with the faster schedule."""
    start = "from tests.lm.cuda.turns import take_turns; take_turns(); from neglm_cli.__main__ import main; main()"
    environment = os.environ | SIMULATED | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", start, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


@pytest.mark.slow_gpu
def test_trained_on_both(neglm: Neglm, corpus: Path) -> None:
    """A run killed on the GPU and resumed on the CPU ends like one on the CPU alone; both give the same scores."""
    options = ("corpus.txt", *TINY, "--epochs", "3")
    neglm("train-lm", *options, "--output", "cpu", "--device", "cpu")
    state = Path("both.partial")
    with simulated("train-lm", *options, "--output", "both", "--device", "cuda", "--checkpoint", "0") as begun:
        while begun.poll() is None and not state.exists():
            time.sleep(0.01)
        begun.kill()
        assert begun.stderr
        assert b"using Numba's simulator (cuda:0)" in begun.stderr.read()
    neglm("train-lm", "--resume", "--output", "both", "--device", "cpu", "--no-cache")
    both, alone = LanguageModel.load("both"), LanguageModel.load("cpu")
    for name, tensor in alone.tensors.items():
        np.testing.assert_allclose(both.tensors[name], tensor, rtol=1e-4, atol=1e-5, err_msg=name)
    evaluate = ("eval", "cpu", "--test", "corpus.txt", "--json", "--device")
    on_cpu = only_text(neglm(*evaluate, "cpu").stdout)
    output, errors = simulated(*evaluate, "cuda").communicate()
    assert only_text(output)["perplexity"] == pytest.approx(on_cpu["perplexity"], rel=1e-5), errors
    for command in (
        ("score", "cpu", "corpus.txt"), ("generate", "cpu", "--temperature", "0", "--max-words", "3"),
        ("next", "cpu", "--after", "a b"),
    ):  # fmt: skip
        expected = neglm(*command, "--device", "cpu").stdout
        output, errors = simulated(*command, "--device", "cuda").communicate()
        assert output == expected, errors
        assert b"using Numba's simulator (cuda:0)" in errors
