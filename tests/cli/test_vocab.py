import gzip
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from neglm_cli.cli import options
from tests.conftest import COMMAND, Neglm, one_sentence, users_environment

TEXT = b"the cat sat\non the mat\nthe end\n"


@pytest.fixture
def corpus(workplace: Path) -> Path:
    path = workplace / "corpus.txt"
    path.write_bytes(TEXT)
    return path


def words(neglm: Neglm, path: str = "vocab.safetensors") -> dict[str, int]:
    lines = neglm("info", path, "--words").stdout.decode().splitlines()
    return {word: int(count) for word, count in (line.split("\t") for line in lines)}


def test_writes_a_vocabulary_and_says_what_is_in_it(neglm: Neglm, corpus: Path) -> None:
    output = neglm("vocab", "corpus.txt").stdout.decode()
    assert words(neglm) == {"<eos>": 3, "the": 3, "<unk>": 1, "cat": 1, "end": 1, "mat": 1, "on": 1, "sat": 1}
    assert list(words(neglm))[:3] == ["<eos>", "the", "<unk>"]
    for expected in (
        "8 entries",
        "lines           3",
        "tokens          8",
        "distinct words  6",
        "100.00%",
        "<eos> 3  the 3",
    ):
        assert expected in output


def test_json(neglm: Neglm, corpus: Path) -> None:
    result = neglm("vocab", "corpus.txt", "--min-count", "2", "--json", "--top", "1")
    summary = json.loads(result.stdout)
    assert summary.pop("seconds") >= 0
    assert summary.pop("words_per_second") > 0
    assert summary == {
        "output": "vocab.safetensors",
        "vocabulary": 3,
        "lines": 3,
        "tokens": 8,
        "distinct_words": 6,
        "oov_words": 5,
        "oov": 5,
        "coverage": 0.375,
        "most_frequent": [["<unk>", 5]],
    }


def test_max_vocab_counts_the_special_words(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt", "--max-vocab", "4", "--quiet")
    assert words(neglm) == {"<unk>": 4, "<eos>": 3, "the": 3, "cat": 1}


def test_quiet_is_silent(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt")  # may compile
    result = neglm("vocab", "corpus.txt", "--quiet")
    assert (result.stdout, result.stderr) == (b"", b"")


def test_pipes_on_both_sides(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt", "--output", "file")
    piped = neglm("vocab", "-", "--output", "-", stdin=gzip.compress(TEXT)).stdout
    assert words(neglm, "file") == {
        word: int(count)
        for word, count in (
            line.split("\t") for line in neglm("info", "-", "--words", stdin=piped).stdout.decode().splitlines()
        )
    }


def test_several_files_of_several_kinds(neglm: Neglm, corpus: Path) -> None:
    Path("more").write_bytes(gzip.compress(TEXT))
    neglm("vocab", "corpus.txt", "more", "-", stdin=TEXT)
    assert words(neglm)["the"] == 9


@pytest.mark.parametrize("format", ["text", "word2vec"])
def test_text_there_and_back(neglm: Neglm, corpus: Path, format: str) -> None:
    neglm("vocab", "corpus.txt")
    neglm("vocab", "corpus.txt", "--format", format)
    neglm("vocab", "--merge", "vocab.txt", "--output", "back.safetensors")
    assert words(neglm, "back.safetensors") == words(neglm)
    first = Path("vocab.txt").read_bytes().split(b"\n")[0]
    assert first == {"text": b"<eos>\t3", "word2vec": b"</s> 3"}[format]


def test_merging_gives_the_bytes_of_counting_at_once(neglm: Neglm, corpus: Path) -> None:
    Path("other.txt").write_bytes(b"a dog and the <unk>\n")
    neglm("vocab", "corpus.txt", "-o", "one")
    neglm("vocab", "other.txt", "-o", "two")
    neglm("vocab", "corpus.txt", "other.txt", "--min-count", "2", "-o", "at-once")
    neglm("vocab", "--merge", "one", "two", "--min-count", "2", "-o", "merged")
    assert Path("merged").read_bytes() == Path("at-once").read_bytes()


def test_threads_and_memory_do_not_change_a_byte(neglm: Neglm, workplace: Path) -> None:
    text = b"\n".join(b" ".join(b"w%d" % (i * j % 70_001) for j in range(40)) for i in range(5_000))
    Path("corpus.txt").write_bytes(text)
    neglm("vocab", "corpus.txt", "-o", "one", "--threads", "1")
    spilled = neglm("vocab", "corpus.txt", "-o", "two", "--threads", "3", "--memory", "1M")
    assert b"sorted runs spilled to disk" in spilled.stderr
    assert Path("one").read_bytes() == Path("two").read_bytes()


def test_the_corpus_is_remembered_relative_to_the_vocabulary(neglm: Neglm, corpus: Path) -> None:
    Path("models").mkdir()
    neglm("vocab", "corpus.txt", "-o", "models/v")
    with safe_open("models/v", "numpy") as file:
        (entry,) = json.loads(file.metadata()["corpus"])
    assert entry["path"] == "../corpus.txt"
    assert entry["size"] == len(TEXT)
    assert "corpus.txt, there" in neglm("info", "models/v").stdout.decode()
    Path("corpus.txt").unlink()
    assert "corpus.txt, gone" in neglm("info", "models/v").stdout.decode()


def test_progress_is_plain_lines_where_stderr_is_no_terminal(neglm: Neglm, corpus: Path) -> None:
    stderr = neglm("vocab", "corpus.txt").stderr
    assert b"\x1b" not in stderr
    assert b"\r" not in stderr


@pytest.mark.parametrize("output", ["corpus.txt", "./corpus.txt", "link"])
def test_an_input_is_never_overwritten(neglm: Neglm, corpus: Path, output: str) -> None:
    Path("link").symlink_to("corpus.txt")
    assert "is one of the inputs" in one_sentence(neglm("vocab", "corpus.txt", "-o", output, code=2).stderr)
    assert corpus.read_bytes() == TEXT


def test_a_vocabulary_can_be_merged_into_itself(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt")
    neglm("vocab", "--merge", "vocab.safetensors", "vocab.safetensors")
    assert words(neglm)["the"] == 6


@pytest.mark.parametrize("name", [b"with blanks", b"new\nline", b"\xff\xfe", "größe [1]".encode(), b"--text"])
def test_odd_names(neglm: Neglm, workplace: Path, name: bytes) -> None:
    path = os.fsdecode(b"./" + name)
    Path(path).write_bytes(TEXT)
    neglm("vocab", path, "-o", path + ".v")
    assert "the 3" in neglm("vocab", path).stdout.decode()
    assert "there, 31 bytes" in neglm("info", path + ".v").stdout.decode()
    one_sentence(neglm("vocab", path + " missing", code=1).stderr)


def test_words_that_the_terminal_cannot_show(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes("größe größe\n".encode())
    result = neglm("vocab", "corpus.txt", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert b"gr\\xf6\\xdfe 2" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vocab"], "CORPUS is missing"),
        (["vocab", "corpus.txt", "--min-count", "0"], "--min-count"),
        (["vocab", "corpus.txt", "--max-vocab", "2"], "--max-vocab"),
        (["vocab", "corpus.txt", "--threads", "0"], "--threads"),
        (["vocab", "corpus.txt", "--memory", "lots"], "--memory lots is not a size"),
        (["vocab", "corpus.txt", "--memory", "1K"], "at least 1M"),
        (["vocab", "corpus.txt", "--memory", "120%"], "--memory 120% is not more than 0% and at most 100%"),
        (["vocab", "corpus.txt", "--mincount", "3"], "there is no option --mincount; did you mean --min-count?"),
        (["count"], "No such command 'count'"),
    ],
)
def test_wrong_usage(neglm: Neglm, corpus: Path, arguments: list[str], message: str) -> None:
    sentence = one_sentence(neglm(*arguments, code=2).stderr)
    assert message in sentence
    assert "--help" in sentence
    assert not Path("vocab.safetensors").exists()


def test_a_terminal_gets_no_binary(neglm: Neglm, corpus: Path) -> None:
    """Run through script(1), which provides a terminal."""
    command = shlex.join([*COMMAND, "vocab", "corpus.txt", "--output", "-"])
    result = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 1
    assert b"refusing to write a binary file to the terminal" in result.stdout


def test_the_summary_of_a_cut(neglm: Neglm, corpus: Path) -> None:
    output = neglm("vocab", "corpus.txt", "--min-count", "2").stdout.decode()
    assert "kept            1 word, which cover 37.50% of the text" in output
    assert "OOV             5 words, 5 tokens: <unk>" in output


def test_json_is_printed_even_if_quiet(neglm: Neglm, corpus: Path) -> None:
    assert json.loads(neglm("vocab", "corpus.txt", "--json", "--quiet").stdout)["tokens"] == 8


def test_standard_output_carries_nothing_but_the_vocabulary(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt", "-o", "file")
    assert neglm("vocab", "corpus.txt", "-o", "-", "--json").stdout == Path("file").read_bytes()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1M", 1 << 20),
        ("500m", 500 << 20),
        ("2G", 2 << 30),
        ("1.5GiB", 3 << 29),
        ("2097152", 2 << 20),
        ("25%", 256 << 20),
        (" 2 G ", 2 << 30),
    ],
)
def test_memory_sizes(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setattr(options, "machine_memory", lambda: 1 << 30)
    assert options.memory_size(text) == size


def test_text_on_a_terminal(neglm: Neglm, corpus: Path) -> None:
    command = shlex.join([*COMMAND, "vocab", "corpus.txt", "--format", "text", "--output", "-"])
    result = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0
    assert b"the\t3" in result.stdout


def test_devices_as_outputs(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt", "-o", "file")
    assert neglm("vocab", "corpus.txt", "-o", "/dev/stdout").stdout == Path("file").read_bytes()
    script = f"{shlex.join(COMMAND)} vocab corpus.txt -q -o >(cat > copy) && wait $!"
    subprocess.run(["bash", "-c", script], check=True)
    assert Path("copy").read_bytes() == Path("file").read_bytes()


def test_a_pipe_with_a_changing_name_gives_the_same_bytes(neglm: Neglm, corpus: Path) -> None:
    for name in ("one", "two"):
        script = f"{shlex.join(COMMAND)} vocab <(cat corpus.txt) -q -o {name}"
        subprocess.run(["bash", "-c", script], check=True)
    assert Path("one").read_bytes() == Path("two").read_bytes()
    assert "corpus          a pipe, 31 bytes" in neglm("info", "one").stdout.decode()


def test_long_and_unprintable_words_in_the_summary(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(b"x" * 1_000 + b" \x1b[31m\x00\n")
    output = neglm("vocab", "corpus.txt").stdout.decode()
    assert "x" * 40 + "… 1" in output
    assert "\\x1b[31m\\x00 1" in output


def test_in_a_directory_that_has_gone(neglm: Neglm, corpus: Path) -> None:
    Path("gone").mkdir()
    place = shlex.quote(str(corpus.parent))
    script = (
        f"cd gone; rmdir ../gone; {shlex.join(COMMAND)} vocab {place}/corpus.txt -o {place}/v && "
        f"{shlex.join(COMMAND)} info {place}/v"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    result = subprocess.run(["bash", "-c", script], capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr.decode()


PEAK = """
import sys
from neglm_cli.cli.main import run
assert run(sys.argv[1:]) == 0
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


def peak_memory(*arguments: str) -> int:
    """Run a command; return its peak memory in bytes."""
    command = [sys.executable, "-c", PEAK, *arguments]
    return int(subprocess.run(command, check=True, capture_output=True, env=users_environment()).stdout) << 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("compress", [bytes, lambda text: gzip.compress(text, 1)], ids=["plain", "gzip"])
def test_a_huge_word_takes_a_small_multiple_of_its_length(compress: Callable[[bytes], bytes]) -> None:
    length = 100 << 20
    for name, word in (("small", b"x"), ("large", b"x" * length)):
        Path(name).write_bytes(compress(b"a b\n" + word + b" a\n"))
    _, small, large = (  # the first run may compile kernels, which takes memory, too
        peak_memory("vocab", name, "--quiet", "--memory", "50M", "--threads", "1")
        for name in ("large", "small", "large")
    )
    assert large - small < 3.5 * length
