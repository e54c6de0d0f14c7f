"""Reading and writing neglm files: safetensors with a known set of fields and a checksum over everything.

The `safetensors` package reads and validates. Writing is done here, because that package keeps the
metadata in a hash map: the order of its fields, and so the bytes of the file, change from run to run.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import xxhash
from safetensors import SafetensorError, safe_open

from neglm_cli import __version__
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store import wording
from neglm_cli.store.output import STANDARD_STREAM, writing
from neglm_cli.store.schema import COMMON_FIELDS, FORMAT_VERSION, KINDS, Tensor, tensors_of
from neglm_cli.store.watching import watched

SAFETENSORS_DTYPE = {"uint8": "U8", "int32": "I32", "int64": "I64", "float32": "F32"}
NO_CHECKSUM = "0" * 32
CHECKSUM_MARK = b'"checksum":"'  # cannot occur inside a JSON string: its quotes would be escaped
GROWING_ROOM = 256  # with as many bytes again as it has at first: more than numbers add to a header written last
READ_SIZE = 8 << 20

Fields = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """A file that was read: its kind, its fields with their types, its tensors, and the checksum that names it."""

    kind: str
    fields: Fields
    tensors: dict[str, np.ndarray]
    checksum: str
    path: str  # what the user called it
    name: str  # what to call it in a sentence
    size: int


class Matrix(Protocol):
    """A matrix that is no array: it is written block by block, so that it need not be copied as a whole."""

    shape: tuple[int, int]

    def blocks(self) -> Iterator[np.ndarray]:
        """All rows in order, some at a time."""
        ...


def write(path: str | os.PathLike[str], kind: str, fields: Fields, tensors: Mapping[str, np.ndarray | Matrix]) -> str:
    """Write a file of this kind; returns its checksum. The same contents give the same bytes."""
    ordered = [tensors[tensor.name] for tensor in _by_alignment(kind, fields)]
    data_digest = xxhash.xxh3_128()
    for data in _data(ordered):
        data_digest.update(data)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    header, checksum = _header(kind, fields, shapes, data_digest.digest())
    with writing(path) as file:
        file.write(header)
        for data in _data(ordered):
            file.write(data)
    return checksum


def _data(tensors: Sequence[np.ndarray | Matrix]) -> Iterator[memoryview]:
    """The bytes of tensors, one after the other, in pieces that are written at once."""
    for tensor in tensors:
        for block in (tensor,) if isinstance(tensor, np.ndarray) else tensor.blocks():
            flat = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
            for start in range(0, flat.size, READ_SIZE):
                yield flat[start : start + READ_SIZE].data


class GrowingTensor:
    """The one tensor of a file whose length is known only at the end; see `write_growing`."""

    def __init__(self, file: BinaryIO, dtype: str) -> None:
        self._file = file
        self._dtype = np.dtype(dtype)
        self.digest = xxhash.xxh3_128()
        self.length = 0

    def append(self, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values, self._dtype).view(np.uint8).data
        self._file.write(data)
        self.digest.update(data)
        self.length += len(values)


@contextmanager
def write_growing(path: str | os.PathLike[str], kind: str, fields: Fields) -> Iterator[GrowingTensor]:
    """Write a file of one 1-d tensor piece by piece.

    Numbers and fingerprints in `fields` may be mended until the end of the block: the header is written
    last, into room that is set aside. Until then the file starts with zeros, which no reader takes for a file.
    """
    (tensor,) = KINDS[kind].tensors
    with writing(path) as file:
        room = 2 * len(_header(kind, fields, {tensor.name: (0,)}, b"")[0]) + GROWING_ROOM
        file.write(b"\0" * room)
        growing = GrowingTensor(file, tensor.dtype)
        yield growing
        header, _ = _header(kind, fields, {tensor.name: (growing.length,)}, growing.digest.digest(), room)
        assert len(header) == room, "the header outgrew its room"
        file.seek(0)
        file.write(header)


class Readable(NamedTuple):
    """A file that can be read more than once."""

    location: str  # where to read it
    path: str  # what the user called it; paths stored in the file are relative to this one
    name: str  # what to call it in a sentence


def read(path: str | os.PathLike[str], *kinds: str) -> Stored:
    """Read a file and verify it. With `kinds`, any other kind is refused."""
    with seekable(os.fspath(path)) as file:
        return read_from(file, *kinds)


def read_from(source: Readable, *kinds: str) -> Stored:
    """Read a file that is open for reading; see `read`."""
    location, path, name = source
    try:
        header, size = _read_header(location, name)
        fields = _fields(header, name, *kinds)
        _verify_checksum(location, name)
        with safe_open(location, framework="numpy") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise NeglmError(f"{name} is damaged: {error}; make it again") from error
    except OSError as error:
        raise NeglmError(f"cannot read {name}: {error.strerror or error}") from error
    _check_tensors(tensors_of(KINDS[fields["kind"]], fields), tensors, name)
    return Stored(fields["kind"], fields, tensors, fields["checksum"], path, name, size)


def map_tensor(path: str | os.PathLike[str], kind: str) -> tuple[Fields, np.ndarray]:
    """The fields and the one tensor of a file, memory-mapped: nothing is read, so the checksum is not verified."""
    location = os.fspath(path)
    name = shown(location)
    header, size = _read_header(location, name)
    fields = _fields(header, name, kind)
    (tensor,) = KINDS[kind].tensors
    entry = header[tensor.name]
    start, end = (size - _data_size(header) + offset for offset in entry["data_offsets"])
    if end > size or end - start != entry["shape"][0] * np.dtype(tensor.dtype).itemsize:
        raise NeglmError(f"{name} is cut short; make it again")
    if start == end:
        return fields, np.empty(0, tensor.dtype)
    return fields, np.memmap(location, tensor.dtype, "r", start, (entry["shape"][0],))


def is_stored(path: str | os.PathLike[str]) -> bool:
    """Whether the file looks like safetensors: a JSON object behind eight bytes of length."""
    with open(path, "rb") as file:
        return file.read(9)[8:] == b"{"


# --- the header ---------------------------------------------------------------------------------------


def _by_alignment(kind: str, fields: Fields) -> list[Tensor]:
    """Wide types first, so that every tensor starts at a multiple of its item size."""
    return sorted(tensors_of(KINDS[kind], fields), key=lambda tensor: (-np.dtype(tensor.dtype).itemsize, tensor.name))


def _header(
    kind: str, fields: Fields, shapes: Mapping[str, tuple[int, ...]], data_digest: bytes, size: int | None = None
) -> tuple[bytes, str]:
    """The bytes before the data, padded with blanks to `size` if it is given, and the file's checksum."""
    everything = {
        "checksum": NO_CHECKSUM,
        "format": "neglm",
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "tool_version": __version__,
    } | fields
    header: dict[str, Any] = {
        "__metadata__": {
            field.name: _to_text(everything[field.name], field.type) for field in (*COMMON_FIELDS, *KINDS[kind].fields)
        }
    }
    position = 0
    for tensor in _by_alignment(kind, fields):
        shape = shapes[tensor.name]
        end = position + int(np.prod(shape)) * np.dtype(tensor.dtype).itemsize
        dtype = SAFETENSORS_DTYPE[tensor.dtype]
        header[tensor.name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    padded = text.ljust(size - 8 if size else -(-len(text) // 8) * 8)
    raw = len(padded).to_bytes(8, "little") + padded
    checksum = _checksum(raw, data_digest)
    return raw.replace(CHECKSUM_MARK + NO_CHECKSUM.encode(), CHECKSUM_MARK + checksum.encode(), 1), checksum


def _checksum(header_without: bytes, data_digest: bytes) -> str:
    return xxhash.xxh3_128(header_without + data_digest).hexdigest()


def _to_text(value: Any, type_: str) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True) if type_ == "JSON" else str(value)


def _from_text(text: str, type_: str) -> Any:
    return json.loads(text) if type_ == "JSON" else int(text) if type_ == "integer" else text


def _data_size(header: Mapping[str, Any]) -> int:
    return max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)


def _raw_header(file: BinaryIO, name: str) -> bytes:
    """The bytes before the data."""
    file_size = os.fstat(file.fileno()).st_size
    length = file.read(8)
    if file_size == 0:
        raise NeglmError(f"{name} is empty; make it again")
    size = int.from_bytes(length, "little")
    if len(length) < 8 or file.read(1) != b"{":
        file.seek(0)
        raise NeglmError(wording.not_ours(name, file.read(wording.SNIFFED)))
    if 8 + size > file_size:
        raise NeglmError(f"{name} is cut short; make it again")
    file.seek(0)
    return file.read(8 + size)


def _read_header(location: str, name: str) -> tuple[dict[str, Any], int]:
    """The parsed header, and the size that the file has and should have."""
    with open(location, "rb") as file:
        raw = _raw_header(file, name)
        size = os.fstat(file.fileno()).st_size
    try:
        header = json.loads(raw[8:])
        expected = len(raw) + _data_size(header)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise NeglmError(f"{name} is damaged: its header is unreadable; make it again") from error
    if size != expected:
        what = "is cut short" if size < expected else "has bytes behind its end"
        raise NeglmError(f"{name} {what} ({size:,} bytes of {expected:,}); make it again")
    return header, size


def _fields(header: Mapping[str, Any], name: str, *kinds: str) -> Fields:
    """The metadata with their types, for a file of a version and kind that this neglm knows."""
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != "neglm":
        raise NeglmError(f"{name} is a safetensors file, but not one of neglm's")
    try:
        version = int(metadata["format_version"])
        if version > FORMAT_VERSION:
            raise NeglmError(
                f"{name} has format version {version} and this neglm reads up to {FORMAT_VERSION}: "
                f"it was written by neglm {metadata['tool_version']}; upgrade neglm"
            )
        found = metadata["kind"]
        if kinds and found not in kinds:
            raise NeglmError(wording.wrong_kind(name, found, kinds))
        return {f.name: _from_text(metadata[f.name], f.type) for f in (*COMMON_FIELDS, *KINDS[found].fields)}
    except (KeyError, ValueError, TypeError) as error:
        raise NeglmError(f"{name} is damaged: its metadata are not those of a neglm file; make it again") from error


def _verify_checksum(location: str, name: str) -> None:
    with open(location, "rb") as file:
        raw = _raw_header(file, name)
        data_digest = xxhash.xxh3_128()
        with watched(f"reading {name}", os.fstat(file.fileno()).st_size - len(raw)) as progress:
            while block := file.read(READ_SIZE):
                data_digest.update(block)
                progress.advance(len(block))
    start = raw.find(CHECKSUM_MARK) + len(CHECKSUM_MARK)
    end = start + len(NO_CHECKSUM)
    without = raw[:start] + NO_CHECKSUM.encode() + raw[end:]
    if _checksum(without, data_digest.digest()).encode() != raw[start:end]:
        raise NeglmError(f"{name} is damaged: its checksum does not match its contents; make it again")


def _check_tensors(expected: list[Tensor], tensors: Mapping[str, np.ndarray], name: str) -> None:
    for tensor in expected:
        array = tensors.get(tensor.name)
        if array is None or array.dtype != tensor.dtype or array.ndim != len(tensor.shape):
            raise NeglmError(
                f"{name} is damaged: tensor `{tensor.name}` is missing or of the wrong type; make it again"
            )


@contextmanager
def seekable(path: str) -> Iterator[Readable]:
    """A file, or - for standard input, for reading more than once: a pipe goes through a temporary file."""
    standard = path == STANDARD_STREAM
    name = "standard input" if standard else shown(path)
    if not standard:
        if not os.path.exists(path):
            raise NeglmError(wording.missing(path))
        if os.path.isdir(path):
            raise NeglmError(f"{name} is a directory, not a file")
        if os.path.isfile(path):
            yield Readable(path, path, name)
            return
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as copy:
        try:
            with open(sys.stdin.fileno() if standard else path, "rb", closefd=not standard) as pipe:
                block = b"\0" * READ_SIZE
                while len(block) == READ_SIZE:  # a shorter one is the last; a terminal would wait for another Ctrl-D
                    block = pipe.read(READ_SIZE)
                    copy.write(block)
            copy.flush()
        except OSError as error:
            raise NeglmError(
                f"cannot copy {name} to the temporary directory {tempfile.gettempdir()}: {error.strerror or error}; "
                "set TMPDIR to one with more room"
            ) from error
        yield Readable(copy.name, path, name)
