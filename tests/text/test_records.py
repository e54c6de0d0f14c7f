"""Records keep their bytes; values are added; bad lines are located."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.text.records import BadRecordError, Format, Record, batched, read_records
from neglm_cli.text.source import open_source

JSONL = Format("text")
VALUES: dict[str, int | float] = {"perplexity": 12.5, "tokens": 3}
SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.text().filter(lambda name: name not in VALUES), SCALARS), st.text())
def test_values_are_added_to_json(others: dict[str, Any], text: str) -> None:
    record = others | {"text": text}
    line = json.dumps(record, ensure_ascii=False).encode(errors="surrogatepass")
    if any("\ud800" <= char <= "\udfff" for char in line.decode(errors="surrogateescape")):
        return
    found = JSONL.with_values(line, VALUES)
    assert json.loads(found) == record | VALUES
    assert found.startswith(line[:-1])
    assert JSONL.text(line) == text.encode()


NAMES = st.text() | st.sampled_from(sorted(VALUES))


@given(st.lists(st.tuples(NAMES, SCALARS | st.dictionaries(NAMES, SCALARS)), unique_by=lambda member: member[0]))
def test_other_values_keep_their_bytes(members: list[tuple[str, Any]]) -> None:
    written = {json.dumps(name): json.dumps(value) for name, value in members} | {'"perplexity"': "[1, 2]"}
    changed = written | {f'"{name}"': str(value) for name, value in VALUES.items()}
    line, expected = (" , ".join(f"{name} :{value}" for name, value in each.items()) for each in (written, changed))
    if '"tokens"' not in written:
        expected = expected.removesuffix(' , "tokens" :3') + ', "tokens": 3'
    assert JSONL.with_values(f"{{{line}}}".encode(), VALUES) == f"{{{expected}}}".encode()


@pytest.mark.parametrize("line", [b'{"text": "a" } \r', b' {"text":"a"\t}', b'{"text": "a", "n": 1.0e0}'])
def test_white_space_around_objects(line: bytes) -> None:
    assert json.loads(JSONL.with_values(line, VALUES)) == json.loads(line) | VALUES


def test_values_of_the_same_name_are_replaced() -> None:
    found = JSONL.with_values('{"text": "é", "perplexity": 1}'.encode(), VALUES)
    assert json.loads(found) == {"text": "é", "perplexity": 12.5, "tokens": 3}
    assert found.count(b"perplexity") == 1
    line = rb' { "n" : 1.1230, "perplexity" : [1, {"tokens": 1}] ,"tokens":null, "x": "\ud83d", "y": 1e400 } '
    assert JSONL.with_values(line, VALUES) == line.replace(rb'[1, {"tokens": 1}]', b"12.5").replace(b"null", b"3")
    assert b'"perplexity": 0.333333,' in JSONL.with_values(b'{"perplexity": 1}', {"perplexity": 1 / 3, "tokens": 3})


def test_values_are_put_before_lines() -> None:
    assert Format().with_values(b"a b\tc", VALUES) == b"12.5\t3\ta b\tc"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": ', "is not JSON: expecting value at column 10"),
        (b'{"text": "a', "is not JSON: unterminated string starting at column 10"),
        (b'{"a\xff": 1}', "is not JSON: byte 4 of the line is not UTF-8"),
        (b"[" * 100_000, "is not JSON: it is nested too deeply"),
        (b"9" * 5_000, "is not JSON: a number is too long"),
        (b'["text"]', "is not a JSON object"),
        (b'{"other": "a"}', "has no text in the field 'text'"),
        (b'{"text": 5}', "has no text in the field 'text'"),
    ],
)
def test_bad_lines(line: bytes, reason: str) -> None:
    with pytest.raises(BadRecordError) as error:
        JSONL.text(line)
    assert re.fullmatch(reason, str(error.value))


def test_escaped_surrogates_are_no_error() -> None:
    assert JSONL.text(rb'{"text": "a\ud800b"}') == b"a?b"


def test_records_know_their_places(workplace: Path) -> None:
    Path("file").write_bytes("é\n\nb\nlast".encode())
    source = open_source("file")
    assert list(read_records(source, Format())) == [
        Record("é".encode(), 1, 0), Record(b"", 2, 3), Record(b"b", 3, 4), Record(b"last", 4, 6),
    ]  # fmt: skip
    assert [record.number for record in read_records(source, JSONL)] == [1, 3, 4]


def test_batches_are_bounded() -> None:
    records = [Record(b"x" * size, 1, 0) for size in (1 << 20, 5, *[1] * 1500)]
    assert [len(batch) for batch in batched(records)] == [1, 1024, 477]
    assert list(batched([])) == []
