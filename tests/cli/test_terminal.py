"""Terminals never receive control characters from words, names or versions in files; pipes get exact bytes."""

import json
import os
import pty
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError, short, shown, visible
from neglm_cli.store import container
from tests.cli.test_train_lm import SMALL
from tests.conftest import COMMAND, Neglm, users_environment
from tests.sgns.making import some_text

TITLE = b"\x1b]0;owned\x07"  # sets the window title
COLOR = "\x9b31mred".encode()  # like ESC [ 31 m, with a one-character CSI
REVERSED = "\u202egpj.exe".encode()  # displayed as exe.jpg
PERSIAN = "می‌خواهم".encode()  # correctly spelled with a non-joiner
HOSTILE = [TITLE, COLOR, REVERSED, b"\xff\x7f"]
ESCAPED = [r"\x1b]0;owned\x07", r"\x9b31mred", r"\u202egpj.exe", r"\xff\x7f"]
LINE = b" ".join([*HOSTILE, PERSIAN])

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a vocabulary and a model with hostile words."""
    directory = tmp_path_factory.mktemp("hostile")
    (directory / "corpus.txt").write_bytes((LINE + b"\n") * 100 + some_text(500))
    for command in (["vocab", "corpus.txt"], ["train-lm", "corpus.txt", *SMALL]):
        subprocess.run([*COMMAND, *command], cwd=directory, check=True, capture_output=True, env=users_environment())
    return directory


@pytest.fixture
def hostile(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def on_terminal(*arguments: str, stdin: bytes = b"") -> str:
    """Return the output of a command whose standard output and standard error are a terminal."""
    ours, theirs = pty.openpty()
    pieces = []

    def read() -> None:
        try:
            while piece := os.read(ours, 1 << 16):
                pieces.append(piece)
        except OSError:  # on Linux: the other side is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    environment = users_environment() | {"LC_ALL": "C.UTF-8", "TERM": "dumb"}
    result = subprocess.run([*COMMAND, *arguments], input=stdin, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert result.returncode == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")  # strict: invalid UTF-8 must not get through


def piped(*arguments: str, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
    environment = users_environment() | {"LC_ALL": "C.UTF-8"}
    result = subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, env=environment)
    assert result.returncode == code
    return result


PRINTING = {
    "info --words": (["info", "vocab.safetensors", "--words"], b""),
    "generate": (["generate", "--prompt", os.fsdecode(LINE), "--lines", "1"], b""),
    "score --per-word": (["score", "--per-word"], LINE + b"\n"),
    "score --nbest": (["score", "--nbest", "tab"], b"1\t" + LINE + b"\n"),
    "vocab --format text": (["vocab", "corpus.txt", "--format", "text", "-o", "-"], b""),
    "phrases": (["phrases", "corpus.txt", "-o", "-", "--threshold", "99"], b""),
}


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(("arguments", "stdin"), PRINTING.values(), ids=PRINTING)
def test_words_are_exact_in_a_pipe_and_escaped_on_a_terminal(arguments: list[str], stdin: bytes) -> None:
    exact = piped(*arguments, stdin=stdin).stdout
    assert all(word in exact for word in [*HOSTILE, PERSIAN])
    screen = on_terminal(*arguments, stdin=stdin)
    assert not OBEYED.search(screen)
    assert all(word in screen for word in [*ESCAPED, PERSIAN.decode()])


@pytest.mark.usefixtures("hostile")
def test_the_summary_of_a_vocabulary_on_a_terminal() -> None:
    assert not OBEYED.search(on_terminal("vocab", "corpus.txt", "-o", "/dev/null"))


@pytest.mark.usefixtures("hostile")
def test_metadata_in_info_stay_on_their_line() -> None:
    stored = container.read("vocab.safetensors")
    fields = {name: value for name, value in stored.fields.items() if name != "checksum"}
    fields["tool_version"] = "\x1b[2J\n  checksum verified"
    container.write("hostile.safetensors", stored.kind, fields, stored.tensors)
    for output in (piped("info", "hostile.safetensors").stdout.decode(), on_terminal("info", "hostile.safetensors")):
        assert not OBEYED.search(output)
        assert re.search(r"\\x1b\[2J +checksum verified", output)


@pytest.mark.usefixtures("hostile")
def test_json_stays_json_without_control_characters() -> None:
    output = piped("info", "vocab.safetensors", "--words", "--json").stdout.decode()
    assert not OBEYED.search(output)
    assert {word for word, _ in json.loads(output)} >= {TITLE.decode(), COLOR.decode(), REVERSED.decode()}


def test_section_names_of_analogies(hostile: Path) -> None:
    Path("questions.txt").write_bytes(b": \x1b[2Jcapitals\nw1 w2 w3 w4\n")
    piped("embed", "corpus.txt", "--size", "4", "--min-count", "1", "--no-cache", "--vocab", "vocab.safetensors")
    for output in (piped("eval", "vectors.safetensors", "--analogy", "questions.txt").stdout.decode(),
                   on_terminal("eval", "vectors.safetensors", "--analogy", "questions.txt")):  # fmt: skip
        assert not OBEYED.search(output)
        assert "\\x1b[2Jcapitals" in output


def from_the_future(header: dict[str, dict[str, str]]) -> None:
    header["__metadata__"] |= {"format_version": "99", "tool_version": "\x1b[2J\nneglm: all is well"}


def of_another_kind(header: dict[str, dict[str, str]]) -> None:
    header["__metadata__"]["kind"] = "\x1b[2J\u202e"


@pytest.mark.parametrize("change", [from_the_future, of_another_kind])
def test_errors_are_one_escaped_line(hostile: Path, change: Callable[[dict[str, dict[str, str]]], None]) -> None:
    whole = Path("vocab.safetensors").read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    Path("changed").write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + size :])
    stderr = piped("embed", "corpus.txt", "--vocab", "changed", code=1).stderr.decode()
    assert stderr.startswith("neglm: changed ")
    assert stderr.count("\n") == 1
    assert not OBEYED.search(stderr)
    assert re.search(r"\\(x|u00)1b\[2J", stderr)


def test_debug_is_escaped_too(neglm: Neglm) -> None:
    Path("pairs.txt").write_bytes(b"a b 1\n")
    name = "\x1b[2J.txt"
    stderr = neglm("eval", "pairs.txt", "--similarity", name, "--debug", code=1).stderr.decode()
    assert "Traceback" in stderr
    assert not OBEYED.search(stderr)


def test_the_one_function() -> None:
    assert visible("a\tb\n\x1b\x7f\x85\u202e\u2066\udcff") == r"a\tb\n\x1b\x7f\x85\u202e\u2066\udcff"
    assert visible("naïve 日本 👍 " + PERSIAN.decode()) == "naïve 日本 👍 " + PERSIAN.decode()
    assert visible(visible("\x1b")) == visible("\x1b")
    assert short("\x1b" * 9, 5) == r"\x1b\…"
    assert short("12345", 5) == "12345"
    assert shown("a\nb") == r"'a\nb'"
    assert shown("") == "''"
    assert shown("plain name.txt") == "plain name.txt"
    assert str(NeglmError("what\x1b[2J\nneglm: fine")) == r"what\x1b[2J\nneglm: fine"


def test_a_stored_name_in_python(workplace: Path) -> None:
    with pytest.raises(NeglmError, match=r"^'a\\x1b' does not exist$"):
        container.read("a\x1b")
