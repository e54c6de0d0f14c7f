"""Behavior common to all commands: start-up, exit codes, signals, pipes, completion."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neglm_cli import __version__
from neglm_cli.cli.app import SUBCOMMANDS
from neglm_cli.cli.main import run
from tests.conftest import COMMAND, Neglm, one_sentence


def test_help_imports_neither_numpy_nor_numba_nor_matplotlib() -> None:
    script = (
        "import sys; from neglm_cli.cli.main import run; run({}); "
        "print(sorted({{'numpy', 'numba', 'matplotlib'}} & set(sys.modules)))"
    )
    for arguments in (["--help"], *([page.name, "--help"] for page in SUBCOMMANDS)):
        output = subprocess.run(
            [sys.executable, "-c", script.format(arguments)], capture_output=True, check=True
        ).stdout
        assert output.decode().splitlines()[-1] == "[]"


def test_help_has_every_option_and_the_examples(neglm: Neglm) -> None:
    output = neglm("vocab", "--help", COLUMNS="200").stdout.decode()
    for expected in (
        "--min-count",
        "--max-vocab",
        "--threads",
        "--memory",
        "--format",
        "--merge",
        "--output",
        "Examples",
    ):
        assert expected in output
    for example in SUBCOMMANDS[0].examples:
        assert example.command in output


@pytest.mark.parametrize("command", [(), *((page.name,) for page in SUBCOMMANDS)])
def test_help_shows_flags_by_their_names(neglm: Neglm, command: tuple[str, ...]) -> None:
    assert b"<bool>" not in neglm(*command, "--help").stdout


def test_version(neglm: Neglm) -> None:
    assert neglm("--version").stdout.decode() == f"neglm {__version__}\n"


def test_the_installed_command_is_there() -> None:
    script = Path(sys.executable).with_name("neglm")
    assert subprocess.run([script, "--version"], capture_output=True, check=True).stdout.decode().startswith("neglm ")


def test_debug_shows_where_an_error_comes_from(neglm: Neglm) -> None:
    stderr = neglm("vocab", "nothing", "--debug", code=1).stderr.decode()
    assert "Traceback" in stderr
    assert stderr.splitlines()[-1] == "neglm: nothing does not exist"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("by accident"), "unexpected ZeroDivisionError: by accident; please report it"),
        (MemoryError(), "out of memory"),
        (OSError(24, "Too many open files"), "the system refused an operation: Too many open files; --debug shows"),
        (OSError(24, "Too many open files", "name"), "cannot use name: Too many open files"),
    ],
)
def test_an_unexpected_error_is_one_sentence_too(
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    message: str,
) -> None:
    def broken(paths: list[str]) -> None:
        raise error

    monkeypatch.setattr("neglm_cli.text.corpus.open_corpus", broken)
    assert run(["vocab", "corpus"]) == 1
    assert message in one_sentence(capsys.readouterr().err.encode())


def test_a_closed_pipe_ends_silently(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(b" ".join(b"word%d" % i for i in range(200_000)))
    neglm("vocab", "corpus.txt", "--quiet")
    neglm("info", "vocab.safetensors")  # so that no kernel is left to compile, which a note would say
    for arguments in (
        ["info", "vocab.safetensors", "--words"],
        ["vocab", "corpus.txt", "--format", "text", "-o", "-", "-q"],
    ):
        process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_output_to_a_full_device_is_a_failure(neglm: Neglm) -> None:
    command = f"{shlex.join(COMMAND)} --version > /dev/full"
    assert subprocess.run(["bash", "-c", command], capture_output=True).returncode == 1


def test_results_that_cannot_be_printed(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(b"a b\n")
    neglm("vocab", "corpus.txt")
    for arguments in ("info vocab.safetensors", "info vocab.safetensors --words", "vocab corpus.txt"):
        command = f"{shlex.join(COMMAND)} {arguments} > /dev/full"
        result = subprocess.run(["bash", "-c", command], capture_output=True)
        assert result.returncode == 1
        assert one_sentence(result.stderr) == "neglm: cannot use standard output: No space left on device"


def test_alone_it_shows_the_help(neglm: Neglm) -> None:
    result = neglm(code=2)
    assert b"Usage: neglm" in result.stdout
    assert result.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(neglm: Neglm, closed: str) -> None:
    """The vocabulary must not reuse the descriptor of a closed stream, or output would end up in it."""
    Path("corpus.txt").write_bytes(b"a b\n")
    neglm("vocab", "corpus.txt", "-o", "expected")
    result = subprocess.run(["bash", "-c", f"{shlex.join(COMMAND)} vocab corpus.txt {closed}"], capture_output=True)
    assert result.returncode == 0
    assert Path("vocab.safetensors").read_bytes() == Path("expected").read_bytes()


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "terminated")],
)
def test_signals_end_with_one_line_and_leave_nothing(neglm: Neglm, number: int, code: int, word: str) -> None:
    Path("vocab.safetensors").write_bytes(b"old")
    Path("tmp").mkdir()
    process = subprocess.Popen(
        [*COMMAND, "vocab", "-", "--memory", "1M"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": os.path.abspath("tmp")},
    )
    assert process.stdin
    assert process.stderr
    for i in range(20):
        process.stdin.write(b" ".join(b"w%d" % (100_000 * i + j) for j in range(100_000)) + b"\n")
    process.stdin.flush()
    while not os.listdir("tmp"):  # wait until it has spilled to disk
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait() == code
    assert one_sentence(process.stderr.read()) == f"neglm: {word}"
    assert sorted(os.listdir()) == ["tmp", "vocab.safetensors"]
    assert os.listdir("tmp") == []
    assert Path("vocab.safetensors").read_bytes() == b"old"


def test_shell_completion() -> None:
    environment = os.environ | {"_NEGLM_COMPLETE": "complete_bash", "COMP_WORDS": "neglm vocab --m", "COMP_CWORD": "2"}
    output = subprocess.run([sys.executable, "-m", "neglm_cli"], env=environment, capture_output=True).stdout.decode()
    assert output.split() == ["--min-count", "--max-vocab", "--merge", "--memory"]


def test_compiling_is_announced_once_and_only_at_the_first_start(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(b"a b\n")
    home = {"XDG_CACHE_HOME": str(workplace / "cache"), "NUMBA_CACHE_DIR": ""}
    first = neglm("vocab", "corpus.txt", **home)
    assert first.stderr.count(b"compiling kernels") == 1
    second = neglm("vocab", "corpus.txt", **home)
    assert second.stderr == b""


def test_without_a_home_it_still_works(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(b"a b\n")
    neglm("vocab", "corpus.txt", XDG_CACHE_HOME="/dev/null/nowhere", NUMBA_CACHE_DIR="")
