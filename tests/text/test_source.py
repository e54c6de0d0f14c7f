import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text import source as source_module
from neglm_cli.text.corpus import Corpus, open_corpus
from neglm_cli.text.fingerprint import BLOCK, BlockDigests, combine
from neglm_cli.text.source import Source, open_source
from tests.text.reference import sentences, texts

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd.compress,
}


def lines_of(corpus: Corpus) -> list[list[bytes]]:
    """Return the sentences of all blocks. Each block must contain whole words."""
    text = b""
    for chunk in corpus.chunks():
        block = chunk.load()
        part = block.text[: block.length].tobytes()
        assert not (text and part) or text[-1:].isspace() or part[:1].isspace()
        text += part
    assert not text or text.endswith(b"\n")
    return sentences(text)


def ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") or not text else text + b"\n"


@given(text=texts, size=st.integers(1, 40), ahead=st.integers(0, 20))
def test_ranges_of_any_size_contain_every_word_once(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, size: int, ahead: int
) -> None:
    path = tmp_path_factory.mktemp("ranges") / "text"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "READ_AHEAD", ahead)
        blocks = [chunk.load() for chunk in Source(str(path), len(text), plain=True).ranges(size)]
    assert b"".join(block.text[: block.length].tobytes() for block in blocks) == ended(text)
    for one, next_one in pairwise(blocks):
        if one.length and next_one.length:
            assert bytes([one.text[one.length - 1]]).isspace() or bytes([next_one.text[0]]).isspace()
    assert sum(block.read for block in blocks) == len(text)


@pytest.mark.parametrize("kind", ["plain", *COMPRESSORS])
@given(text=texts, block=st.integers(1, 40))
def test_streams_give_the_same_text(
    tmp_path_factory: pytest.TempPathFactory, kind: str, text: bytes, block: int
) -> None:
    path = tmp_path_factory.mktemp("streams") / "text"
    path.write_bytes(COMPRESSORS[kind](text) if kind != "plain" else text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "BLOCK", block)
        stream = Source(str(path), path.stat().st_size, plain=False)
        assert lines_of(Corpus((stream,))) == sentences(text)


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compression_is_recognized_by_magic_bytes(workplace: Path, kind: str) -> None:
    (workplace / "misleading.txt").write_bytes(COMPRESSORS[kind](b"a b\nc\n"))
    (workplace / "plain.gz").write_bytes(b"a b\nc\n")
    corpus = open_corpus(["misleading.txt", "plain.gz"])
    assert [source.plain for source in corpus.sources] == [False, True]
    assert lines_of(corpus) == [[b"a", b"b"], [b"c"]] * 2


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_several_compressed_parts_in_one_file(workplace: Path, kind: str) -> None:
    (workplace / "text").write_bytes(COMPRESSORS[kind](b"a b\nc") + COMPRESSORS[kind](b"d e\n"))
    assert lines_of(open_corpus(["text"])) == [[b"a", b"b"], [b"cd", b"e"]]


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_truncated_and_damaged_compression(workplace: Path, kind: str) -> None:
    whole = COMPRESSORS[kind](os.urandom(100_000).hex().encode())
    (workplace / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(NeglmError, match=f"cut is cut short: its {kind} data ends early"):
        lines_of(open_corpus(["cut"]))
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    broken[len(whole) // 2 + 1] ^= 0xFF
    (workplace / "broken").write_bytes(broken)
    with pytest.raises(NeglmError, match="broken"):
        lines_of(open_corpus(["broken"]))


def test_zstd_with_a_leading_skippable_frame(workplace: Path) -> None:
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"xxxx"
    (workplace / "text").write_bytes(skipped + zstd.compress(b"a b\n"))
    assert lines_of(open_corpus(["text"])) == [[b"a", b"b"]]


def test_digests_of_a_stream_in_chunks() -> None:
    data = os.urandom(2 * BLOCK + 17)
    digests = BlockDigests()
    for start in range(0, len(data), 1_000_003):
        digests.update(memoryview(data)[start : start + 1_000_003])
    assert digests.finish() == [xxhash.xxh3_128_digest(data[i : i + BLOCK]) for i in range(0, len(data), BLOCK)]


def test_last_lines_of_files_get_a_newline(workplace: Path) -> None:
    (workplace / "one").write_bytes(b"a b")
    (workplace / "two").write_bytes(b"c")
    assert lines_of(open_corpus(["one", "two"])) == [[b"a", b"b"], [b"c"]]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_block_records_a_missing_final_newline(workplace: Path, compress: Callable[[bytes], bytes]) -> None:
    Path("one").write_bytes(compress(b"a b"))
    Path("two").write_bytes(compress(b"c\n"))
    chunks = open_corpus(["one", "two"]).chunks()
    assert {block.source.path: block.completed for block in (chunk.load() for chunk in chunks)} == {
        "one": True,
        "two": False,
    }


def test_errors_of_a_temporary_copy_name_the_original(workplace: Path) -> None:
    Path("copy").write_bytes(b"a b")
    corpus = open_corpus(["copy"], {"copy": "standard input"})
    Path("copy").write_bytes(b"a")
    with pytest.raises(NeglmError, match="standard input was truncated"):
        lines_of(corpus)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing", "missing does not exist"),
        ("folder", "folder is a directory: name the files in it, for example folder/\\*"),
        ("empty", "empty is empty"),
        ("/proc/self/mem", "cannot read /proc/self/mem"),
    ],
)
def test_invalid_corpora(workplace: Path, path: str, message: str) -> None:
    (workplace / "folder").mkdir()
    (workplace / "empty").touch()
    with pytest.raises(NeglmError, match=message):
        lines_of(open_corpus([path]))


def test_a_file_that_shrinks(workplace: Path) -> None:
    (workplace / "text").write_bytes(b"a b c d")
    corpus = open_corpus(["text"])
    (workplace / "text").write_bytes(b"a b")
    with pytest.raises(NeglmError, match="was truncated while being read"):
        lines_of(corpus)


def test_a_named_pipe(workplace: Path) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(b"a b\nc"))
    writer.start()
    assert lines_of(open_corpus(["pipe"])) == [[b"a", b"b"], [b"c"]]
    writer.join()


def test_standard_input_in_small_pieces(workplace: Path) -> None:
    """Even the magic bytes may arrive one by one."""
    script = "from tests.text.test_source import lines_of; from neglm_cli.text.corpus import open_corpus; \
print(lines_of(open_corpus(['-'])))"
    root = Path(__file__).parent.parent.parent
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)
    assert process.stdin
    assert process.stdout
    for byte in gzip.compress(b"a b\nc"):
        process.stdin.write(bytes([byte]))
        process.stdin.flush()
    process.stdin.close()
    assert process.stdout.read().decode().strip() == "[[b'a', b'b'], [b'c']]"
    assert process.wait() == 0


def test_standard_input_only_once() -> None:
    with pytest.raises(NeglmError, match="only once"):
        open_corpus(["-", "-"])


def digests(source: Source) -> str:
    return combine(digest for chunk in source.chunks() for digest in chunk.load().digests)


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 17])
def test_fingerprint_does_not_depend_on_how_a_file_is_read(workplace: Path, size: int) -> None:
    data = os.urandom(size)
    (workplace / "data").write_bytes(data)
    expected = xxhash.xxh3_128_hexdigest(
        b"".join(xxhash.xxh3_128_digest(data[i : i + BLOCK]) for i in range(0, size, BLOCK))
    )
    assert digests(Source("data", size, plain=True)) == expected
    assert digests(Source("data", size, plain=False)) == expected


def test_an_abandoned_stream_ends_its_thread(workplace: Path) -> None:
    (workplace / "text.gz").write_bytes(gzip.compress(b"word " * 10_000_000, 1))
    before = set(threading.enumerate())
    chunks = open_corpus(["text.gz"]).chunks()
    next(chunks)
    (thread,) = set(threading.enumerate()) - before
    chunks.close()  # type: ignore[attr-defined]
    thread.join()


class AllocationCounter(io.FileIO):
    """A file that sums the bytes allocated between reads, beyond those at the first read."""

    allocated = 0
    _before: int | None = None

    def readinto(self, buffer: Any) -> int | None:
        now, peak = tracemalloc.get_traced_memory()
        if self._before is not None:
            self.allocated += peak - self._before
        count = super().readinto(buffer)
        tracemalloc.reset_peak()
        self._before = now
        return count


def test_a_long_line_is_not_copied_at_every_read(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying the line at every read would take quadratic time."""
    length = 1 << 16
    Path("text").write_bytes(b"x" * length + b"\nlast")
    monkeypatch.setattr(source_module, "LINE_BUFFER", 16)
    with AllocationCounter("text") as file:
        monkeypatch.setattr(source_module, "open_raw", lambda path: file)
        tracemalloc.start()
        try:
            lines = [line for part in open_source("text").lines() for line in part]
        finally:
            tracemalloc.stop()
    assert lines == [b"x" * length, b"last"]
    assert file.allocated < 100 * length


@given(text=st.binary(max_size=300), size=st.integers(1, 40))
def test_lines_with_reads_of_any_size(tmp_path_factory: pytest.TempPathFactory, text: bytes, size: int) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(b"." + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "LINE_BUFFER", size)
        lines = [line for part in open_source(str(path)).lines() for line in part]
    assert lines == ended(b"." + text).split(b"\n")[:-1]
    assert {type(line) for line in lines} == {bytes}
