"""Exclusive locks on outputs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.store.locking import exclusive

HOLD = (
    "import sys\nfrom neglm_cli.store.locking import exclusive\n"
    "with exclusive('model'):\n    print(flush=True)\n    {}\n"
)


def another_process(then: str) -> "subprocess.Popen[bytes]":
    """Start a process that locks the model, then runs these statements."""
    process = subprocess.Popen([sys.executable, "-c", HOLD.format(then)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


def test_a_second_process_is_refused_until_the_first_exits(workplace: Path) -> None:
    with another_process("sys.stdin.read()") as process:
        Path("link").symlink_to("model")
        for name in ("model", "./model", "link"):
            with pytest.raises(NeglmError, match=f"{name} is being made by another process"), exclusive(name):
                pass
        with exclusive("other"):
            pass
    assert process.returncode == 0
    with exclusive("model"):
        pass
    assert os.listdir() == ["link"]


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "sys.exit(3)", "1 / 0"])
def test_a_lock_ends_with_its_process(workplace: Path, end: str) -> None:
    with another_process(f"import os; sys.stderr.close(); {end}") as process:
        pass
    assert process.returncode in (-signal.SIGKILL, 3, 1)
    with exclusive("model"):
        pass
    assert os.listdir() == []


def test_a_lock_removed_before_locking_is_created_again(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner exits between opening and locking."""
    import fcntl

    lock, flock = Path(".model.lock"), fcntl.flock
    calls: list[int] = []

    def late(descriptor: int, how: int) -> None:
        if not calls:
            lock.unlink()
        calls.append(descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with exclusive("model"):
        assert len(calls) == 2
        assert lock.exists()
        with pytest.raises(NeglmError), exclusive("model"):
            pass
        assert lock.exists()
    assert os.listdir() == []


def test_a_file_system_without_locks_refuses_no_process(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(descriptor: int, how: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", none)
    with exclusive("model"), exclusive("model"):
        pass
    assert os.listdir() == []


def test_devices_have_no_lock(workplace: Path) -> None:
    for name in ("-", "/dev/stdout", "/dev/null"):
        with exclusive(name), exclusive(name):
            assert os.listdir() == []


def test_missing_directory(workplace: Path) -> None:
    with pytest.raises(NeglmError, match="cannot write none/model"), exclusive("none/model"):
        pass


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "directory", "text"])
def test_a_lock_is_an_empty_regular_file(workplace: Path, kind: str) -> None:
    """Anything else with its name belongs to others: it is neither followed nor removed."""
    lock, text = Path(".model.lock"), Path("text")
    text.write_bytes(b"precious")
    match kind:
        case "link":
            lock.symlink_to(text)
        case "dangling link":
            lock.symlink_to("nothing")
        case "pipe":
            os.mkfifo(lock)
        case "directory":
            lock.mkdir()
        case "text":
            os.link(text, lock)
    before = os.lstat(lock)
    with pytest.raises(NeglmError, match=r"\.model\.lock is in the way|Is a directory"), exclusive("model"):
        pass
    assert os.path.samestat(before, os.lstat(lock))
    assert text.read_bytes() == b"precious"
    assert not os.path.exists("nothing")
