import bz2
import gzip
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.store.compressed import compressing
from neglm_cli.store.output import writing

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"the same words again and again\n" * 1_000


@pytest.mark.parametrize(
    ("name", "decompress"),
    [("a.gz", gzip.decompress), ("a.bz2", bz2.decompress), ("a.xz", lzma.decompress), ("a.zst", zstd.decompress)],
)
def test_the_suffix_selects_the_compression(workplace: Path, name: str, decompress: Callable[[bytes], bytes]) -> None:
    def written() -> bytes:
        with writing(name) as file, compressing(file, name) as smaller:
            for begin in range(0, len(TEXT), 1_000):
                smaller.write(TEXT[begin : begin + 1_000])
        return Path(name).read_bytes()

    first = written()
    assert len(first) < len(TEXT) / 10
    assert decompress(first) == TEXT
    assert written() == first


@pytest.mark.parametrize("name", ["a", "gz", "a.gz.txt", "-"])
def test_other_names_are_plain(workplace: Path, name: str) -> None:
    with open("file", "wb") as file, compressing(file, name) as same:
        assert same is file


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_full_disk(workplace: Path, ending: str) -> None:
    name = f"full{ending}"
    Path(name).symlink_to("/dev/full")
    with pytest.raises(NeglmError, match=f"cannot write {name}: No space left on device"):
        with writing(name) as file, compressing(file, name) as smaller:
            smaller.write(TEXT)
