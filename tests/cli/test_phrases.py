import bz2
import gzip
import json
import lzma
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from neglm_cli.text.fingerprint import BLOCK
from tests.conftest import COMMAND, Neglm, one_sentence
from tests.text.making import text_with_phrases

TEXT = text_with_phrases(40)
JOINED = TEXT.replace(b"new york city", b"new_york_city").replace(b"hong kong", b"hong_kong")
RULE = ("-o", "-", "--threshold", "1.5")
OLD = b"an old text"


@pytest.fixture
def corpus(workplace: Path) -> Path:
    path = workplace / "corpus.txt"
    path.write_bytes(TEXT)
    return path


def test_the_default_output(neglm: Neglm, corpus: Path) -> None:
    assert neglm("phrases", "corpus.txt", "--threshold", "1.5").stdout.startswith(b"joined.txt: 360 words and phrases")
    assert Path("joined.txt").read_bytes() == JOINED


def test_the_text_goes_to_standard_output(neglm: Neglm, corpus: Path) -> None:
    result = neglm("phrases", "corpus.txt", *RULE)
    assert result.stdout == JOINED
    stderr = result.stderr.decode()
    for expected in ("the text: 360 words and phrases", "lines           120", "tokens          480", "hong_kong 40"):
        assert expected in stderr
    assert "pass 1          3 phrases, joined 80 times\n  pass 2          1 phrase, joined 40 times\n" in stderr


def test_passes(neglm: Neglm, corpus: Path) -> None:
    once = neglm("phrases", "corpus.txt", *RULE, "--passes", "1", "-q").stdout
    assert once == JOINED.replace(b"new_york_city", b"new_york city")
    many = neglm("phrases", "corpus.txt", *RULE, "--passes", "100", "--json", "-o", "out").stdout
    assert [each["phrases"] for each in json.loads(many)["passes"]] == [3, 1, 0]
    assert Path("out").read_bytes() == JOINED


def test_json_and_list(neglm: Neglm, corpus: Path) -> None:
    summary = json.loads(neglm("phrases", "corpus.txt", *RULE, "-o", "out", "--list", "list", "--json").stdout)
    assert summary.pop("seconds") >= 0
    assert summary.pop("words_per_second") > 0
    assert summary == {
        "output": "out",
        "phrase_list": "list",
        "lines": 120,
        "tokens": 480,
        "output_tokens": 360,
        "phrases": 4,
        "passes": [{"phrases": 3, "joined": 80}, {"phrases": 1, "joined": 40}],
        "most_frequent": [["hong_kong", 40], ["new_york", 40], ["new_york_city", 40], ["york_city", 40]],
    }
    # log(40 · 480 / (40 · 40)), log(40 · 480 / (40 · 80)) and, after joining 80 pairs, log(40 · 400 / (40 · 80))
    assert Path("list").read_bytes() == (
        b"hong_kong\t40\t2.4849\t1\nnew_york\t40\t2.4849\t1\nyork_city\t40\t1.7918\t1\nnew_york_city\t40\t1.6094\t2\n"
    )


def test_npmi(neglm: Neglm, corpus: Path) -> None:
    """hong and kong occur only together: no phrase has a higher score."""
    listed = neglm(
        "phrases", "corpus.txt", "--measure", "npmi", "--threshold", "0.999", "-o", "out", "--list", "-"
    ).stdout
    assert listed == b"hong_kong\t40\t1.0000\t1\nnew_york\t40\t1.0000\t1\n"
    assert Path("out").read_bytes() == JOINED.replace(b"new_york_city", b"new_york city")


def test_min_count(neglm: Neglm, corpus: Path) -> None:
    assert neglm("phrases", "corpus.txt", *RULE, "--min-count", "41", "-q").stdout == TEXT
    assert neglm("phrases", "corpus.txt", *RULE, "--min-count", "40", "-q").stdout == JOINED


@pytest.mark.parametrize("delimiter", ["~", "<->", "·"])
def test_delimiter(neglm: Neglm, corpus: Path, delimiter: str) -> None:
    joined = neglm("phrases", "corpus.txt", *RULE, "--delimiter", delimiter, "-q").stdout
    assert joined == JOINED.replace(b"_", delimiter.encode())


@pytest.mark.parametrize(
    ("ending", "compress", "decompress"),
    [
        ("", bytes, bytes),
        (".gz", gzip.compress, gzip.decompress),
        (".bz2", bz2.compress, bz2.decompress),
        (".xz", lzma.compress, lzma.decompress),
    ],
)
def test_compressed_in_and_out(
    neglm: Neglm, workplace: Path, ending: str, compress: Callable[[bytes], bytes], decompress: Callable[[bytes], bytes]
) -> None:
    Path("in").write_bytes(compress(TEXT))
    neglm("phrases", "in", *RULE, "-o", f"out{ending}", "--list", f"list{ending}")
    assert decompress(Path(f"out{ending}").read_bytes()) == JOINED
    assert b"hong_kong\t40" in decompress(Path(f"list{ending}").read_bytes())


def test_zstd_there_and_back(neglm: Neglm, corpus: Path) -> None:
    neglm("phrases", "corpus.txt", *RULE, "-o", "out.zst")
    assert Path("out.zst").read_bytes().startswith(b"\x28\xb5\x2f\xfd")
    assert neglm("phrases", "out.zst", *RULE, "-q").stdout == JOINED


def test_pipes_on_both_sides(neglm: Neglm, corpus: Path) -> None:
    assert neglm("phrases", "-", *RULE, "-q", stdin=gzip.compress(TEXT)).stdout == JOINED
    script = f"{shlex.join(COMMAND)} phrases <(cat corpus.txt) {shlex.join(RULE)} -q -o >(cat > copy) && wait $!"
    subprocess.run(["bash", "-c", script], check=True)
    assert Path("copy").read_bytes() == JOINED


def test_several_files_are_one_text(neglm: Neglm, corpus: Path) -> None:
    half = TEXT.index(b"\n", len(TEXT) // 2)
    Path("one").write_bytes(TEXT[:half])  # no newline at the end
    Path("two").write_bytes(gzip.compress(TEXT[half + 1 :]))
    assert neglm("phrases", "one", "two", *RULE, "-q").stdout == JOINED


def test_no_newline_at_the_end(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(TEXT + b"to hong \t kong")
    assert neglm("phrases", "corpus.txt", *RULE, "-q").stdout == JOINED + b"to hong_kong"
    Path("corpus.txt").write_bytes(TEXT + b"to hong\nkong")
    assert neglm("phrases", "corpus.txt", *RULE, "-q").stdout == JOINED + b"to hong\nkong"


def test_threads_and_memory_do_not_change_a_byte(neglm: Neglm, workplace: Path) -> None:
    lines = (b" ".join(b"some-longer-word-%d" % (i * j % 307) for j in range(1, 90)) for i in range(6_000))
    text = b"\n".join(lines)
    assert len(text) > 2 * BLOCK
    Path("corpus.txt").write_bytes(text)
    for name, *options in (("one", "--threads", "1"), ("two", "--threads", "3", "--memory", "1M")):
        result = neglm("phrases", "corpus.txt", "--threshold", "0", *options, "-o", name, "--list", f"{name}.tsv")
        assert (b"the table of pairs exceeds --memory" in result.stderr) == (name == "two")
    assert Path("one").read_bytes() == Path("two").read_bytes()
    assert Path("one.tsv").read_bytes() == Path("two.tsv").read_bytes()
    assert Path("one").read_bytes().count(b"_") > 1_000


def test_a_closed_pipe_ends_silently(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(text_with_phrases(20_000))
    neglm("phrases", "corpus.txt", "-o", "/dev/null")  # may compile
    process = subprocess.Popen(
        [*COMMAND, "phrases", "corpus.txt", "-o", "-", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout
    assert process.stderr
    assert b"new" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0


def test_full_devices(neglm: Neglm, corpus: Path) -> None:
    neglm("phrases", "corpus.txt", *RULE, "-q")  # may compile
    command = f"{shlex.join(COMMAND)} phrases corpus.txt -o - > /dev/full"
    result = subprocess.run(["bash", "-c", command], capture_output=True)
    assert result.returncode == 1
    assert one_sentence(result.stderr) == "neglm: cannot use standard output: No space left on device"
    for options in (["-o", "/dev/full"], ["-o", "out", "--list", "/dev/full"]):
        Path("out").write_bytes(OLD)
        sentence = one_sentence(neglm("phrases", "corpus.txt", *RULE, *options, code=1).stderr)
        assert "cannot write /dev/full: No space left on device" in sentence
        assert Path("out").read_bytes() == OLD
        assert sorted(os.listdir()) == ["corpus.txt", "out"]


def refused(neglm: Neglm, *arguments: str, code: int = 1, stdin: bytes = b"") -> str:
    """Return the error message; old outputs must be untouched, with no stray files."""
    for name in ("out", "list"):
        Path(name).write_bytes(OLD)
    before = sorted(os.listdir())
    sentence = one_sentence(neglm("phrases", "-o", "out", "--list", "list", *arguments, code=code, stdin=stdin).stderr)
    assert Path("out").read_bytes() == Path("list").read_bytes() == OLD
    assert sorted(os.listdir()) == before
    return sentence


def test_input_that_cannot_be_read(neglm: Neglm, workplace: Path) -> None:
    assert refused(neglm, "nothing.txt") == "neglm: nothing.txt does not exist"
    Path("empty").touch()
    assert "empty is empty: there are no words to read" in refused(neglm, "empty")
    assert refused(neglm, "-").endswith("input is empty: there are no words to read; pipe text into it")
    Path("blank").write_bytes(b" \n\t\n")
    assert "blank has no words" in refused(neglm, "blank")
    assert "standard input has no words" in refused(neglm, "-", stdin=b" \n")
    Path("folder").mkdir()
    assert "folder is a directory" in refused(neglm, "folder")
    Path("cut").write_bytes(gzip.compress(os.urandom(50_000).hex().encode())[:20_000])
    assert "cut is cut short" in refused(neglm, "cut")
    assert "standard input is cut short" in refused(neglm, "-", stdin=Path("cut").read_bytes())


def test_output_that_cannot_be_written(neglm: Neglm, corpus: Path) -> None:
    assert "cannot write no/place: No such file or directory" in refused(neglm, "corpus.txt", "-o", "no/place")
    assert "cannot write no/place: No such file or directory" in refused(neglm, "corpus.txt", "--list", "no/place")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "CORPUS is missing"),
        (["-", "-"], "can be read only once"),
        (["corpus.txt", "--delimiter", "a b"], "none of them white space"),
        (["corpus.txt", "--delimiter", " "], "none of them white space"),
        (["corpus.txt", "--delimiter", ""], "one character or more"),
        (["corpus.txt", "--threshold", "nan"], "--threshold nan joins nothing"),
        (["corpus.txt", "--threshold", "5", "--measure", "npmi"], "--threshold 5 joins nothing: npmi is at most 1"),
        (["corpus.txt", "--measure", "t"], "--measure"),
        (["corpus.txt", "--passes", "0"], "--passes"),
        (["corpus.txt", "--min-count", "0"], "--min-count"),
        (["corpus.txt", "--memory", "1K"], "at least 1M"),
        (["corpus.txt", "--output", "corpus.txt"], "is one of the inputs"),
        (["corpus.txt", "--list", "link"], "is one of the inputs"),
        (["corpus.txt", "--list", "./out"], "name the same file"),
        (["corpus.txt", "--output", "-", "--list", "/dev/stdout"], "name the same file"),
    ],
)
def test_wrong_usage(neglm: Neglm, corpus: Path, arguments: list[str], message: str) -> None:
    Path("link").symlink_to("corpus.txt")
    assert message in refused(neglm, *arguments, code=2)
    assert corpus.read_bytes() == TEXT


def test_a_signal_leaves_nothing(neglm: Neglm, corpus: Path) -> None:
    """Interrupted while copying standard input: the copy is removed, old files stay."""
    neglm("phrases", "corpus.txt", *RULE, "-q")  # may compile
    Path("tmp").mkdir()
    Path("out").write_bytes(OLD)
    process = subprocess.Popen(
        [*COMMAND, "phrases", "-", "-o", "out"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": os.path.abspath("tmp")},
    )
    assert process.stderr
    while not os.listdir("tmp"):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    assert one_sentence(process.stderr.read()) == "neglm: terminated"
    assert os.listdir("tmp") == []
    assert Path("out").read_bytes() == OLD
