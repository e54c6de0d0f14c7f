"""Files that ask for too much memory, and bytes between and after xz streams."""

import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text.compression import WINDOW_LOG, XzReader
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.source import open_source

XZ_BLOCK = 12  # offset of an xz file's first block header
XZ_DICTIONARY = 4  # offset of the dictionary size in it: 2 bits of mantissa, 5 bits of exponent


def xz_with_dictionary(log: int) -> bytes:
    """Return an xz file of three bytes that asks for a dictionary of 2^log bytes."""
    data = bytearray(lzma.compress(b"a b"))
    header = data[XZ_BLOCK : XZ_BLOCK + 4 * (data[XZ_BLOCK] + 1)]
    header[XZ_DICTIONARY] = 2 * (log - 12)
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    data[XZ_BLOCK : XZ_BLOCK + len(header)] = header
    return bytes(data)


def zstd_with_window(log: int) -> bytes:
    """Return a zstd frame of one stored block of three bytes that asks for a window of 2^log bytes."""
    last_block = 1 | 3 << 3
    return b"\x28\xb5\x2f\xfd\x00" + bytes([log - 10 << 3]) + last_block.to_bytes(3, "little") + b"a b"


FILES = {"xz": xz_with_dictionary, "zstd": zstd_with_window}


def text_of(path: str) -> bytes:
    blocks = (chunk.load() for chunk in open_corpus([path]).chunks())
    return b"".join(block.text[: block.length].tobytes() for block in blocks)


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_window_sizes_of_common_tools_are_accepted(workplace: Path, make: Callable[[int], bytes]) -> None:
    Path("text").write_bytes(make(WINDOW_LOG))
    assert text_of("text") == b"a b\n"


@pytest.mark.parametrize("read", [text_of, lambda path: list(open_source(path).lines())], ids=["blocks", "lines"])
@pytest.mark.parametrize("log", [WINDOW_LOG + 1, 31])
@pytest.mark.parametrize("kind", FILES)
def test_a_larger_window_is_refused(workplace: Path, kind: str, log: int, read: Callable[[str], object]) -> None:
    Path("bomb").write_bytes(FILES[kind](log))
    with pytest.raises(
        NeglmError,
        match=rf"^bomb needs more than 128 MB of memory to decompress: decompress it first, or recompress it "
        rf"with a smaller window \(for example {kind} -9\)$",
    ):
        read("bomb")


def test_a_larger_window_after_other_streams_is_refused(workplace: Path) -> None:
    Path("bomb").write_bytes(lzma.compress(b"first ") + xz_with_dictionary(31))
    with pytest.raises(NeglmError, match="bomb needs more than 128 MB"):
        text_of("bomb")


def decompressed(data: bytes, size: int) -> bytes:
    reader = XzReader(io.BytesIO(data))

    def chunks() -> Iterator[bytes]:
        while count := reader.readinto(buffer := bytearray(size)):
            yield bytes(buffer[:count])

    return b"".join(chunks())


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize(
    ("between", "after"), [(b"", b""), (b"\0" * 4, b"\0" * 20_000), (b"\0" * 20_000, b""), (b"", b"no stream")]
)
def test_xz_streams_follow_each_other(between: bytes, after: bytes, size: int) -> None:
    one, other = b"one" * 5000, bytes(range(256)) * 300
    data = lzma.compress(one) + between + lzma.compress(b"") + lzma.compress(other) + after
    assert decompressed(data, size) == one + other


def test_truncated_xz() -> None:
    with pytest.raises(EOFError):
        decompressed(lzma.compress(b"text" * 1000)[:-20], 1 << 16)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("filler", [b"\n", b" ", b"ab cd\n"])
def test_a_huge_text_is_read_in_pieces(workplace: Path, filler: bytes) -> None:
    """Half a gigabyte compressed to 80 KB takes the memory of a few blocks."""
    compressor = lzma.LZMACompressor(preset=0)
    with open("bomb", "wb") as file:
        for _ in range(128):
            file.write(compressor.compress(filler * ((4 << 20) // len(filler))))
        file.write(compressor.flush())
    before = peak_memory()
    length = sum(chunk.load().length for chunk in open_corpus(["bomb"]).chunks())
    assert length == 128 * ((4 << 20) // len(filler)) * len(filler) + (filler[-1:] != b"\n")
    assert peak_memory() - before < 150 << 20


def peak_memory() -> int:
    """Return the peak so far in bytes, and reset it to the current use."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    Path("/proc/self/clear_refs").write_text("5")
    return peak
