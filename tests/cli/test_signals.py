"""Signals are raised, deferred or ignored, depending on the code they interrupt."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from neglm_cli.cli.main import run
from neglm_cli.cli.signals import Terminated, ignore, noted, raised, watch
from tests.conftest import users_environment

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(" ".join(f"w{(i * j) % 97}" for j in range(20)) for i in range(200)))
    return path


@pytest.fixture(autouse=True)
def watched() -> None:
    watch()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_raised_once(number: signal.Signals) -> None:
    with pytest.raises(Terminated) as first:
        os.kill(os.getpid(), number)
    os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)
    assert first.value.args == (number,)
    assert raised() == number


def alarm() -> None:
    """The alarm five seconds after a raised signal."""
    os.kill(os.getpid(), signal.SIGALRM)


def test_a_signal_that_got_lost_is_raised_again() -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    del (lost := [Finalized()])[0]
    assert not lost
    assert raised() == signal.SIGTERM
    for _ in range(2):
        with pytest.raises(Terminated):
            alarm()


def test_cleaning_up_may_take_long() -> None:
    """Neither a repeated signal nor another failure cuts the cleanup short."""
    cleaned = []
    with pytest.raises(Terminated):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            alarm()
            try:
                raise SystemError
            except SystemError:
                alarm()
            cleaned.append("all")
    assert cleaned == ["all"]


def test_ignored_signals_are_gone() -> None:
    ignore()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    assert not raised()


def test_signals_are_noted_and_then_ignored() -> None:
    with noted() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals == [signal.SIGINT, signal.SIGTERM]


def test_nothing_noted_leaves_signals_as_they_were() -> None:
    with noted() as signals:
        pass
    assert signals == []
    with pytest.raises(Terminated):
        os.kill(os.getpid(), signal.SIGTERM)


def test_who_ignores_a_signal_goes_on_ignoring_it() -> None:
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch()
    with noted() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
    assert signals == []
    os.kill(os.getpid(), signal.SIGHUP)


def storms(times: int, *arguments: str) -> list[tuple[int, str, list[str]]]:
    """Run a command without signals, and with signals from each of several moments on."""
    command = [sys.executable, "-m", "tests.cli.signal_storm", str(times), *arguments]
    environment = users_environment() | {"PYTHONPATH": str(ROOT)}
    found = json.loads(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)
    return [(code, errors, left) for code, errors, left in found]


@pytest.mark.parametrize("arguments", [("vocab", "CORPUS", "-q", "-o", "out"), ("info", "none")])
def test_signals_that_come_again_and_again(corpus: Path, arguments: tuple[str, ...]) -> None:
    """During imports, work, the removal of files, and exit."""
    given = [str(corpus) if argument == "CORPUS" else argument for argument in arguments]
    whole, *ends = storms(8, *given)
    assert whole[2] == ["tmp"] or whole[2] == ["out", "tmp"]
    sentences = {129: "neglm: terminated\n", 130: "neglm: interrupted\n", 143: "neglm: terminated\n"}
    for code, errors, left in ends:
        assert (code, errors, left) == whole or errors == sentences[code]
        assert left in (["tmp"], whole[2])  # the output, if it existed before
    assert {code for code, _, _ in ends} & set(sentences)


def test_an_error_behind_a_signal_is_the_signal(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C code that calls Python turns an unexpected exception into a SystemError."""

    def broken(paths: list[str]) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Terminated as error:
            raise SystemError("returned a result with an exception set") from error

    monkeypatch.setattr("neglm_cli.text.corpus.open_corpus", broken)
    assert run(["vocab", "corpus"]) == 143
    assert capsys.readouterr().err == "neglm: terminated\n"


def test_a_signal_waits_for_llvmlite() -> None:
    """An exception in the middle of its calls leads to a double free."""
    program = {"__name__": "llvmlite.binding", "os": os, "number": signal.SIGTERM}
    exec("os.kill(os.getpid(), number)", program)
    assert raised() == signal.SIGTERM
    with pytest.raises(Terminated):
        alarm()


BLOCKED = """
import signal, threading, time
from neglm_cli.cli import signals

signals.watch()
signals.keep_main_thread_awake()
blocked = threading.Lock()
blocked.acquire()

def send():
    time.sleep(0.2)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # not to the main thread, which nothing interrupts

threading.Thread(target=send, daemon=True).start()
try:
    blocked.acquire()
except signals.Terminated as terminated:
    print(terminated.args[0])
"""


def test_a_blocked_main_thread_is_woken() -> None:
    """As by a signal that arrives just before it blocks."""
    result = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, cwd=ROOT, timeout=60)
    assert result.stdout == b"15\n", result.stderr
