"""Reading and writing neglm files: safetensors with defined metadata and a checksum of the whole file.

This does not use the `safetensors` package, which writes metadata in the order of a hash map, different in every run.
Files are read once, so that the checksum is verified on the bytes in use.
"""

import fcntl
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import xxhash

from neglm_cli import __version__
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store import version1, wording
from neglm_cli.store.atomic import is_same_file
from neglm_cli.store.entry import SAFETENSORS_DTYPE, Entry, parse_entry, size_of
from neglm_cli.store.folder import file_of
from neglm_cli.store.output import STANDARD_STREAM, writing
from neglm_cli.store.progress import track
from neglm_cli.store.rules import SchemaError, UnknownNameError
from neglm_cli.store.schema import COMMON_FIELDS, FORMAT_VERSION, KINDS, MAX_HEADER_SIZE, Tensor, tensors_of
from neglm_cli.store.validation import Fields, check_contents, check_shapes, parse_fields, parse_json

NO_CHECKSUM = "0" * 32
CHECKSUM_MARK = b'"checksum":"'  # cannot occur inside a JSON string, where quotes are escaped
CHECKSUM = re.compile(rb'"checksum"\s*:\s*"([0-9a-f]{32})"')
HEADER_RESERVE = 256  # bytes added to twice the initial header, as numbers in it may grow
READ_SIZE = 8 << 20


@dataclass(frozen=True)
class Stored:
    """A file that was read: kind, typed metadata, tensors and checksum."""

    kind: str
    fields: Fields
    tensors: dict[str, np.ndarray]
    checksum: str
    path: str  # as the user gave it
    name: str  # for messages
    size: int  # bytes


class Matrix(Protocol):
    """A matrix that is written block by block, to avoid a copy of the whole."""

    shape: tuple[int, int]

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield all rows in order, in blocks (rows, columns)."""
        ...


def write(path: str | os.PathLike[str], kind: str, fields: Fields, tensors: Mapping[str, np.ndarray | Matrix]) -> str:
    """Write a file and return its checksum. Equal contents give equal bytes."""
    with writing(path) as file:
        return write_to(file, kind, fields, tensors)


def write_to(file: BinaryIO, kind: str, fields: Fields, tensors: Mapping[str, np.ndarray | Matrix]) -> str:
    """Write to an open file; see `write`."""
    ordered = [tensors[tensor.name] for tensor in _by_alignment(kind, fields)]
    data_digest = xxhash.xxh3_128()
    for data in _data(ordered):
        data_digest.update(data)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    header, checksum = _header(kind, fields, shapes, data_digest.digest())
    file.write(header)
    for data in _data(ordered):
        file.write(data)
    return checksum


def _data(tensors: Sequence[np.ndarray | Matrix]) -> Iterator[memoryview]:
    """Yield the bytes of tensors, in chunks of at most READ_SIZE."""
    for tensor in tensors:
        for block in (tensor,) if isinstance(tensor, np.ndarray) else tensor.blocks():
            flat = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
            for start in range(0, flat.size, READ_SIZE):
                yield flat[start : start + READ_SIZE].data


class TensorWriter:
    """Appends to the tensor of a file written by `write_streaming`."""

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
def write_streaming(path: str | os.PathLike[str], kind: str, fields: Fields) -> Iterator[TensorWriter]:
    """Write a file with a single 1-d tensor whose length is known only at the end.

    Numbers and fingerprints in `fields` may change until the end of the block: the header is written last, into
    reserved space. Until then the file starts with zeros, which readers reject.
    """
    (tensor,) = KINDS[kind].tensors
    with writing(path) as file:
        reserved = 2 * len(_header(kind, fields, {tensor.name: (0,)}, b"")[0]) + HEADER_RESERVE
        file.write(b"\0" * reserved)
        appended = TensorWriter(file, tensor.dtype)
        yield appended
        header, _ = _header(kind, fields, {tensor.name: (appended.length,)}, appended.digest.digest(), reserved)
        assert len(header) == reserved, "the header exceeds its reserved space"
        file.seek(0)
        file.write(header)


class SeekableFile(NamedTuple):
    """A seekable file: the user's, or a temporary copy of a pipe."""

    location: str  # the path to open
    path: str  # as the user gave it; paths stored in the file are relative to it
    name: str  # for messages


def read(path: str | os.PathLike[str], *kinds: str) -> Stored:
    """Read and verify a file. Raise if it is not of one of these kinds, if any are given."""
    with open_seekable(os.fspath(path)) as file:
        return read_from(file, *kinds)


def read_from(source: SeekableFile, *kinds: str) -> Stored:
    """Read and verify a seekable file; see `read`."""
    location, path, name = source
    digest = xxhash.xxh3_128()
    try:
        with open(location, "rb") as file:
            header = _read_header(file, name, *kinds)
            data = np.empty(header.size - len(header.raw), np.uint8)
            read = 0
            with track(f"reading {name}", len(data)) as progress:
                while read < len(data) and (count := file.readinto(data[read : read + READ_SIZE].data)):
                    digest.update(data[read : read + count].data)
                    read += count
                    progress.advance(count)
    except OSError as error:
        raise NeglmError(f"cannot read {name}: {error.strerror or error}") from error
    _verify_checksum(header, digest.digest(), name)
    tensors = {key: entry.view(data) for key, entry in header.entries.items()}
    try:
        check_contents(header.kind, header.fields, header.lengths, tensors)
    except SchemaError as error:
        raise _damaged_error(name, error) from error
    return Stored(header.kind, header.fields, tensors, header.fields["checksum"], path, name, header.size)


def map_tensor(path: str | os.PathLike[str], kind: str) -> tuple[Fields, np.ndarray]:
    """Return the metadata and the memory-mapped tensor of a file with a single one, after verifying its checksum.

    The mapping holds a shared lock on the file, which marks it as in use."""
    location = os.fspath(path)
    name = shown(location)
    try:
        with open(location, "rb") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            header = _read_header(file, name, kind)
            digest = xxhash.xxh3_128()
            while block := file.read(READ_SIZE):
                digest.update(block)
            _verify_checksum(header, digest.digest(), name)
            if not is_same_file(file.fileno(), Path(location)):
                raise NeglmError(f"{name} was replaced while it was read; make it again")
            (entry,) = header.entries.values()
            if entry.start == entry.end:
                return header.fields, np.empty(0, entry.dtype)
            return header.fields, np.memmap(file, entry.dtype, "r", len(header.raw) + entry.start, entry.shape)
    except OSError as error:
        raise NeglmError(f"cannot read {name}: {error.strerror or error}") from error


def read_fields(path: str | os.PathLike[str]) -> Fields:
    """Read the metadata of a file from its header, without verifying the checksum."""
    location = os.fspath(path)
    try:
        with open(location, "rb") as file:
            return _read_header(file, shown(location)).fields
    except OSError as error:
        raise NeglmError(f"cannot read {shown(location)}: {error.strerror or error}") from error


def is_safetensors(path: str | os.PathLike[str]) -> bool:
    """Return True if a file looks like safetensors: eight bytes of length, then a JSON object."""
    with open(path, "rb") as file:
        return file.read(9)[8:] == b"{"


# --- the header ---------------------------------------------------------------------------------------


def _by_alignment(kind: str, fields: Fields) -> list[Tensor]:
    """Return the tensors by descending item size, so that each is aligned to it."""
    return sorted(tensors_of(KINDS[kind], fields), key=lambda tensor: (-np.dtype(tensor.dtype).itemsize, tensor.name))


def _header(
    kind: str, fields: Fields, shapes: Mapping[str, tuple[int, ...]], data_digest: bytes, size: int | None = None
) -> tuple[bytes, str]:
    """Return the bytes before the data, padded with blanks to `size` if given, and the file's checksum."""
    everything = {
        "checksum": NO_CHECKSUM,
        "format": "neglm",
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "tool_version": __version__,
    } | fields
    header: dict[str, Any] = {
        "__metadata__": {
            field.name: _to_text(everything[field.name], field.type)
            for field in (*COMMON_FIELDS, *KINDS[kind].fields)
            if field.default is None or everything[field.name] != field.default
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
    if len(padded) > MAX_HEADER_SIZE:
        raise NeglmError(
            f"a header of {len(padded):,} bytes would be larger than {MAX_HEADER_SIZE:,}: there are too many corpus "
            "files; join some of them"
        )
    raw = len(padded).to_bytes(8, "little") + padded
    checksum = _checksum(raw, data_digest)
    return raw.replace(CHECKSUM_MARK + NO_CHECKSUM.encode(), CHECKSUM_MARK + checksum.encode(), 1), checksum


def _checksum(unsigned_header: bytes, data_digest: bytes) -> str:
    return xxhash.xxh3_128(unsigned_header + data_digest).hexdigest()


def _to_text(value: Any, type_: str) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True) if type_ == "JSON" else str(value)


class Header(NamedTuple):
    raw: bytes  # all bytes before the data
    kind: str
    fields: Fields
    entries: dict[str, Entry]
    lengths: dict[str, int]  # of the dimensions in `schema.DIMENSIONS`
    size: int  # bytes of the file


def _read_header(file: BinaryIO, name: str, *kinds: str) -> Header:
    """Read the header and check it against the schema and the size of the file."""
    raw = _raw_header(file, name)
    size = os.fstat(file.fileno()).st_size
    try:
        parsed = parse_json(raw[8:].decode())
        metadata = parsed.pop("__metadata__", None)
    except (ValueError, AttributeError) as error:
        raise NeglmError(f"{name} is damaged: its header is unreadable; make it again") from error
    version = _version(metadata, name)
    try:
        if version == version1.VERSION:
            metadata = version1.translate_metadata(metadata)
        kind = _kind(metadata, name, *kinds)
        fields = parse_fields(metadata, KINDS[kind])
        entries = {key: parse_entry(key, described) for key, described in parsed.items()}
        expected = len(raw) + size_of(entries)
        if size != expected:
            what = "is cut short" if size < expected else "has bytes after its end"
            raise NeglmError(f"{name} {what} ({size:,} bytes of {expected:,}); make it again")
        if version == version1.VERSION:
            entries = version1.translate_tensors(entries, metadata)
        lengths = check_shapes(KINDS[kind], fields, {key: (e.dtype, e.shape) for key, e in entries.items()})
    except SchemaError as error:
        raise _damaged_error(name, error) from error
    return Header(raw, kind, fields, entries, lengths, size)


def _raw_header(file: BinaryIO, name: str) -> bytes:
    """Read the bytes before the data."""
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
    if size > MAX_HEADER_SIZE:
        raise NeglmError(f"{name} has a header of {size:,} bytes, and neglm reads up to {MAX_HEADER_SIZE:,}")
    file.seek(0)
    return file.read(8 + size)


def _version(metadata: Any, name: str) -> str | None:
    """Return the format version of a file. Raise if it is not neglm's, or newer than this neglm."""
    if not isinstance(metadata, dict) or metadata.get("format") != "neglm":
        raise NeglmError(
            f"{name} is a safetensors file, but not one of neglm's (`neglm import --pytorch` reads PyTorch's)"
        )
    version = metadata.get("format_version")
    if not isinstance(version, str) or not re.fullmatch("[1-9][0-9]{0,8}", version):
        return None
    if int(version) > FORMAT_VERSION:
        raise NeglmError(
            f"{name} has format version {version} and this neglm reads up to {FORMAT_VERSION}: "
            f"it was written by neglm {str(metadata.get('tool_version'))[:40]}; upgrade neglm"
        )
    return version


def _kind(metadata: dict[str, Any], name: str, *kinds: str) -> str:
    """Return the kind of a file. Raise if it is unknown, or not among `kinds`, if given."""
    kind = metadata.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"its kind is {json.dumps(kind)[:40]}, which is none of neglm's")
    if kinds and kind not in kinds:
        raise NeglmError(wording.wrong_kind(name, kind, kinds))
    return kind


def _damaged_error(name: str, problem: SchemaError) -> NeglmError:
    if isinstance(problem, UnknownNameError):
        return NeglmError(f"{name}: {problem}: upgrade neglm")
    return NeglmError(f"{name} is damaged: {problem}; make it again")


def _verify_checksum(header: Header, data_digest: bytes, name: str) -> None:
    raw, match = header.raw, CHECKSUM.search(header.raw)
    unsigned = raw[: match.start(1)] + NO_CHECKSUM.encode() + raw[match.end(1) :] if match else b""
    if _checksum(unsigned, data_digest) != header.fields["checksum"]:
        raise NeglmError(f"{name} is damaged: its checksum does not match its contents; make it again")


@contextmanager
def open_seekable(path: str) -> Iterator[SeekableFile]:
    """Open a file, or `-` for standard input, as a seekable file: a pipe is copied to a temporary file. A folder stands
    for the neglm file in it."""
    standard = path == STANDARD_STREAM
    path = path if standard else file_of(path)
    name = "standard input" if standard else shown(path)
    if not standard:
        if not os.path.exists(path):
            raise NeglmError(wording.missing(path))
        if os.path.isdir(path):
            raise NeglmError(f"{name} is a directory, not a file")
        if os.path.isfile(path):
            yield SeekableFile(path, path, name)
            return
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as copy:
        try:
            with open(sys.stdin.fileno() if standard else path, "rb", closefd=not standard) as pipe:
                block = b"\0" * READ_SIZE
                while len(block) == READ_SIZE:  # a short block is the last; a terminal would wait for another Ctrl-D
                    block = pipe.read(READ_SIZE)
                    copy.write(block)
            copy.flush()
        except OSError as error:
            raise NeglmError(
                f"cannot copy {name} to the temporary directory {tempfile.gettempdir()}: {error.strerror or error}; "
                "set TMPDIR to one with more room"
            ) from error
        yield SeekableFile(copy.name, path, name)
