import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.store.output import writing


def test_the_old_file_stays_until_the_new_one_is_complete(workplace: Path) -> None:
    Path("file").write_bytes(b"old")
    with writing("file") as file:
        file.write(b"new")
        file.flush()
        assert Path("file").read_bytes() == b"old"
    assert Path("file").read_bytes() == b"new"
    assert os.listdir() == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(workplace: Path, error: type[BaseException]) -> None:
    Path("file").write_bytes(b"old")
    with pytest.raises(error), writing("file") as file:
        file.write(b"new")
        raise error
    assert Path("file").read_bytes() == b"old"
    assert os.listdir() == ["file"]


def test_a_disk_that_fills_up(workplace: Path) -> None:
    """A file size limit fails like a full disk, in the middle of a write."""
    Path("file").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(NeglmError, match="cannot write file: File too large; nothing was changed"):
            with writing("file") as file:
                file.write(b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert Path("file").read_bytes() == b"old"
    assert os.listdir() == ["file"]


def test_a_device_is_written_to_not_replaced(workplace: Path) -> None:
    with writing("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(NeglmError, match="cannot write /dev/full: No space left on device"):
        with writing("/dev/full") as file:
            file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_symbolic_link_stays_one(workplace: Path) -> None:
    Path("target").write_bytes(b"old")
    os.symlink("target", "link")
    with writing("link") as file:
        file.write(b"new")
    assert Path("link").is_symlink()
    assert Path("target").read_bytes() == b"new"


def test_default_permissions(workplace: Path) -> None:
    with writing("file"):
        pass
    Path("other").touch()
    assert os.stat("file").st_mode == os.stat("other").st_mode


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no/such/directory", "No such file or directory"),
        (".", "not the name of a file"),
        ("new/", "not the name of a file"),
        ("", "not the name of a file"),
    ],
)
def test_paths_that_cannot_be_written(workplace: Path, path: str, message: str) -> None:
    with pytest.raises(NeglmError, match=message), writing(path):
        pass


def test_permissions_of_an_existing_file_are_kept(workplace: Path) -> None:
    Path("file").touch(mode=0o600)
    with writing("file"):
        pass
    assert stat.S_IMODE(os.stat("file").st_mode) == 0o600


def test_another_programs_open_file_is_appended_to(workplace: Path) -> None:
    with open("log", "wb") as log:
        log.write(b"before ")
        log.flush()
        with writing(f"/dev/fd/{log.fileno()}") as file:
            file.write(b"middle ")
        log.seek(0, os.SEEK_END)
        log.write(b"after")
    assert Path("log").read_bytes() == b"before middle after"


KILLED = """
import errno
import fcntl
import os
from neglm_cli.store.output import writing
with writing("file") as file:
    file.write(b"x")
    file.flush()
    os.kill(os.getpid(), 9)
"""


def hidden() -> list[str]:
    return [name for name in os.listdir() if name.startswith(".")]


def test_temporary_files_of_a_killed_writer_are_removed_by_the_next(workplace: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED]).returncode == -signal.SIGKILL
    assert len(hidden()) == 1
    with writing("other"):
        pass
    assert len(hidden()) == 1
    with writing("file") as file:
        file.write(b"new")
    assert sorted(os.listdir()) == ["file", "other"]


def test_concurrent_writers_keep_each_others_files(workplace: Path) -> None:
    with writing("file") as one:
        with writing("file") as two, writing("file.b") as three:
            one.write(b"one")
            two.write(b"two")
            three.write(b"three")
            assert len(hidden()) == 3
        assert Path("file").read_bytes() == b"two"
    assert Path("file").read_bytes() == b"one"
    assert Path("file.b").read_bytes() == b"three"
    assert hidden() == []


def test_a_temporary_file_removed_before_it_is_locked(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer removes it between creation and locking: it is created again."""
    flock = fcntl.flock
    removed: list[str] = []

    def late(descriptor: int, how: int) -> None:
        if not removed:
            removed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            os.unlink(removed[0])
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with writing("file") as file:
        file.write(b"new")
    assert removed
    assert os.listdir() == ["file"]
    assert Path("file").read_bytes() == b"new"


def test_without_locks_nothing_is_removed(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED]).returncode == -signal.SIGKILL

    def none(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with writing("file") as file:
        file.write(b"new")
    assert Path("file").read_bytes() == b"new"
    assert len(hidden()) == 1


def test_names_like_those_of_temporary_files_are_not_touched(workplace: Path) -> None:
    names = [".file.0123456789abcdef.incomplete", ".file.12.incomplete", ".file.incomplete", ".file.b.incomplete"]
    Path("precious").write_bytes(b"precious")
    os.symlink("precious", names[0])
    for name in names[1:]:
        Path(name).touch()
    with writing("file"):
        pass
    assert sorted(os.listdir()) == sorted([*names, "file", "precious"])
    assert Path("precious").read_bytes() == b"precious"


def test_temporary_files_do_not_follow_links(workplace: Path) -> None:
    """Their names cannot be guessed, and existing files or links are not opened."""
    with writing("file"):
        (first,) = hidden()
    with writing("file"):
        (second,) = hidden()
    assert first != second
    assert str(os.getpid()) not in first.split(".")
