import json
import os
from pathlib import Path

import pytest

from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encoded import open_encoded
from tests.conftest import Neglm, one_sentence
from tests.text.making import vocabulary_of


@pytest.fixture
def cached(workplace: Path) -> Path:
    """Make a cache with two encoded corpora, of which that of a.txt is older."""
    text = b"the cat sat on the mat\n"
    vocabulary = vocabulary_of(text, directory=workplace)
    for name in ("a.txt", "b.txt"):
        Path(name).write_bytes(text)
        open_encoded(open_corpus([name]), vocabulary, 1, Path("cache"), lambda sentence: None)
    (old,) = Path("cache").glob("a-*.ids")
    os.utime(old, (1_000_000, 1_000_000))
    return Path("cache")


def test_lists_copies_with_their_sizes(neglm: Neglm, cached: Path) -> None:
    first, *lines = neglm("cache", NEGLM_CACHE="cache", NEGLM_CACHE_LIMIT="1M").stdout.decode().splitlines()
    sizes = {path.name[0]: f"{path.stat().st_size:,}" for path in cached.iterdir()}
    total = sum(path.stat().st_size for path in cached.iterdir())
    assert first == f"cache: 2 encoded copies, {total:,} bytes of at most 1,048,576"
    assert [line.split()[0] for line in lines] == [sizes["b"], sizes["a"]]
    assert [line.split()[-1] for line in lines] == ["b.txt", "a.txt"]
    assert lines[1].split()[1].startswith("1970-01-1")


def test_json(neglm: Neglm, cached: Path) -> None:
    found = json.loads(neglm("cache", "--json", NEGLM_CACHE="cache").stdout)
    assert (found["directory"], found["limit_bytes"]) == ("cache", 20 << 30)
    assert [copy["corpus"] for copy in found["copies"]] == [["b.txt"], ["a.txt"]]
    assert found["bytes"] == sum(copy["bytes"] for copy in found["copies"])
    assert {copy["file"] for copy in found["copies"]} == {path.name for path in cached.iterdir()}


def test_clears(neglm: Neglm, cached: Path) -> None:
    (cached / "precious.txt").touch()
    said = neglm("cache", "--clear", NEGLM_CACHE="cache").stdout.decode()
    assert said.startswith("removed 2 encoded copies, ")
    assert [path.name for path in cached.iterdir()] == ["precious.txt"]
    assert json.loads(neglm("cache", "--clear", "--json", NEGLM_CACHE="cache").stdout)["removed"] == 0


def test_an_empty_cache_and_none(neglm: Neglm, workplace: Path) -> None:
    assert neglm("cache", NEGLM_CACHE="none").stdout.startswith(b"none: 0 encoded copies, 0 bytes")
    assert not Path("none").exists()


def test_a_damaged_copy_is_listed(neglm: Neglm, cached: Path) -> None:
    (old,) = cached.glob("a-*.ids")
    old.write_bytes(b"damaged")
    assert f"{old.name}, damaged" in neglm("cache", NEGLM_CACHE="cache").stdout.decode()


def test_a_limit_that_is_none(neglm: Neglm, workplace: Path) -> None:
    failed = neglm("cache", NEGLM_CACHE="cache", NEGLM_CACHE_LIMIT="much", code=1)
    assert "NEGLM_CACHE_LIMIT=much is not a size" in one_sentence(failed.stderr)
