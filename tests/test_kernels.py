"""The cache directory of compiled kernels."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from neglm_cli.kernels import _kernel_directory


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the cache directory of a user with umask 0."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    before = os.umask(0)
    yield tmp_path / "cache"
    os.umask(before)


def test_the_directory_is_private_and_reused(home: Path) -> None:
    directory = Path(_kernel_directory())
    assert directory.parent.parent == home
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    assert Path(_kernel_directory()) == directory


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_not_used(home: Path, mode: int) -> None:
    directory = Path(_kernel_directory())
    directory.chmod(mode)
    other = Path(_kernel_directory())
    assert other.parent == home.parent / "tmp"
    assert other.stat().st_mode & 0o777 == 0o700
    assert list(directory.iterdir()) == []


def test_a_directory_of_another_user_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _kernel_directory()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert Path(_kernel_directory()).parent == home.parent / "tmp"


def test_processes_that_start_at_once_share_the_directory(home: Path) -> None:
    for _ in range(20):
        with ThreadPoolExecutor(8) as threads:
            found = set(threads.map(lambda _: _kernel_directory(), range(8)))
        assert len(found) == 1
        assert Path(found.pop()).parent.parent == home
        shutil.rmtree(home)


def test_a_given_directory_has_one_for_each_state_of_the_sources(home: Path, tmp_path: Path) -> None:
    """Numba alone would load kernels into which changed functions are inlined."""
    given = str(tmp_path / "given")
    directory = Path(_kernel_directory(given))
    assert directory.is_dir()
    assert directory.parent == Path(given)
    assert directory.name == Path(_kernel_directory()).name
