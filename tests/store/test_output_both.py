"""Two files written together: a failure of either leaves both unchanged."""

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.store.output import writing_both


def test_both_are_written(workplace: Path) -> None:
    with writing_both("one", "two") as (one, two):
        one.write(b"1")
        two.write(b"2")
        assert not os.path.exists("one")
        assert not os.path.exists("two")
    assert (Path("one").read_bytes(), Path("two").read_bytes()) == (b"1", b"2")
    assert sorted(os.listdir()) == ["one", "two"]


@pytest.mark.parametrize("failing", ["one", "two"])
def test_full_disk_for_one_of_them(workplace: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """Full at fsync, after everything was written: neither may have been renamed by then."""
    for name in ("one", "two"):
        Path(name).write_bytes(b"old")
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if f".{failing}." in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(NeglmError, match="No space left on device; nothing was changed"):
        with writing_both("one", "two") as (one, two):
            one.write(b"1")
            two.write(b"2")
    assert (Path("one").read_bytes(), Path("two").read_bytes()) == (b"old", b"old")
    assert sorted(os.listdir()) == ["one", "two"]


def test_one_of_them_may_be_a_device(workplace: Path) -> None:
    with writing_both("/dev/null", "two") as (one, two):
        one.write(b"1")
        two.write(b"2")
    assert Path("two").read_bytes() == b"2"


def states(*names: str) -> list[bytes | None]:
    return [Path(name).read_bytes() if os.path.exists(name) else None for name in names]


@pytest.mark.parametrize("old", ["", "one", "two", "one two"])
@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_a_rename_that_fails_is_undone(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, old: str, failing: int
) -> None:
    """For each rename, and for each combination of existing files."""
    for name in old.split():
        Path(name).write_bytes(b"old")
    before = states("one", "two")
    calls: list[str] = []
    for rename in ("rename", "replace"):
        original = getattr(os, rename)

        def late(source: str, target: str, original: Callable[[str, str], None] = original) -> None:
            calls.append(target)
            if len(calls) == failing:
                raise OSError(errno.EIO, "Input/output error")
            original(source, target)

        monkeypatch.setattr(os, rename, late)
    wanted = 2 + len(old.split())
    if failing <= wanted:
        with pytest.raises(NeglmError, match="cannot write (one|two): Input/output error; nothing was changed"):
            write_both()
        assert states("one", "two") == before
    else:
        write_both()
        assert states("one", "two") == [b"1", b"2"]
    assert sorted(os.listdir()) == sorted(old.split() if failing <= wanted else ["one", "two"])


def write_both() -> None:
    with writing_both("one", "two") as (one, two):
        one.write(b"1")
        two.write(b"2")


def test_a_failed_rollback_is_reported(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        Path(name).write_bytes(b"old")

    def broken(source: str, target: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    rename = os.rename

    def only_aside(source: str, target: str) -> None:
        (rename if str(target).endswith(".replaced") else broken)(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", only_aside)
        patch.setattr(os, "replace", broken)
        with pytest.raises(NeglmError, match="cannot write one: Input/output error; and undoing it failed") as caught:
            write_both()
    sentence = str(caught.value)
    assert "nothing was changed" not in sentence
    asides = re.findall(r"[^ ]*\.replaced", sentence)
    assert [Path(aside).read_bytes() for aside in asides] == [b"old", b"old"]
    write_both()
    assert states("one", "two") == [b"1", b"2"]
    assert sorted(os.listdir()) == ["one", "two"]


KILLED = """
import os
from neglm_cli.store.output import writing_both
rename, renamed = os.rename, []
def killed(source, target):
    rename(source, target)
    renamed.append(target)
    if len(renamed) == {}:
        os.kill(os.getpid(), 9)
os.rename = killed
with writing_both("one", "two") as (one, two):
    one.write(b"1")
    two.write(b"2")
"""


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_kill_between_renames_never_mixes_old_and_new_files(workplace: Path, after: int) -> None:
    for name in ("one", "two"):
        Path(name).write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", KILLED.format(after)]).returncode == -signal.SIGKILL
    left = {content for content in states("one", "two") if content is not None}
    assert left != {b"old", b"2"}
    assert left != {b"old", b"1"}
    write_both()
    assert states("one", "two") == [b"1", b"2"]
    assert sorted(os.listdir()) == ["one", "two"]
