"""The cache directory of compiled kernels, and the files in it."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from neglm_cli.kernels import cache

KERNEL, SIGNATURE, CODE = "module:function", '[["int"]]', b"entry\0code\nwith newlines"

Directory = Callable[[], Path | None]


def fresh_directory() -> Path | None:
    cache.kernel_directory.cache_clear()
    directory = cache.kernel_directory()
    return None if directory is None else Path(directory)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the cache directory of a user with umask 0."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    before = os.umask(0)
    yield tmp_path / "cache"
    os.umask(before)
    cache.kernel_directory.cache_clear()


def test_the_directory_is_private_and_reused(home: Path) -> None:
    directory = fresh_directory()
    assert directory
    assert directory.parent.parent == home
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    assert fresh_directory() == directory


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_not_used(home: Path, mode: int) -> None:
    directory = fresh_directory()
    assert directory
    cache.write(KERNEL, SIGNATURE, CODE)
    directory.chmod(mode)
    assert fresh_directory() is None
    assert cache.read(KERNEL, SIGNATURE) is None
    cache.write(KERNEL, "another", CODE)
    assert len(list(directory.iterdir())) == 1


def test_a_directory_of_another_user_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = fresh_directory()
    assert directory
    if os.geteuid():
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    else:  # directories of root are trusted
        os.chown(directory, 12345, -1)
    assert fresh_directory() is None


@pytest.mark.parametrize(("mode", "trusted"), [(0o755, True), (0o1777, True), (0o777, False), (0o775, False)])
def test_others_cannot_replace_the_directory(home: Path, mode: int, trusted: bool) -> None:
    directory = fresh_directory()
    assert directory
    directory.parent.chmod(mode)
    assert (fresh_directory() is not None) == trusted


def test_only_old_directories_of_kernels_are_removed(home: Path) -> None:
    names = ("kernels-0.1.0-0123456789ab", "kernels-gpu-0.2.0-0123456789abcdef", "kernels-of-truth", "kernels-1")
    for name in names:
        (home / "neglm" / name).mkdir(parents=True)
        os.utime(home / "neglm" / name, (0, 0))
    (home / "neglm" / "kernels-0.3.0-0123456789abcdef").mkdir()
    home.joinpath("neglm").chmod(0o700)
    directory = fresh_directory()
    assert directory
    found = {path.name for path in directory.parent.iterdir()} - {directory.name}
    assert found == {"kernels-of-truth", "kernels-1", "kernels-0.3.0-0123456789abcdef"}


def test_a_home_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert fresh_directory() is None
    cache.kernel_directory.cache_clear()


def test_processes_that_start_at_once_share_the_directory(home: Path) -> None:
    for _ in range(20):
        with ThreadPoolExecutor(8) as threads:
            found = set(threads.map(lambda _: fresh_directory(), range(8)))
        (directory,) = found
        assert directory
        assert directory.parent.parent == home
        shutil.rmtree(home)


def test_a_given_directory_has_one_for_each_state_of_the_sources(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_user = fresh_directory()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "given"))
    directory = fresh_directory()
    assert directory
    assert of_user
    assert directory.parent == tmp_path / "given"
    assert directory.name == of_user.name


def test_the_state_depends_on_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "kernel.py").write_text("a = 1")
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    before = cache._state()
    (tmp_path / "cli" / "command.py").write_text("b = 1")  # has no kernels
    assert cache._state() == before
    (tmp_path / "kernel.py").write_text("a = 12")
    assert cache._state() != before


def test_files(home: Path) -> None:
    assert fresh_directory()
    assert cache.read(KERNEL, SIGNATURE) is None
    assert not cache.has(KERNEL, SIGNATURE)
    cache.write(KERNEL, SIGNATURE, CODE)
    assert cache.has(KERNEL, SIGNATURE)
    assert cache.read(KERNEL, SIGNATURE) == CODE
    assert cache.read(KERNEL, "[]") is None
    assert list(cache.compiled()) == [(KERNEL, SIGNATURE, CODE)]


@pytest.mark.parametrize("kept", [0, 10, 20, -1])
def test_a_damaged_file_is_not_used(home: Path, kept: int) -> None:
    directory = fresh_directory()
    assert directory
    cache.write(KERNEL, SIGNATURE, CODE)
    (file,) = directory.iterdir()
    file.write_bytes(file.read_bytes()[:kept])
    assert cache.read(KERNEL, SIGNATURE) is None
    assert list(cache.compiled()) == []
