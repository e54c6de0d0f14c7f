"""Records of a file: its lines, or the objects of a JSONL file, each with a text.

Added values are inserted at the end of a JSON object, which keeps the bytes of the rest, or in front of a line.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from neglm_cli.errors import NeglmError
from neglm_cli.text.source import Source
from neglm_cli.text.streams import Advance, no_progress

BATCH_RECORDS = 1024
BATCH_BYTES = 1 << 20

Value = int | float


class BadRecordError(Exception):
    """The reason why a line is no record."""


class Record(NamedTuple):
    """A line of a file, without its newline."""

    line: bytes
    number: int  # from 1 on
    offset: int  # of its first byte, in the decompressed file


@dataclass(frozen=True)
class Format:
    """The format of records: JSONL with a text in a field, or lines if there is none."""

    field: str | None = None

    def text(self, line: bytes) -> bytes:
        """Return the text of a record. Raise BadRecordError if there is none."""
        if self.field is None:
            return line
        text = self._object(line).get(self.field)
        if not isinstance(text, str):
            raise BadRecordError(f"has no text in the field {self.field!r}")
        return text.encode(errors="replace")

    def is_blank(self, line: bytes) -> bool:
        """Return True for a line that is not a record: an empty line of a JSONL file."""
        return self.field is not None and not line.strip()

    def with_values(self, line: bytes, values: Mapping[str, Value]) -> bytes:
        """Return a record with values added; values of the same names are replaced."""
        if self.field is None:
            return b"\t".join([*(_number(value).encode() for value in values.values()), line])
        present = self._object(line).keys() & values.keys()
        if present:
            line = _replace_values(line.decode(), values).encode()
        added = "".join(f", {json.dumps(name)}: {_number(values[name])}" for name in values if name not in present)
        return line.rstrip()[:-1].rstrip() + f"{added}}}".encode() if added else line

    @staticmethod
    def _object(line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadRecordError(f"is not JSON: {json_reason(error)}") from None
        if not isinstance(found, dict):
            raise BadRecordError("is not a JSON object")
        return found


def json_reason(error: ValueError | RecursionError) -> str:
    """Tell why a line is not JSON, without the number of the line, which callers know."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at').lower()} at column {error.colno:,}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1:,} of the line is not UTF-8"
    return "a number is too long" if isinstance(error, ValueError) else "it is nested too deeply"


def _replace_values(text: str, values: Mapping[str, Value]) -> str:
    """Replace values of a JSON object by name, and keep all other characters."""
    parts, first = [], 0
    for name, start, end in _members(text):
        if name in values:
            parts += [text[first:start], _number(values[name])]
            first = end
    return "".join([*parts, text[first:]])


def _members(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the names of a valid JSON object, with the start and end of their values."""
    decode, blank = json.JSONDecoder().raw_decode, re.compile(r"[ \t\n\r]*")

    def skip(at: int, mark: str = "") -> int:
        """Return the position after white space, a mark if it is there, and white space."""
        at = cast(re.Match[str], blank.match(text, at)).end()
        return skip(at + 1) if mark and text[at] == mark else at

    at = skip(text.index("{"), "{")
    while text[at] != "}":
        name, at = decode(text, at)
        start = skip(at, ":")
        _, end = decode(text, start)
        yield name, start, end
        at = skip(end, ",")


def _number(value: Value) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def read_records(source: Source, form: Format, advance: Advance = no_progress) -> Iterator[Record]:
    """Yield the lines of a file that are records, good or bad."""
    number = offset = 0
    for lines in source.lines(advance):
        for line in lines:
            number += 1
            if not form.is_blank(line):
                yield Record(line, number, offset)
            offset += len(line) + 1


def batched(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Group records into batches: at most BATCH_RECORDS, which end at BATCH_BYTES."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.line)
        if len(batch) == BATCH_RECORDS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def bad_record(source: Source, record: Record, reason: BadRecordError) -> NeglmError:
    """Return the error for a line that is no record."""
    return NeglmError(
        f"line {record.number:,} of {source.name}, at byte {record.offset:,}, {reason}; correct it, or skip such lines "
        "with --skip-bad"
    )
