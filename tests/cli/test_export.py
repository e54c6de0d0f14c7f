"""`neglm export`: the right files, or one sentence and nothing changed."""

import gzip
import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors
from tests.conftest import COMMAND, Neglm, one_sentence
from tests.vectors.exchange import vectors_of

OLD = b"an old file"


@pytest.fixture
def vectors(workplace: Path) -> Vectors:
    """Two words, and contexts of which one has a blank in it."""
    words = WordIndex.of([b"a", b"b"], np.array([3, 5]))
    contexts = WordIndex.of([b"x y", b"z"], np.array([4, 4]))
    matrices = np.array([[[3, 4], [0.1, -2]], [[5, 6], [7, 8]]], np.float32)
    made = Vectors(words, matrices[0], contexts, matrices[1])
    made.save("vectors.safetensors")
    return made


def refused(neglm: Neglm, *arguments: str, code: int = 1) -> str:
    """The sentence; whatever is there must be untouched and nothing added."""
    before = {name: Path(name).read_bytes() for name in os.listdir() if os.path.isfile(name)}
    sentence = one_sentence(neglm("export", *arguments, code=code).stderr)
    assert {name: Path(name).read_bytes() for name in os.listdir() if os.path.isfile(name)} == before
    return sentence


@pytest.mark.parametrize("name", ["out.txt", "out.vec"])
def test_text(neglm: Neglm, vectors: Vectors, name: str) -> None:
    output = neglm("export", "-o", name).stdout.decode()
    assert output == f"{name}: 2 words, 2 dimensions, as text\n"
    assert Path(name).read_bytes() == b"2 2\na 3 4\nb 0.1 -2\n"


def test_the_name_tells_the_form_and_an_option_overrules_it(neglm: Neglm, vectors: Vectors) -> None:
    binary = b"2 2\na " + vectors.vectors[0].tobytes() + b"\nb " + vectors.vectors[1].tobytes() + b"\n"
    neglm("export", "vectors.safetensors", "--output", "out.bin")
    assert Path("out.bin").read_bytes() == binary
    neglm("export", "--format", "binary", "-o", "out.txt")
    assert Path("out.txt").read_bytes() == binary
    neglm("export", "-o", "out.bin.gz")
    assert gzip.decompress(Path("out.bin.gz").read_bytes()) == binary
    assert "as npy" in neglm("export", "-o", "out.npy").stdout.decode()
    assert np.load("out.npy").tolist() == vectors.vectors.tolist()
    assert Path("out.words.txt").read_bytes() == b"a\nb\n"
    assert "out.tsv and out.metadata.tsv: 2 words" in neglm("export", "-o", "out.tsv").stdout.decode()
    assert Path("out.tsv").read_bytes() == b"3\t4\n0.1\t-2\n"
    assert Path("out.metadata.tsv").read_bytes() == b"word\tcount\na\t3\nb\t5\n"


def test_max_vocab_and_normalize(neglm: Neglm, vectors: Vectors) -> None:
    neglm("export", "--max-vocab", "1", "-o", "out.txt")
    assert Path("out.txt").read_bytes() == b"1 2\nb 0.1 -2\n"
    neglm("export", "--normalize", "-o", "out.txt")
    assert Path("out.txt").read_bytes().splitlines()[1] == b"a 0.6 0.8"


def test_contexts_and_blanks_in_words(neglm: Neglm, vectors: Vectors) -> None:
    result = neglm("export", "--contexts", "-o", "out.txt")
    assert Path("out.txt").read_bytes() == b"2 2\nx_y 5 6\nz 7 8\n"
    assert b"1 word has _ in place of white space" in result.stderr
    assert b"white space" not in neglm("export", "--contexts", "-o", "out.npy").stderr
    assert Path("out.words.txt").read_bytes() == b"x y\nz\n"


def test_standard_output(neglm: Neglm, vectors: Vectors) -> None:
    result = neglm("export", "--format", "text", "-o", "-")
    assert result.stdout == b"2 2\na 3 4\nb 0.1 -2\n"
    assert b"standard output: 2 words" in result.stderr
    piped = neglm(
        "export", "-", "--format", "text", "-o", "-", "--quiet", stdin=Path("vectors.safetensors").read_bytes()
    )
    assert piped.stdout == result.stdout
    assert piped.stderr == b""
    assert "choose a format for standard output" in refused(neglm, "-o", "-", code=2)
    assert "has two files" in refused(neglm, "-o", "-", "--format", "npy", code=2)


def test_json(neglm: Neglm, vectors: Vectors) -> None:
    assert json.loads(neglm("export", "-o", "out.npy", "--json").stdout) == {
        "output": "out.npy",
        "companion": "out.words.txt",
        "format": "npy",
        "vocabulary": 2,
        "dimensions": 2,
        "changed_words": 0,
    }


def test_wrong_usage(neglm: Neglm, vectors: Vectors) -> None:
    assert "--output FILE is required" in refused(neglm, code=2)
    assert "the name out.dat does not tell the format" in refused(neglm, "-o", "out.dat", code=2)
    assert "not written compressed: leave out .gz" in refused(neglm, "-o", "out.npy.gz", code=2)
    overwriting = ("--format", "text", "-o", "vectors.safetensors")
    assert "is one of the inputs" in refused(neglm, *overwriting, code=2)


def test_what_cannot_be_read(neglm: Neglm, workplace: Path) -> None:
    Path("out.txt").write_bytes(OLD)
    assert refused(neglm, "-o", "out.txt") == (
        "neglm: no vectors.safetensors here; train some with `neglm embed`, or name another file"
    )
    Path("corpus").write_bytes(b"a b\n")
    neglm("vocab", "corpus")
    assert "contains a vocabulary; expected word vectors (neglm embed)" in refused(
        neglm, "vocab.safetensors", "-o", "out.txt"
    )
    assert "corpus is not a neglm file" in refused(neglm, "corpus", "-o", "out.txt")


def test_what_cannot_be_exported(neglm: Neglm, workplace: Path) -> None:
    for name in ("out.txt", "out.npy", "out.words.txt"):
        Path(name).write_bytes(OLD)
    vectors_of([b"a b", b"a_b"], np.ones((2, 2))).save("equal")
    assert "`a b` and `a_b` would both be written as `a_b`" in refused(neglm, "equal", "-o", "out.txt")
    assert "equal has no context vectors" in refused(neglm, "equal", "--contexts", "-o", "out.npy")
    for number in (np.nan, np.inf):
        vectors_of([b"a", b"b"], np.array([[1, 2], [3, number]])).save("wild")
        for output in ("out.txt", "out.npy"):
            assert "wild is damaged: tensor `vectors` contains NaN" in refused(neglm, "wild", "-o", output)


def test_places_that_cannot_be_written(neglm: Neglm, vectors: Vectors) -> None:
    assert "cannot write no/out.txt: No such file" in refused(neglm, "-o", "no/out.txt")
    assert "cannot write no/out" in refused(neglm, "-o", "no/out.npy")
    assert "No space left on device" in refused(neglm, "--format", "text", "-o", "/dev/full")
    assert "has two files; name a regular file" in refused(neglm, "--format", "tsv", "-o", "/dev/null")
    assert not os.path.exists("/dev/null.metadata.tsv")
    Path("folder.npy").mkdir()
    assert "cannot write folder.npy" in refused(neglm, "-o", "folder.npy")
    Path("out.words.txt").mkdir()
    assert "cannot write out.words.txt" in refused(neglm, "-o", "out.npy")


def limited_files() -> None:
    """A limit on the size of files, which acts like a disk that gets full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


@pytest.mark.parametrize(
    ("name", "other"),
    [("out.txt", None), ("out.bin.gz", None), ("out.npy", "out.words.txt"), ("out.tsv", "out.metadata.tsv")],
)
def test_a_disk_that_gets_full(neglm: Neglm, workplace: Path, name: str, other: str | None) -> None:
    """Both files of a form stay as they were, the one that had room as well."""
    random = np.random.default_rng(1).standard_normal((1000, 100))
    vectors_of([b"word%d" % i for i in range(1000)], random).save("vectors.safetensors")
    neglm("export", "-o", name)  # kernels are compiled, which writes files too
    files = [file for file in (name, other) if file]
    for file in files:
        Path(file).write_bytes(OLD)
    before = sorted(os.listdir())
    result = subprocess.run([*COMMAND, "export", "-o", name], capture_output=True, preexec_fn=limited_files)
    assert result.returncode == 1
    assert one_sentence(result.stderr) == f"neglm: cannot write {name}: File too large; nothing was changed"
    assert [Path(file).read_bytes() for file in files] == [OLD] * len(files)
    assert sorted(os.listdir()) == before
