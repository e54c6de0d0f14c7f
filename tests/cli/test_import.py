"""`neglm import` on any input: a correct result, or one clear sentence, and no damaged file."""

import gzip
import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.cli.main import run
from neglm_cli.vectors.vectors import UNKNOWN_OBJECTIVE, Vectors
from tests.conftest import Neglm, one_sentence

OLD = b"old vectors"
BINARY = b"2 2\na " + np.array([1, 2], "<f4").tobytes() + b"\nb " + np.array([3, 4], "<f4").tobytes() + b"\n"


def refused(neglm: Neglm, *arguments: str, stdin: bytes = b"", code: int = 1) -> str:
    """Return the error message; the old output must be untouched, with no stray files."""
    Path("vectors.safetensors").write_bytes(OLD)
    before = sorted(os.listdir())
    sentence = one_sentence(neglm("import", *arguments, stdin=stdin, code=code).stderr)
    assert Path("vectors.safetensors").read_bytes() == OLD
    assert sorted(os.listdir()) == before
    return sentence


@pytest.fixture
def neglm_here(workplace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Neglm:
    """Run the command line in this process: there are many bad files, and each start takes a second."""
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    def run_here(*arguments: str, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        capfd.readouterr()
        assert run(list(arguments)) == code
        captured = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, captured.out.encode(), captured.err.encode())

    return run_here


def npy(path: str, matrix: np.ndarray, words: bytes | None) -> None:
    with open(path, "wb") as file:
        np.save(file, matrix)
    if words is not None:
        Path(path).with_suffix(".words.txt").write_bytes(words)


def test_text(neglm: Neglm, workplace: Path) -> None:
    Path("in.vec").write_bytes(b"2 2\na 1 2\n\xff 3 4\n")
    output = neglm("import", "in.vec").stdout.decode()
    assert output == "vectors.safetensors: 2 words, 2 dimensions, from text\n"
    vectors = Vectors.load("vectors.safetensors")
    assert list(vectors.words) == [b"a", b"\xff"]
    assert vectors.words.counts.tolist() == [1, 1]
    assert vectors.vectors.tolist() == [[1, 2], [3, 4]]
    assert (vectors.objective, vectors.k, len(vectors.contexts)) == (UNKNOWN_OBJECTIVE, 0, 0)


def test_standard_streams(neglm: Neglm, workplace: Path) -> None:
    for stdin in (b"a 1 2\nb 3 4\n", BINARY, gzip.compress(BINARY), BINARY.replace(b"\nb", b"b")):
        stored = neglm("import", "-", "-o", "-", stdin=stdin).stdout
        Path("piped").write_bytes(stored)
        vectors = Vectors.load("piped")
        assert list(vectors.words) == [b"a", b"b"]
        assert vectors.vectors.tolist() == [[1, 2], [3, 4]]


def test_contexts(neglm: Neglm, workplace: Path) -> None:
    Path("words").write_bytes(b"a 1 2\n")
    Path("contexts").write_bytes(BINARY)
    summary = json.loads(neglm("import", "words", "--context-file", "contexts", "-o", "out", "--json").stdout)
    assert summary == {
        "output": "out", "format": "text", "vocabulary": 1, "contexts": 2, "dimensions": 2, "buckets": 0,
    }  # fmt: skip
    vectors = Vectors.load("out")
    assert list(vectors.contexts) == [b"a", b"b"]
    assert vectors.context_vectors.tolist() == [[1, 2], [3, 4]]
    Path("long").write_bytes(b"a 1 2 3\n")
    assert "2 dimensions, but the context vectors 3" in refused(neglm, "words", "--context-file", "long")
    assert "nothing does not exist" in refused(neglm, "words", "--context-file", "nothing")
    assert "can be read only once" in refused(neglm, "-", "--context-file", "-", code=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "in is empty"),
        (b"\n", "in has an unknown format"),
        (b"\x00\x01\x02", "in has an unknown format"),
        (b"words without numbers\n", "in has an unknown format"),
        (b"PK\x03\x04rest", "in is a zip archive; unpack it"),
        (b"\xba\x16\x4f\x2f\x0c\0\0\0", "in is cut short: it is not a whole fastText model; get it again"),
        (b"\xba\x16\x4f\x2f\x0d\0\0\0", "in is a fastText model of version 13, and neglm reads versions 11 and 12"),
        (b"0 2\n", "in has no words"),
        (b"2 0\na\nb\n", "in, line 1: 0 dimensions, expected 1 to 1,048,576"),
        (b"2 9999999999\na 1\n", "in, line 1: 9,999,999,999 dimensions"),
        (b"3 2\na 1 2\nb 3 4\n", "in: the header says 3 words, but there are 2"),
        (b"999999999999 2\na 1 2\n", "in: the header says 999,999,999,999 words, but there is 1"),
        (b"1 2\na 1 2\nb 3 4\n", "in: the header says 1 word, but there are 2"),
        (b"2 2\na 1 2\nb 3\n", "in, line 3: expected a word and 2 values, as in the first line, but found 1"),
        (b"2 2\na 1 2\nb c 3 4\n", "in, line 3: expected a word and 2 values, as in the first line, but found 3"),
        (b"a 1 2\nb 3 4\nc 5 6 7\n", "in, line 3: expected a word and 2 values"),
        (b"2 2\na 1 2\n 3 4\n", "in, line 3: expected a word and 2 values, as in the first line, but found 1"),
        (b"2 2\na 1 2\n\nb 3 4\n", "in, line 3 is empty, but more lines follow"),
        (b"2 2\na 1 2\nb 3 4", "in is cut short: line 3 does not end with a newline"),
        (b"a 1 2\nb 3", "in is cut short: line 2 does not end with a newline"),
        (b"2 2\na 1 2\na 3 4\n", "in, line 3: duplicate word a, first in line 2"),
        (b"a 1 2\nb 1 2\nb 3 4\n", "in, line 3: duplicate word b, first in line 2"),
        (b"2 2\na 1 2\nb 3 nan\n", "in, line 3: the vector of b contains NaN, infinite"),
        (b"a -inf 2\n", "in, line 1: the vector of a contains NaN, infinite"),
        (b"a 1 2\nb 3 1e39\n", "in, line 2: the vector of b contains NaN, infinite or too large values"),
        (b"a 1 2\nb 3 4x\n", "in, line 2: 4x is not a number"),
        (b"a 1 2\nb 3 1_0\n", "in, line 2: 1_0 is not a number"),
        (b"a 1 2\nb 3 1e\n", "in, line 2: 1e is not a number"),
        (b"a 1 2\nb 3 .\n", "in, line 2: . is not a number"),
        (b"a 1 2\nb 3 1.2.3\n", "in, line 2: 1.2.3 is not a number"),
        (b"a 1 2\nb - 3\n", "in, line 2: - is not a number"),
        (BINARY[:-2], "in is cut short: record 2 of 2 is incomplete"),
        (BINARY[:15], "in: the header says 2 words, but there is 1"),
        (BINARY.replace(b"2 2", b"3 2", 1), "in: the header says 3 words, but there are 2"),
        (BINARY.replace(b"2 2", b"1 2", 1), "in: the header says 1 word, but there are 2"),
        (BINARY.replace(b"\nb ", b"\na "), "in, record 2: duplicate word a, first in record 1"),
        (BINARY.replace(b"\nb ", b"\n "), "in, record 2: the word is empty"),
        (BINARY.replace(b"\0\0\x80\x40", b"\0\0\xc0\x7f"), "in, record 2: the vector of b contains NaN"),
        (gzip.compress(BINARY, mtime=0)[:-9], "in is cut short: its gzip data ends early"),
        (gzip.compress(BINARY, mtime=0)[:-8] + bytes(8), "in is damaged: gzip says:"),
    ],
)  # fmt: skip
def test_bad_files(neglm_here: Neglm, text: bytes, message: str) -> None:
    Path("in").write_bytes(text)
    sentence = refused(neglm_here, "in")
    assert sentence.startswith(f"neglm: {message}"), sentence


def test_what_is_no_file_of_vectors(neglm: Neglm, workplace: Path) -> None:
    assert refused(neglm, "nothing") == "neglm: nothing does not exist"
    assert "standard input is empty" in refused(neglm, "-")
    Path("folder").mkdir()
    assert "cannot read folder: Is a directory" in refused(neglm, "folder")
    Path("corpus").write_bytes(b"a b\n")
    neglm("vocab", "corpus")
    assert "vocab.safetensors is already a neglm file" in refused(neglm, "vocab.safetensors")
    assert "the output corpus is one of the inputs" in refused(neglm, "corpus", "-o", "corpus", code=2)


def test_the_form_can_be_named(neglm: Neglm, workplace: Path) -> None:
    Path("in").write_bytes(BINARY)
    assert "in, line 2: expected a word and 2 values" in refused(neglm, "in", "--format", "text")
    assert "NumPy says: the magic string is not correct" in refused(neglm, "in", "--format", "npy", "--word-list", "in")
    Path("in").write_bytes(b"a 1 2\n")
    assert "in, line 1: expected a header" in refused(neglm, "in", "--format", "binary")
    assert "which includes its words: leave out --word-list" in refused(neglm, "in", "--word-list", "in")


def test_matrices(neglm: Neglm, workplace: Path) -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    npy("in.npy", matrix, b"a b\nc\n")
    neglm("import", "in.npy")
    vectors = Vectors.load("vectors.safetensors")
    assert list(vectors.words) == [b"a b", b"c"]
    assert vectors.vectors.tolist() == matrix.tolist()
    neglm("import", "-", "--word-list", "in.words.txt", "-o", "piped", stdin=gzip.compress(Path("in.npy").read_bytes()))
    assert Vectors.load("piped").vectors.tolist() == matrix.tolist()
    assert "an .npy file contains no words: name a word list" in refused(neglm, "-", stdin=Path("in.npy").read_bytes())


@pytest.mark.parametrize(
    ("matrix", "words", "message"),
    [
        (np.ones((2, 2)), None, "an .npy file contains no words, and in.words.txt does not exist: name a word list"),
        (np.ones((2, 2)), b"", "in.words.txt is empty"),
        (np.ones((2, 2)), b"a\nb\nc\n", "in.words.txt has 3 words, but in.npy has 2 rows"),
        (np.ones((2, 2)), b"a\na\n", "in.words.txt, line 2: duplicate word a, first in line 1"),
        (np.ones((2, 2)), b"a\n\n", "in.words.txt, line 2 is empty: every line must be a word"),
        (np.array([[1, 2], [3, np.inf]]), b"a\nb\n", "in.npy, row 2: the vector of b contains NaN, infinite"),
        (np.array([[1, 2], [3, 1e300]]), b"a\nb\n", "in.npy, row 2: the vector of b contains NaN, infinite"),
        (np.ones(3), b"a\nb\nc\n", "in.npy holds float64 3, not a numeric matrix"),
        (np.ones((2, 0)), b"a\nb\n", "in.npy holds float64 2 × 0, not a numeric matrix"),
        (np.array([["x"]]), b"a\n", "in.npy holds <U1 1 × 1, not a numeric matrix"),
        (np.array([[None]]), b"a\n", "in.npy is damaged or not a matrix: NumPy says: Object arrays cannot be loaded"),
    ],
)  # fmt: skip
def test_bad_matrices(neglm_here: Neglm, matrix: np.ndarray, words: bytes | None, message: str) -> None:
    npy("in.npy", matrix, words)
    sentence = refused(neglm_here, "in.npy")
    assert sentence.startswith(f"neglm: {message}"), sentence


def test_matrices_that_are_not_whole(neglm: Neglm, workplace: Path) -> None:
    npy("in.npy", np.ones((2, 2)), b"a\nb\n")
    whole = Path("in.npy").read_bytes()
    Path("in.npy").write_bytes(whole[:-1])
    assert "in.npy is damaged or not a matrix: NumPy says: EOF" in refused(neglm, "in.npy")
    Path("in.npy").write_bytes(whole + b"x")
    assert "in.npy has bytes after its matrix" in refused(neglm, "in.npy")


def test_output_that_cannot_be_written(neglm: Neglm, workplace: Path) -> None:
    Path("in").write_bytes(BINARY)
    assert "cannot write no/place: No such file or directory" in refused(neglm, "in", "-o", "no/place")
