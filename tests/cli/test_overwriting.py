"""No output overwrites an input, or a file that an input was made from, under any name."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import COMMAND, Neglm, one_sentence
from tests.warm import Warm

TEXT = b"the cat sat on the mat\nthe dog sat on the cat\n" * 10
SMALL = "--hidden 4 --k 2 --threads 1 --no-cache"
TINY = "--size 4 --min-count 1 --threads 1 --no-cache"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, warm: tuple[Warm, dict[str, str]]) -> Path:
    """Make a text, its vocabulary, and vectors and a model that record it."""
    directory = tmp_path_factory.mktemp("made")
    for name in ("corpus.txt", "valid.txt", "other.txt"):
        (directory / name).write_bytes(TEXT)
    for command in ("vocab corpus.txt", f"embed {TINY}", f"train-lm --valid valid.txt --epochs 1 {SMALL}"):
        done = warm[0].run(command.split(), directory)
        assert done.returncode == 0, done.stderr.decode()
    return directory


@pytest.fixture
def made(prepared: Path, workplace: Path) -> None:
    shutil.copytree(prepared, workplace, dirs_exist_ok=True)


def as_symbolic_link(path: str) -> str:
    os.symlink(path, f"link to {path}")
    return f"link to {path}"


def as_hard_link(path: str) -> str:
    os.link(path, f"twin of {path}")
    return f"twin of {path}"


def by_its_name(path: str) -> str:
    return path


COMMANDS = [
    "train-lm --log {corpus.txt}",
    "train-lm --output {corpus.txt}",
    "train-lm other.txt --log {corpus.txt}",
    "train-lm other.txt --valid valid.txt --log {valid.txt}",
    "train-lm --log {vocab.safetensors}",
    "train-lm --init-vectors vectors.safetensors --log {vectors.safetensors}",
    "embed -o {corpus.txt}",
    "embed -o {vocab.safetensors}",
    "embed other.txt -o {corpus.txt}",
    "vocab corpus.txt -o {corpus.txt}",
    "vocab --merge vocab.safetensors -o {corpus.txt}",
    "phrases corpus.txt -o {corpus.txt}",
    "phrases corpus.txt -o out --list {corpus.txt}",
    "export --format text -o {corpus.txt}",
    "export --format text -o {vectors.safetensors}",
    "export model.safetensors --format text -o {valid.txt}",
    "plot vectors.safetensors -o {vectors.svg}",
    "plot --pmi vectors.safetensors -o {text.svg}",
    "import matrix.npy -o {matrix.words.txt}",
    "import matrix.npy -o {matrix.npy}",
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "called"), list(zip(COMMANDS, cycle([by_its_name, as_symbolic_link, as_hard_link]), strict=False))
)
def test_outputs_that_are_inputs(neglm: Neglm, made: None, command: str, called: Callable[[str], str]) -> None:
    np.save("matrix.npy", np.ones((1, 2), np.float32))
    Path("matrix.words.txt").write_text("a\n")
    os.link("vectors.safetensors", "vectors.svg")
    os.link("corpus.txt", "text.svg")
    before, name, after = command.replace("}", "{").split("{")
    output = called(name)
    contents = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    failed = neglm(*before.split(), output, *after.split(), code=2)
    sentence = one_sentence(failed.stderr)
    assert f"the output {output} is " in sentence
    assert "one of the inputs" in sentence or "was made from" in sentence
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == contents


def cut_short(command: str, state: str) -> None:
    """Start a training, and kill it once its state is written."""
    with subprocess.Popen([*COMMAND, *command.split(), "--epochs", "1000000", "--checkpoint", "0"]) as process:
        while not os.path.exists(state):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()


def test_a_training_that_goes_on_remembers_its_texts(neglm: Neglm, made: None) -> None:
    """The log must not overwrite a text of the run being resumed, which only its state names."""
    os.unlink("vocab.safetensors")
    cut_short(f"train-lm corpus.txt --valid valid.txt {SMALL}", "model.safetensors.partial")
    for text in ("corpus.txt", "valid.txt"):
        for called in (by_its_name, as_symbolic_link, as_hard_link):
            failed = neglm("train-lm", "--resume", "--log", log := called(text), code=2)
            assert f"the output {log} is a text that model.safetensors.partial was made from" in one_sentence(
                failed.stderr
            )
            assert Path(text).read_bytes() == TEXT


def test_vectors_whose_training_goes_on_do_not_replace_its_text(neglm: Neglm, made: None) -> None:
    os.unlink("vocab.safetensors")
    cut_short(f"embed corpus.txt {TINY}", "vectors.safetensors.partial")
    os.replace("vectors.safetensors.partial", "corpus.txt.partial")
    failed = neglm("embed", "--resume", "-o", "corpus.txt", code=2)
    assert "the output corpus.txt is a text that corpus.txt.partial was made from" in one_sentence(failed.stderr)
    assert Path("corpus.txt").read_bytes() == TEXT


def test_logs_of_several_processes(neglm: Neglm, made: None) -> None:
    os.link("corpus.txt", "log.0")
    failed = neglm("train-lm", "--log", "log.{rank}", *SMALL.split(), code=2)
    assert "the output log.0 is a text that vocab.safetensors was made from" in one_sentence(failed.stderr)
    assert Path("corpus.txt").read_bytes() == TEXT


def test_two_outputs_that_are_one_file(neglm: Neglm, made: None) -> None:
    os.link("model.safetensors", "log")
    assert "are the same file" in one_sentence(neglm("train-lm", "--log", "log", *SMALL.split(), code=2).stderr)


def test_a_vocabulary_may_be_merged_into_itself(neglm: Neglm, made: None) -> None:
    neglm("vocab", "--merge", "vocab.safetensors", "-o", "vocab.safetensors")
