"""Bad input to `neglm vocab`: a correct result, or one clear sentence, exit code 1, and no damaged file."""

import bz2
import gzip
import lzma
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encoded import open_encoded
from neglm_cli.text.vocabulary import Vocabulary
from tests.conftest import COMMAND, Neglm, one_sentence

OLD = b"an old vocabulary"


def refused(neglm: Neglm, *arguments: str) -> str:
    """Return the error message; the old output must be untouched, with no stray files."""
    Path("vocab.safetensors").write_bytes(OLD)
    before = sorted(os.listdir())
    sentence = one_sentence(neglm("vocab", *arguments, code=1).stderr)
    assert Path("vocab.safetensors").read_bytes() == OLD
    assert sorted(os.listdir()) == before
    return sentence


def counted(neglm: Neglm, text: bytes) -> dict[bytes, int]:
    Path("corpus").write_bytes(text)
    neglm("vocab", "corpus", "--quiet")
    lines = neglm("info", "vocab.safetensors", "--words").stdout.split(b"\n")[:-1]
    return {word: int(count) for word, count in (line.split(b"\t") for line in lines)}


def test_missing(neglm: Neglm) -> None:
    assert refused(neglm, "nothing.txt") == "neglm: nothing.txt does not exist"


def test_empty(neglm: Neglm) -> None:
    Path("empty.txt").touch()
    assert refused(neglm, "empty.txt") == (
        "neglm: empty.txt is empty: there are no words to read; name a file that contains text"
    )
    Path("empty.gz").write_bytes(gzip.compress(b""))
    assert "empty.gz has no words" in refused(neglm, "empty.gz")
    assert "standard input has no words" in refused(neglm, "-")


def test_white_space_only(neglm: Neglm) -> None:
    Path("blank.txt").write_bytes(b"\n \t\n")
    assert "blank.txt has no words" in refused(neglm, "blank.txt")


def test_directory(neglm: Neglm) -> None:
    Path("folder").mkdir()
    assert "folder is a directory: name the files in it" in refused(neglm, "folder")


def test_unreadable(neglm: Neglm) -> None:
    Path("secret.txt").write_bytes(b"text")
    os.chmod("secret.txt", 0)
    if os.access("secret.txt", os.R_OK):  # root can read any file, but not this one
        assert "cannot read /proc/self/mem" in refused(neglm, "/proc/self/mem")
    else:
        assert "cannot read secret.txt: Permission denied" in refused(neglm, "secret.txt")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_truncated_compression(neglm: Neglm, compress: Callable[[bytes], bytes]) -> None:
    Path("cut").write_bytes(compress(os.urandom(50_000).hex().encode())[:20_000])
    assert "cut is cut short" in refused(neglm, "cut")


def test_one_line_of_100_mb(neglm: Neglm) -> None:
    words = counted(neglm, b"ten bytes " * 10_000_000)
    assert words == {b"bytes": 10_000_000, b"ten": 10_000_000, b"<eos>": 1, b"<unk>": 1}


def test_nothing_but_nul_bytes(neglm: Neglm) -> None:
    """NUL is part of a word: this is a single word of 50 MB."""
    assert counted(neglm, bytes(50_000_000)) == {bytes(50_000_000): 1, b"<eos>": 1, b"<unk>": 1}


def test_words_of_10_mb(neglm: Neglm) -> None:
    long = b"x" * 10_000_000
    assert counted(neglm, b"a " + long + b"\n" + long + b"y " + long) == {
        long: 2,
        b"<eos>": 2,
        b"<unk>": 1,
        b"a": 1,
        long + b"y": 1,
    }


def test_invalid_utf8_and_no_break_space(neglm: Neglm) -> None:
    assert counted(neglm, b"\xff\xfe \xc3\x28 a\xc2\xa0b\n") == {
        b"<eos>": 1,
        b"<unk>": 1,
        b"a\xc2\xa0b": 1,
        b"\xc3\x28": 1,
        b"\xff\xfe": 1,
    }
    assert b"\\xff" in neglm("vocab", "corpus", "--json").stdout


def test_carriage_returns_and_no_final_newline(neglm: Neglm) -> None:
    assert counted(neglm, b"a b\r\na\r\nb c") == {b"<eos>": 3, b"a": 2, b"b": 2, b"<unk>": 1, b"c": 1}


def test_min_count_that_leaves_nothing(neglm: Neglm) -> None:
    Path("corpus").write_bytes(b"a a b\n")
    sentence = refused(neglm, "corpus", "--min-count", "3")
    assert sentence == "neglm: --min-count 3 leaves no words: the most frequent one occurs 2 times; lower --min-count"
    Path("corpus").write_bytes(b"a b\n")
    sentence = refused(neglm, "corpus", "--min-count", "3")
    assert sentence == "neglm: --min-count 3 leaves no words: the most frequent one occurs once; lower --min-count"


def test_output_that_cannot_be_written(neglm: Neglm) -> None:
    Path("corpus").write_bytes(b"a b\n")
    assert "cannot write no/place: No such file or directory" in refused(neglm, "corpus", "-o", "no/place")
    assert "cannot write /dev/full: No space left on device" in refused(neglm, "corpus", "-o", "/dev/full")


def limited_files() -> None:
    """Limit the size of files, which acts like a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


def test_a_disk_that_gets_full(neglm: Neglm, workplace: Path) -> None:
    Path("corpus").write_bytes(b" ".join(b"word%d" % i for i in range(100_000)))
    neglm("vocab", "corpus", "-o", "warm")  # compile kernels first, which also writes files
    Path("vocab.safetensors").write_bytes(OLD)
    before = sorted(os.listdir())
    for arguments, message in (
        ([], "cannot write vocab.safetensors"),
        (["--memory", "1M"], "set TMPDIR to a directory with more space"),
    ):
        neglm("vocab", "corpus", "-o", "warm", *arguments)
        result = subprocess.run(
            [*COMMAND, "vocab", "corpus", *arguments], capture_output=True, preexec_fn=limited_files
        )
        assert result.returncode == 1
        assert message in one_sentence(result.stderr)
        assert "File too large" in result.stderr.decode()
        assert Path("vocab.safetensors").read_bytes() == OLD
        assert sorted(os.listdir()) == before


def test_merging_what_is_no_vocabulary(neglm: Neglm) -> None:
    Path("corpus").write_bytes(b"some text\n")
    assert "corpus, line 1: expected a word" in refused(neglm, "--merge", "corpus")
    assert "nothing does not exist" in refused(neglm, "--merge", "nothing")
    neglm("vocab", "corpus", "-o", "good")
    whole = Path("good").read_bytes()
    Path("cut").write_bytes(whole[:-1])
    assert "cut is cut short" in refused(neglm, "--merge", "good", "cut")
    Path("flipped").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "flipped is damaged: its checksum does not match" in refused(neglm, "--merge", "good", "flipped")
    Path("newer").write_bytes(whole.replace(b'"format_version":"2"', b'"format_version":"3"'))
    assert "upgrade neglm" in refused(neglm, "--merge", "newer")
    open_encoded(open_corpus(["corpus"]), Vocabulary.load("good"), 1, Path("cache"), lambda sentence: None)
    (copy,) = Path("cache").iterdir()
    assert "contains an encoded corpus; expected a vocabulary (neglm vocab)" in refused(neglm, "--merge", str(copy))


def test_a_vocabulary_as_a_corpus(neglm: Neglm) -> None:
    Path("corpus").write_bytes(b"some text\n")
    neglm("vocab", "corpus", "-o", "good")
    assert "good is a neglm file, not text" in refused(neglm, "good")


def test_names_that_cannot_be(neglm: Neglm) -> None:
    assert "'' does not exist" in refused(neglm, "")
    assert "File name too long" in refused(neglm, "x" * 300)
    assert "does not exist" in one_sentence(neglm("info", "x" * 300, code=1).stderr)
    Path("corpus").write_bytes(b"some text\n")
    assert "cannot write ''" in refused(neglm, "corpus", "-o", "")


def test_damaged_bzip2(neglm: Neglm) -> None:
    data = bytearray(bz2.compress(os.urandom(50_000).hex().encode()))
    data[20_000] ^= 0xFF
    Path("broken").write_bytes(data)
    assert "broken is damaged: bzip2 says:" in refused(neglm, "broken")
