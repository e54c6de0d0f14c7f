"""Reading pairs: against a plain Python reference, and with all invalid lines."""

import bz2
import gzip
import lzma
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text import pair_lines
from neglm_cli.text import source as source_module
from neglm_cli.text.compression import compression_of
from neglm_cli.text.pair_lines import read_pairs
from neglm_cli.text.pairs import Pairs
from tests.conftest import COMMAND
from tests.text.test_pairs import as_dict

field = st.one_of(
    st.sampled_from([b"a", b"b", b"ab", b" ", b"x y", b"\r\r.", b"\xff"]),
    st.binary(min_size=1, max_size=12).filter(lambda word: not set(word) & set(b"\t\n") and not word.endswith(b"\r")),
)
line = st.one_of(
    st.just(b""),
    st.tuples(field, field).map(b"\t".join),
    st.tuples(field, field, st.integers(1, 10**6).map(b"%d".__mod__)).map(b"\t".join),
)
texts = st.lists(st.tuples(line, st.sampled_from([b"\n", b"\r\n"])), min_size=1, max_size=40)


def reference(text: bytes) -> Counter[tuple[bytes, bytes]]:
    counts: Counter[tuple[bytes, bytes]] = Counter()
    for one in text.split(b"\n"):
        stripped = one[:-1] if one.endswith(b"\r") else one
        if stripped:
            x, y, *count = stripped.split(b"\t")
            counts[x, y] += int(count[0]) if count else 1
    return counts


def check(pairs: Pairs, expected: Counter[tuple[bytes, bytes]]) -> None:
    assert as_dict(pairs) == expected
    for side, index in enumerate((pairs.words, pairs.contexts)):
        totals: Counter[bytes] = Counter()
        for cell, count in expected.items():
            totals[cell[side]] += count
        listed = list(zip(index, index.counts.tolist(), strict=True))
        assert listed == sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    keys = (pairs.rows.astype(int) * len(pairs.contexts) + pairs.columns).tolist()
    assert keys == sorted(set(keys))


@given(texts, st.booleans())
def test_matches_the_reference(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[bytes, bytes]], ended: bool
) -> None:
    text = b"".join(one + end for one, end in parts)
    text = text if ended else text.removesuffix(b"\n")
    assume(compression_of(text) is None)  # Hypothesis tries constants from the code, such as magic bytes
    expected = reference(text)
    if expected:
        path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
        path.write_bytes(text)
        check(read_pairs(str(path)), expected)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_many_blocks(workplace: Path, monkeypatch: pytest.MonkeyPatch, compress: Callable[[bytes], bytes]) -> None:
    """Blocks end anywhere, duplicates are summed in between, and one line spans several blocks."""
    monkeypatch.setattr(source_module, "BLOCK", 1000)
    monkeypatch.setattr(pair_lines, "MIN_CELLS", 50)
    monkeypatch.setattr(pair_lines, "BATCH_LINES", 7)
    lines = [b"word %d\tcontext %d\t%d" % (i % 37, i % 11, i % 5 + 1) for i in range(1000)]
    lines.insert(500, b"long" * 1000 + b"\t" + b" y" * 1000)
    text = b"\n".join(lines)
    Path("pairs").write_bytes(compress(text))
    pairs = read_pairs("pairs")
    check(pairs, reference(text))
    assert pairs.files[0]["path"] == "pairs"
    assert pairs.files[0]["size"] == Path("pairs").stat().st_size


def test_the_largest_count(workplace: Path) -> None:
    Path("pairs").write_bytes(b"a\tb\t9223372036854775806\na\tb\t0000000000000000000000001\n")
    assert as_dict(read_pairs("pairs")) == {(b"a", b"b"): 2**63 - 1}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"a b", "there is no tab"),
        (b"a\tb\t1\t2", "more than three fields"),
        (b"a\tb\t1\t", "more than three fields"),
        (b"\tb", "x or y is empty"),
        (b"a\t", "x or y is empty"),
        (b"a\t\r", "x or y is empty"),
        (b"a\t\t3", "x or y is empty"),
        (b"\t", "x or y is empty"),
        (b"a\tb\t", "not a count"),
        (b"a\tb\t0", "not a count"),
        (b"a\tb\t-1", "not a count"),
        (b"a\tb\t+1", "not a count"),
        (b"a\tb\t1.5", "not a count"),
        (b"a\tb\t1 ", "not a count"),
        (b"a\tb\tmany", "not a count"),
        (b"a\tb\t99999999999999999999x", "not a count"),
        (b"a\tb\t9223372036854775808", "too large: the maximum is 9,223,372,036,854,775,807"),
        (b"a\tb\t" + b"9" * 1000, "the count is too large"),
        (b"a\tb\t9223372036854775807", "the counts up to this line add up to more"),
    ],
)
def test_invalid_lines(workplace: Path, wrong: bytes, message: str) -> None:
    for lines_before in (2, 40_000):
        Path("pairs").write_bytes(b"a\tb\n\n" + b"c\td\n" * (lines_before - 2) + wrong + b"\ne\tf\n")
        with pytest.raises(NeglmError, match=f"^pairs, line {lines_before + 1}: .*{message}"):
            read_pairs("pairs")


def test_no_pairs(workplace: Path) -> None:
    Path("empty").touch()
    Path("blank").write_bytes(b"\n\r\n")
    for name, message in (("empty", "empty is empty"), ("blank", "blank has no pairs"), ("gone", "does not exist")):
        with pytest.raises(NeglmError, match=message):
            read_pairs(name)


def test_from_a_pipe(workplace: Path) -> None:
    program = (
        "from neglm_cli.text.pair_lines import read_pairs; p = read_pairs('-'); "
        "print(p.words[0], p.contexts[0], p.counts, p.files[0]['path'])"
    )
    result = subprocess.run([COMMAND[0], "-c", program], input=gzip.compress(b"a\tb\t3\n"), capture_output=True)
    assert result.stdout == b"b'a' b'b' [3] None\n", result.stderr
