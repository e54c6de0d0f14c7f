"""Two files that belong together: a failure of either leaves both as they were."""

import errno
import os
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
def test_a_disk_that_is_full_only_for_one(workplace: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """Full when the last bytes go out, after everything was written: neither may have its new name by then."""
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
