import pytest

from neglm_cli.cli.console import Progress, console


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds, as the test sets it."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_progress_lines_have_rate_share_and_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
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


def test_progress_of_unknown_length(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("counting", None) as progress:
        clock[0] += 20
        progress.advance(40_000_000)
    assert capsys.readouterr().err == "counting: 40 MB, 2 MB/s\n"


def test_quiet(clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "quiet", True)
    with Progress("counting", None) as progress:
        clock[0] += 20
        progress.advance(1)
    console.note("a note")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("counting", 100) as progress:
        clock[0] += 1
        progress.advance(50)
    assert "counting" in capsys.readouterr().err
