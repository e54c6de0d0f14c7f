"""Progress bars in pseudo-terminals of several widths, and progress lines elsewhere."""

import gzip
import os
import re
import subprocess
from pathlib import Path

import pytest

from neglm_cli.cli.console import console
from neglm_cli.cli.progress import Progress, amount, bytes_to_read, duration
from tests.terminal import run_in_terminal, terminal
from tests.warm import Warm

WIDTHS = [60, 80, 120, 200]
BAR = re.compile(r" {0,2}\d{1,3}%  \S.* to go +[█░]{10,20}  \S")  # percentage, ETA, bar, details


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that the test sets, in seconds."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.fixture(autouse=True)
def capable_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_lines_have_rate_share_and_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("counting", 100_000_000) as progress:
        progress.advance(10_000_000)
        assert capsys.readouterr().err == ""
        clock[0] += 11
        progress.advance(10_000_000)
        assert capsys.readouterr().err == "counting: 20 MB, 2 MB/s, 20%, 44 s to go\n"
        clock[0] += 1
        progress.advance(10_000_000)
        assert capsys.readouterr().err == ""
    assert progress.seconds == 12


def test_of_unknown_length(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("counting", None) as progress:
        clock[0] += 20
        progress.advance(40_000_000)
    assert capsys.readouterr().err == "counting: 40 MB, 2 MB/s\n"


def test_long_times_are_in_hours_and_minutes(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("counting", 463_300_000) as progress:
        clock[0] += 100
        progress.advance(10_000_000)
    assert capsys.readouterr().err == "counting: 10 MB, 100 KB/s, 2%, 1 h 16 min to go\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"), (44, "44 s"), (59.7, "1 min 0 s"), (245, "4 min 5 s"), (599.6, "10 min"), (4533, "1 h 16 min"),
        (3599, "1 h 0 min"), (86_399, "1 d 0 h"), (100_000, "1 d 4 h"),
    ],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_amount() -> None:
    assert [amount(1234, "MB"), amount(12_345_678, "MB")] == ["1 KB", "12 MB"]
    assert [amount(12_345, "K words"), amount(12_345_678, "M pairs")] == ["12.3 K words", "12.3 M pairs"]


def test_quiet(clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "quiet", True)
    with Progress("counting", None) as progress:
        clock[0] += 20
        progress.advance(1)
    console.note("a note")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_terminal_gets_percentage_time_bar_and_what_fits_of_the_details(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    detail = "epoch 2/39, loss 4.5123, valid 120.10, lr 0.25, log Z 9.21 ± 0.31"
    with terminal(columns) as (seen, stream):
        monkeypatch.setattr("sys.stderr", stream)
        with Progress("training", 1_000_000, "K words") as progress:
            clock[0] += 100
            progress.advance(250_000, detail)
        monkeypatch.undo()
    (line,) = seen.lines_with("training")
    cells = 20 if columns >= 80 else 10
    start = f" 25%  5 min 0 s to go    {'█' * (cells // 4)}{'░' * (cells - cells // 4)}  "
    whole = start + f"training, {detail}, 2.5 K words/s, 250.0 K words"
    assert len(line) < columns
    assert whole == line or whole.startswith(line + ", ")  # details are complete or left out
    assert len(whole) < columns or len(line) + len(whole[len(line) + 2 :].partition(",")[0]) + 2 >= columns
    assert "training, epoch 2/39" in line
    assert seen.frames()[-1] == []  # and it clears the line


def test_notes_come_above_the_bar(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(80) as (seen, stream):
        monkeypatch.setattr("sys.stderr", stream)
        with Progress("training", 100) as progress:
            for _ in range(3):
                clock[0] += 1
                progress.advance(10)
                console.note("a note")
            clock[0] += 1
            progress.advance(10)
        monkeypatch.undo()
    frames = seen.frames()
    assert frames[-1] == ["a note"] * 3
    assert frames[-2][:3] == ["a note"] * 3
    assert frames[-2][3].startswith(" 40%")
    assert len(frames[-2]) == 4


def test_a_terminal_that_cannot_draw_gets_lines(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with terminal(200) as (seen, stream):
        monkeypatch.setattr("sys.stderr", stream)
        with Progress("counting", 100_000_000) as progress:
            clock[0] += 11
            progress.advance(20_000_000)
        monkeypatch.undo()
    assert seen.frames()[-1] == ["counting: 20 MB, 2 MB/s, 20%, 44 s to go"]


@pytest.fixture
def texts(workplace: Path) -> Path:
    Path("text").write_text("".join(f"the cat {i % 7} sat on the mat {i % 5} and ran home\n" for i in range(600)))
    Path("valid").write_text("".join(f"the cat {i % 5} sat on the mat {i % 7} and ran home\n" for i in range(300)))
    return workplace


SMALL = ["--hidden", "8", "--batch", "4", "--bptt", "10", "--epochs", "3", "--threads", "1"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_training_a_language_model(texts: Path, columns: int) -> None:
    seen = run_in_terminal(["train-lm", "text", "--valid", "valid", *SMALL], texts, columns)
    training = seen.lines_with("training, epoch")
    assert all(BAR.match(line) for line in training)
    assert any("epoch 2/3" in line for line in training)
    assert len({line[:4] for line in training}) > 5
    validating = seen.lines_with("validating, epoch")
    assert all(BAR.match(line) for line in validating)
    assert len({line[:4] for line in validating}) > 5
    assert not any("to go" in line for line in seen.frames()[-1])


def test_training_at_a_dumb_terminal(texts: Path) -> None:
    seen = run_in_terminal(["train-lm", "text", *SMALL], texts, 200, TERM="dumb")
    assert any(re.fullmatch(r"training: .*, epoch 2/3, .*, \d+%, .* to go", line) for line in seen.frames()[-1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, warm: tuple[Warm, dict[str, str]]) -> Path:
    """Make a directory with a text, a language model, vectors, and analogy questions."""
    directory = tmp_path_factory.mktemp("trained")
    (directory / "text").write_text(
        "".join(f"the cat {i % 7} sat on the mat {i % 5} and ran home\n" for i in range(600))
    )
    (directory / "questions").write_text(": all\nthe cat on mat\n")
    for command in (
        ["train-lm", "text", *SMALL[:-4], "--epochs", "1", "--threads", "1"],
        ["embed", "text", "--size", "4", "--min-count", "1", "--epochs", "1"],
        ["export", "-o", "vectors.txt"],
    ):
        assert warm[0].run(command, directory).returncode == 0
    return directory


@pytest.mark.parametrize(
    ("command", "work"),
    [
        ("eval --test text", "evaluating"),
        ("eval --analogy questions", "analogies of questions"),
        ("score model.safetensors text", "scoring"),
        ("score model.safetensors text --json", "scoring"),
        ("export -o out.txt", "writing vectors"),
        ("export -o out.bin", "writing vectors"),
        ("export -o out.npy", "writing vectors"),
        ("export -o out.tsv", "writing vectors"),
        ("import vectors.txt -o imported", "reading vectors"),
        ("pmi", "comparing the vectors"),
        ("pmi", "comparing the SVD"),
        ("nearest cat", "reading vectors.safetensors"),
        ("analogy the cat sat", "reading vectors.safetensors"),
        ("info model.safetensors", "reading model.safetensors"),
        ("plot vectors.safetensors text --pmi", "comparing the vectors"),
    ],
)
def test_other_long_work(trained: Path, command: str, work: str) -> None:
    seen = run_in_terminal(command.split(), trained, 80, stdout=subprocess.DEVNULL, tick=1)
    bars = seen.lines_with(work)
    assert bars
    assert all(BAR.match(line) for line in bars)
    assert not any("to go" in line for line in seen.frames()[-1])


def test_scores_at_a_terminal_have_no_bar_between_them(trained: Path) -> None:
    seen = run_in_terminal(["score", "model.safetensors", "text"], trained, 80, tick=1)
    assert [line for line in seen.lines_with("to go") if "reading model" not in line] == []


def test_compressed_text_is_measured_on_disk(trained: Path) -> None:
    (trained / "text.gz").write_bytes(gzip.compress((trained / "text").read_bytes()))
    for command in ("eval --test text.gz", "score model.safetensors text.gz"):
        seen = run_in_terminal(command.split(), trained, 80, stdout=subprocess.DEVNULL, tick=1)
        assert seen.lines_with("to go")[-1].startswith("100%")


def test_bytes_to_read(workplace: Path) -> None:
    Path("one").write_bytes(b"12345")
    Path("two").write_bytes(b"123")
    assert bytes_to_read(["one", "two"]) == 8
    os.mkfifo("pipe")
    assert bytes_to_read(["one", "pipe"]) is None
