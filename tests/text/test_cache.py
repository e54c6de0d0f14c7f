"""The cache of encoded copies: least-recently-used eviction above a size limit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text.cache import DEFAULT_LIMIT, UNITS, clear, copies, size_limit
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encoded import EncodedCorpus, default_cache, open_encoded
from tests.text.making import vocabulary_of

TEXT = b"the cat sat\non the mat\n\nthe end"
HOLD = """
import sys
from neglm_cli.store.container import map_tensor
fields, ids = map_tensor(sys.argv[1], "encoded corpus")
print(flush=True)
sys.stdin.read()
"""


class Cache:
    """Encoded copies of identical texts with different names."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "cache"
        self.messages: list[str] = []
        self._vocabulary = vocabulary_of(TEXT, directory=home)

    def open(self, name: str) -> EncodedCorpus:
        Path(name).write_bytes(TEXT)
        return open_encoded(open_corpus([name]), self._vocabulary, 1, self.directory, self.messages.append)

    @property
    def names(self) -> list[str]:
        return [copy.path.name.split("-")[0] for copy in copies(self.directory)]

    def age(self, *names: str) -> None:
        """Set their last use to long ago, the first one earliest."""
        for seconds, name in enumerate(names):
            (path,) = self.directory.glob(f"{name}-*")
            os.utime(path, (1_000_000 + seconds, 1_000_000 + seconds))


@pytest.fixture
def cache(workplace: Path) -> Cache:
    return Cache(workplace)


def limit_to(copies_: int, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    size = copies(cache.directory)[0].size
    monkeypatch.setenv("NEGLM_CACHE_LIMIT", str(copies_ * size))


def test_the_least_recently_used_are_removed(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        cache.open(name)
    cache.age("b", "a", "c")
    cache.open("b")  # used again: now it is the newest
    limit_to(2, cache, monkeypatch)
    cache.open("d")
    assert sorted(cache.names) == ["b", "d"]
    assert cache.messages[-1].startswith("removed 2 least recently used encoded copies, ")


def test_a_single_removed_copy_is_singular(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.open("a")
    cache.age("a")
    limit_to(1, cache, monkeypatch)
    cache.open("b")
    assert cache.messages[-1].startswith("removed 1 least recently used encoded copy, ")


def test_nothing_is_removed_below_the_limit(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.open("a")
    cache.age("a")
    limit_to(2, cache, monkeypatch)
    cache.open("b")
    assert sorted(cache.names) == ["a", "b"]
    assert not [sentence for sentence in cache.messages if sentence.startswith("removed")]


def test_a_copy_larger_than_the_limit_is_still_used(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEGLM_CACHE_LIMIT", "0")
    assert cache.open("a").cursor(0).take(100).size
    assert cache.names == ["a"]
    cache.open("b")
    assert cache.names == ["b"]


def test_copies_in_use_are_kept(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """In use by this process (a validation text in addition to the corpus) or by another."""
    monkeypatch.setenv("NEGLM_CACHE_LIMIT", "0")
    here = cache.open("a")
    cache.open("b")
    assert sorted(cache.names) == ["a", "b"]
    (path,) = cache.directory.glob("b-*")
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        cache.open("c")
        assert sorted(cache.names) == ["a", "b", "c"]
        assert [copy.path.name[0] for copy in clear(cache.directory)] == ["c"]
    assert process.returncode == 0
    assert [copy.path.name[0] for copy in clear(cache.directory)] == ["b"]
    del here
    clear(cache.directory)
    assert cache.names == []


def test_only_copies_are_removed(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEGLM_CACHE_LIMIT", "0")
    cache.open("a")
    others = ["kernels-1", "text.ids", "notes-0123456789abcdef.txt"]
    for name in others:
        (cache.directory / name).write_bytes(b"precious")
    (cache.directory / "link-0123456789abcdef.ids").symlink_to(cache.directory / "text.ids")
    cache.open("b")
    clear(cache.directory)
    assert sorted(os.listdir(cache.directory)) == sorted([*others, "link-0123456789abcdef.ids"])


def test_temporary_files_of_a_killed_process_are_removed(cache: Cache) -> None:
    cache.open("a")
    (cache.directory / ".b-0123456789abcdef.ids.0123456789abcdef.incomplete").write_bytes(b"half of it")
    cache.open("c")
    assert not [name for name in os.listdir(cache.directory) if name.startswith(".")]


def test_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEGLM_CACHE_LIMIT", raising=False)
    assert size_limit() == int(DEFAULT_LIMIT[:-1]) * UNITS["G"]
    for text, size in (("1.5G", 3 << 29), ("500M", 500 << 20), ("0", 0), ("12 KiB", 12 << 10)):
        monkeypatch.setenv("NEGLM_CACHE_LIMIT", text)
        assert size_limit() == size


def test_an_invalid_limit_is_refused_before_encoding(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("much", "-1", "5 %"):
        monkeypatch.setenv("NEGLM_CACHE_LIMIT", text)
        with pytest.raises(NeglmError, match="is not a size such as 500M or 20G"):
            cache.open("a")
    assert not cache.directory.exists()


def test_no_home_directory_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)  # as for a user without an entry in /etc/passwd
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NEGLM_CACHE", raising=False)
    with pytest.raises(NeglmError, match="name a directory with NEGLM_CACHE"):
        default_cache()
