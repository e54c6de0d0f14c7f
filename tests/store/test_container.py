import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from neglm_cli.errors import NeglmError
from neglm_cli.store import container, entry, schema

FIELDS = {
    "arguments": {"min_count": 1, "max_vocab": None},
    "corpus": [{"path": 'a "quoted" näme', "size": 3, "fingerprint": "0" * 32}],
    "lines": 1,
    "tokens": 2,
    "distinct_words": 1,
    "oov_words": 0,
    "oov_tokens": 0,
    "unk_tokens": 0,
}
TENSORS = {
    "words": np.frombuffer(b"a<eos><unk>", np.uint8),
    "offsets": np.array([0, 1, 6, 11]),
    "counts": np.array([2, 1, 1]),
}


def write(path: str = "file", **changes: object) -> str:
    return container.write(path, "vocabulary", FIELDS | changes, TENSORS)


def test_round_trip(workplace: Path) -> None:
    checksum = write()
    stored = container.read("file", "vocabulary")
    assert stored.checksum == checksum
    assert {name: stored.fields[name] for name in FIELDS} == FIELDS
    for name, array in TENSORS.items():
        assert stored.tensors[name].dtype == array.dtype
        assert np.array_equal(stored.tensors[name], array)


def test_the_same_contents_give_the_same_bytes_in_every_process(workplace: Path) -> None:
    script = "from tests.store.test_container import write; write({!r})"
    root = Path(__file__).parent.parent.parent
    for name in ("one", "other"):
        command = [sys.executable, "-c", script.format(str(workplace / name))]
        subprocess.run(command, check=True, cwd=root, env=os.environ | {"PYTHONHASHSEED": str(len(name))})
    assert Path("one").read_bytes() == Path("other").read_bytes()


def test_any_safetensors_reader_reads_it(workplace: Path) -> None:
    write()
    with safe_open("file", "numpy") as file:
        assert file.metadata()["format"] == "neglm"
        assert json.loads(file.metadata()["corpus"]) == FIELDS["corpus"]
        assert np.array_equal(file.get_tensor("offsets"), TENSORS["offsets"])


def test_tensors_are_aligned_and_the_layout_is_as_documented(workplace: Path) -> None:
    write()
    data = Path("file").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    assert next(iter(header)) == "__metadata__"
    assert list(header["__metadata__"]) == [f.name for f in (*schema.COMMON_FIELDS, *schema.KINDS["vocabulary"].fields)]
    for name, array in TENSORS.items():
        start, end = header[name]["data_offsets"]
        assert start % array.itemsize == 0
        assert data[8 + length + start : 8 + length + end] == array.tobytes()


def test_checksum_is_as_documented(workplace: Path) -> None:
    checksum = write()
    data = Path("file").read_bytes()
    before = 8 + int.from_bytes(data[:8], "little")
    header = data[:before].replace(checksum.encode(), b"0" * 32)
    assert xxhash.xxh3_128_hexdigest(header + xxhash.xxh3_128_digest(data[before:])) == checksum


@given(data=st.data())
def test_every_flipped_bit_is_detected(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("flipped") / "file"
    write(str(path))
    contents = bytearray(path.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(contents) - 1))
    contents[bit // 8] ^= 1 << bit % 8
    path.write_bytes(contents)
    with pytest.raises(
        NeglmError, match="make it again|not a neglm file|not one of neglm's|upgrade|expected a vocabulary"
    ):
        container.read(path, "vocabulary")


def test_truncated_and_extended_files_are_detected(workplace: Path) -> None:
    write()
    whole = Path("file").read_bytes()
    for length in range(len(whole)):
        Path("cut").write_bytes(whole[:length])
        with pytest.raises(NeglmError, match="cut is (cut short|empty|not a neglm file)"):
            container.read("cut")
    Path("long").write_bytes(whole + b"x")
    with pytest.raises(NeglmError, match="long has bytes after its end"):
        container.read("long")


def test_a_newer_version(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "FORMAT_VERSION", 3)
    monkeypatch.setattr(container, "__version__", "9.0")
    write()
    monkeypatch.undo()
    os.chdir(workplace)
    with pytest.raises(NeglmError, match=r"file has format version 3 .* written by neglm 9.0; upgrade neglm"):
        container.read("file")


def test_another_kind(workplace: Path) -> None:
    write()
    with pytest.raises(NeglmError, match="file contains a vocabulary; expected an encoded corpus"):
        container.read("file", "encoded corpus")


def test_other_safetensors_files(workplace: Path) -> None:
    save_file({"x": np.zeros(3, np.float32)}, "file")
    with pytest.raises(NeglmError, match="file is a safetensors file, but not one of neglm's"):
        container.read("file")


@pytest.mark.parametrize("content", [b"plain text, and more of it", b"short", bytes(100), b"\xff" * 100])
def test_other_files(workplace: Path, content: bytes) -> None:
    Path("file").write_bytes(content)
    with pytest.raises(NeglmError, match="file is not a neglm file"):
        container.read("file")


def test_missing_and_directory(workplace: Path) -> None:
    with pytest.raises(NeglmError, match="nothing does not exist"):
        container.read("nothing")
    with pytest.raises(NeglmError, match=r"\. is a directory"):
        container.read(".")


@given(pieces=st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=20), max_size=5))
def test_streamed_files_equal_others(tmp_path_factory: pytest.TempPathFactory, pieces: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("growing") / "file"
    fields = {"corpus": [], "vocabulary": "0" * 32, "lines": 0, "mtimes_ns": []}
    with container.write_streaming(path, "encoded corpus", fields) as ids:
        for piece in pieces:
            ids.append(np.array(piece, np.int32))
        fields["lines"] = 10**18
    expected = [number for piece in pieces for number in piece]
    stored = container.read(path, "encoded corpus")
    assert stored.tensors["ids"].tolist() == expected
    assert stored.fields["lines"] == 10**18
    mapped_fields, mapped = container.map_tensor(path, "encoded corpus")
    assert mapped.tolist() == expected
    assert mapped.flags.aligned
    assert mapped_fields == stored.fields


def test_an_unfinished_streamed_file_does_not_exist(workplace: Path) -> None:
    fields = {"corpus": [], "vocabulary": "", "lines": 0, "mtimes_ns": []}

    def fail_halfway() -> None:
        with container.write_streaming("file", "encoded corpus", fields) as ids:
            ids.append(np.arange(10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_halfway()
    assert os.listdir() == []


@pytest.mark.parametrize("broken", [{"counts": np.zeros(3)}, {"counts": None}, {"counts": np.zeros((3, 1), np.int64)}])
def test_tensors_that_are_missing_or_of_another_type(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, broken: dict[str, np.ndarray | None]
) -> None:
    """With a valid checksum, as another program might write it."""
    kind = schema.KINDS["vocabulary"]
    tensors = {name: array for name, array in (TENSORS | broken).items() if array is not None}
    shapes = {name: ("V",) * array.ndim for name, array in tensors.items()}
    other = kind._replace(
        tensors=tuple(schema.Tensor(name, str(tensors[name].dtype), shapes[name], "") for name in tensors)
    )
    monkeypatch.setitem(schema.KINDS, "vocabulary", other)
    monkeypatch.setitem(entry.SAFETENSORS_DTYPE, "float64", "F64")
    container.write("file", "vocabulary", FIELDS, tensors)
    monkeypatch.setitem(schema.KINDS, "vocabulary", kind)
    with pytest.raises(NeglmError, match="tensor `counts` is missing or of the wrong type"):
        container.read("file")
