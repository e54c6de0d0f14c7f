"""Export and import preserve all bits, in every format."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.vectors import exchange, matrix_text, reading
from neglm_cli.vectors.formats import Format, ImportFormat
from neglm_cli.vectors.reading import Table
from tests.vectors.exchange import assert_same_bits, read_back, some_vectors, tables, vectors_of

NAMES = {Format.TEXT: "out.txt", Format.BINARY: "out.bin", Format.NPY: "out.npy"}


@pytest.mark.parametrize("format", NAMES)
@given(table=tables())
def test_odd_bytes_and_all_magnitudes(tmp_path_factory: pytest.TempPathFactory, format: Format, table: Table) -> None:
    path = str(tmp_path_factory.getbasetemp() / NAMES[format])
    exchange.write(vectors_of(*table).words, table.vectors, path, format)
    back, _ = exchange.read(path, ImportFormat(format), None)
    assert back.words == table.words
    assert_same_bits(back.vectors, table.vectors)


@pytest.mark.parametrize("format", NAMES)
def test_formats_are_detected(workplace: Path, format: Format) -> None:
    before = some_vectors()
    exchange.write(before.words, before.vectors, "nameless", format)
    back, found = exchange.read("nameless", None, None)
    assert found.value == format.value
    assert back.words == list(before.words)
    assert_same_bits(back.vectors, before.vectors)


@pytest.mark.parametrize("size", [1, 2, 3, 300])
@pytest.mark.parametrize("format", [Format.TEXT, Format.BINARY])
def test_formats_of_small_and_large_vectors_are_detected(workplace: Path, size: int, format: Format) -> None:
    before = some_vectors(size)
    exchange.write(before.words, before.vectors, "out", format)
    assert exchange.read("out", None, None)[1].value == format.value


def test_a_binary_vector_that_starts_with_a_newline_is_not_text(workplace: Path) -> None:
    odd = np.frombuffer(b"\n\n\n\n1 2\n", "<f4").reshape(1, 2)
    exchange.write(vectors_of([b"a"], odd).words, odd, "out", Format.BINARY)
    assert_same_bits(read_back("out").vectors, odd)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed(workplace: Path, compress: Callable[[bytes], bytes]) -> None:
    Path("vectors").write_bytes(compress(b"2 2\na 1 2\nb 3 4\n"))
    back = read_back("vectors")
    assert back.words == [b"a", b"b"]
    assert_same_bits(back.vectors, np.array([[1, 2], [3, 4]], np.float32))


@pytest.mark.parametrize("format", [Format.TEXT, Format.BINARY])
def test_buffers_that_are_too_small(workplace: Path, monkeypatch: pytest.MonkeyPatch, format: Format) -> None:
    """Lines and records that span buffers, a matrix that grows, and arrays that fill up."""
    before = some_vectors(50)
    exchange.write(before.words, before.vectors, "out", format)
    monkeypatch.setattr(reading, "BUFFER", 64)
    monkeypatch.setattr(reading, "INITIAL_VALUES", 50)
    monkeypatch.setattr(matrix_text, "ROWS", 2)
    back, _ = exchange.read("out", ImportFormat(format), None)
    assert back.words == list(before.words)
    assert_same_bits(back.vectors, before.vectors)


def test_text_in_several_blocks(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = some_vectors()
    exchange.write(before.words, before.vectors, "whole.txt", Format.TEXT)
    monkeypatch.setattr(matrix_text, "BLOCK", 1)
    exchange.write(before.words, before.vectors, "pieces.txt", Format.TEXT)
    assert Path("whole.txt").read_bytes() == Path("pieces.txt").read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        b"2 2\nx 1 -0.5 \ny 1e2 .25 \n",  # word2vec.c has a blank at the end of a line
        b"2 2\r\nx 1 -0.5\r\ny 1E+2 25e-2\r\n",
        b"x 1 -0.5\ny 100. +0.25\n",  # GloVe
        b"2\t2\nx\t1.0\t-0.5\ny\t100\t0.2500000000000000000000\n\n \n",
        b" 2 2 \nx 1 -5e-1\ny  1000000000000000000000000000000000e-31 0.25\n",
    ],
)
def test_text_written_by_other_tools(workplace: Path, text: bytes) -> None:
    Path("vectors").write_bytes(text)
    back = read_back("vectors")
    assert back.words == [b"x", b"y"]
    assert_same_bits(back.vectors, np.array([[1, -0.5], [100, 0.25]], np.float32))


@given(
    st.lists(
        st.one_of(st.floats(-3e38, 3e38).map(repr), st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,20})?", fullmatch=True))
    )
)
def test_decimals_are_parsed_like_python(tmp_path_factory: pytest.TempPathFactory, numbers: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "numbers"
    path.write_text(f"1 {len(numbers) + 1}\nword 0 {' '.join(numbers)}\n")
    expected = np.array([[0, *map(float, numbers)]]).astype(np.float32)
    assert_same_bits(exchange.read(str(path), ImportFormat.TEXT, None)[0].vectors, expected)


@pytest.mark.parametrize("digits", ["r", ".16e", ".17e"])
def test_decimals_halfway_between_two_floats(workplace: Path, digits: str) -> None:
    """The last bit of the double decides the float32: double rounding would show."""
    random = np.random.default_rng(5)
    bits = random.integers(0x10000000, 0x70000000, 50_000).astype(np.int32)  # from 1e-29 to 1e29
    halfway = (bits.view(np.float32).astype(np.float64) + (bits + 1).view(np.float32)) / 2
    numbers = [repr(number) if digits == "r" else format(number, digits) for number in halfway.tolist()]
    Path("in").write_text(f"1 {len(numbers)}\nword {' '.join(numbers)}\n")
    assert_same_bits(read_back("in").vectors, halfway.astype(np.float32)[None])


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", "<i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_of_other_types(workplace: Path, dtype: str, order: str) -> None:
    matrix = np.array([[1, 2, 3], [4, 5, 6]], dtype, order=order)  # type: ignore[call-overload]
    np.save("matrix.npy", matrix)
    Path("list").write_bytes(b"a b\r\nc")
    table, _ = exchange.read("matrix.npy", None, "list")
    assert table.words == [b"a b", b"c"]
    assert_same_bits(table.vectors, np.array([[1, 2, 3], [4, 5, 6]], np.float32))
