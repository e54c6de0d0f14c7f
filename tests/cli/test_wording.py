"""Errors say what to do: for missing files, files of the wrong kind, and finished trainings."""

import os
import pty
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import COMMAND, Neglm, one_sentence, users_environment
from tests.vectors.making import vectors_of

TEXT = b"the cat sat on the mat\n" * 50
SMALL = ("--hidden", "8", "--batch", "4", "--bptt", "10", "--epochs", "1", "--threads", "1")


@pytest.fixture
def files(workplace: Path) -> Path:
    vectors_of({b"a": [1, 0], b"b": [0, 1]}).save("some.safetensors")
    Path("text.txt").write_bytes(TEXT)
    return workplace


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("score", "no model.safetensors here; train one with `neglm train-lm`, or name another file"),
        ("next", "no model.safetensors here; train one with `neglm train-lm`, or name another file"),
        ("generate", "no model.safetensors here; train one with `neglm train-lm`, or name another file"),
        ("eval --test text.txt", "no model.safetensors here; train one with `neglm train-lm`, or name another file"),
        ("nearest a", "no vectors.safetensors here; train some with `neglm embed`, or name another file"),
        ("analogy a b c", "no vectors.safetensors here; train some with `neglm embed`, or name another file"),
        ("info vocab.safetensors", "no vocab.safetensors here; make one with `neglm vocab`, or name another file"),
        ("nearest a --vectors sone.safetensors", "sone.safetensors does not exist; did you mean some.safetensors?"),
        ("vocab text.tx", "text.tx does not exist; did you mean text.txt?"),
        ("vocab elsewhere.doc", "elsewhere.doc does not exist"),
        (
            "score some.safetensors",
            "some.safetensors contains word vectors; expected a language model (neglm train-lm)",
        ),
        ("score words", "words contains a vocabulary; expected a language model (neglm train-lm)"),
        (
            "nearest a --vectors words",
            "words contains a vocabulary; expected word vectors (neglm embed) or a language model (neglm train-lm)",
        ),
    ],
)  # fmt: skip
def test_files_that_are_not_what_is_needed(neglm: Neglm, files: Path, command: str, sentence: str) -> None:
    if "words" in command:
        neglm("vocab", "text.txt", "-o", "words")
    assert one_sentence(neglm(*command.split(), code=1).stderr) == f"neglm: {sentence}"


def test_vectors_of_other_tools(neglm: Neglm, files: Path) -> None:
    forms = {
        "word2vec.txt": b"2 3\na 1 0 0.5\nb 0 1 1e-5\n",
        "glove.txt": b"a 1 0 0.5\nb 0 1 1e-5\n",
        "word2vec.bin": b"2 3\na " + np.ones(3, np.float32).tobytes() + b"\nb ",
        "fasttext.bin": struct.pack("<ii", 793712314, 12),
    }
    np.save("matrix.npy", np.ones((2, 3)))
    for name, data in forms.items():
        Path(name).write_bytes(data)
    for name in (*forms, "matrix.npy"):
        sentence = one_sentence(neglm("nearest", "a", "--vectors", name, code=1).stderr)
        assert sentence == f"neglm: {name} is not a neglm file; convert it with `neglm import`"
    assert one_sentence(neglm("info", "text.txt", code=1).stderr) == "neglm: text.txt is not a neglm file"


def test_finished_trainings(neglm: Neglm, files: Path) -> None:
    """Resuming one is an error that offers an alternative; a new one names the model it replaces."""
    for command, output, start in (
        (("embed", "text.txt", "--size", "4", "--min-count", "1"), "vectors.safetensors", "--init-vectors"),
        (("train-lm", "text.txt", *SMALL), "model.safetensors", "--init-vectors"),
    ):
        assert b"will replace" not in neglm(*command).stderr
        os.utime(output, (1e9, 1e9))
        refused = one_sentence(neglm(command[0], "--resume", "--epochs", "50", code=1).stderr)
        assert f"{output} is finished, and only an unfinished training can be resumed: to train for more" in refused
        assert f"with {start} {output} and another output, a new training starts from its vectors" in refused
        said = neglm(*command).stderr.decode()
        assert f"this training will replace {output} (written 2001-09-09" in said
        assert said.count("will replace") == 1
        assert b"will replace" not in neglm(*command, "--quiet").stderr


def test_what_is_wrong_is_said_before_long_work(neglm: Neglm, files: Path) -> None:
    neglm("vocab", "text.txt", "-o", "words")
    for command, sentence in (
        (("train-lm", "text.txt", *SMALL, "--valid", "none.doc"), "none.doc does not exist"),
        (("train-lm", "text.txt", *SMALL, "--init-vectors", "none.doc"), "none.doc does not exist"),
        (("train-lm", "text.txt", *SMALL, "--init-vectors", "some.safetensors"), "use --embedding 2"),
        (("embed", "text.txt", "--init-vectors", "none.doc"), "none.doc does not exist"),
        (("embed", "text.txt", "--min-count", "1", "--init-vectors", "some.safetensors"), "use --size 2"),
    ):
        assert sentence in one_sentence(neglm(*command, code=1, NEGLM_CACHE=str(files / "cache")).stderr)
        assert not Path("cache").exists()


@pytest.mark.parametrize("command", ["vocab -", "embed - --min-count 1 --size 4", "phrases -", "score"])
def test_a_terminal_is_told_that_a_text_is_awaited(neglm: Neglm, files: Path, command: str) -> None:
    if command == "score":
        neglm("train-lm", "text.txt", *SMALL)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *command.split()], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=users_environment(),
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"the cat sat on the mat\n" * 20 + b"\x04")
    _, errors = process.communicate(timeout=300)  # one Ctrl-D is enough
    os.close(ours)
    assert process.returncode == 0, errors
    assert errors.decode().startswith("reading standard input (Ctrl-D ends it) …\n")
