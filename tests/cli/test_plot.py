"""`neglm plot`: figures with the right contents, or one clear sentence and no output."""

import json
import os
import pty
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest

from neglm_cli.text.pair_lines import read_pairs
from neglm_cli.vectors.vectors import Vectors
from tests.cli.test_pmi import trained
from tests.conftest import COMMAND, Neglm, one_sentence
from tests.objective.making import random_table
from tests.pictures.making import end, epoch_end, lines, report, training
from tests.vectors.making import vectors_of
from tests.warm import SECONDS

WORDS = [f"word{i}" for i in range(30)]


@pytest.fixture
def logs(workplace: Path) -> None:
    Path("neglm.log").write_bytes(lines(*training(4, best=97.5)))
    Path("nce.log").write_bytes(lines(*training(3, best=104.25))[:-40])  # as in a running training


@pytest.fixture
def vectors(workplace: Path) -> Vectors:
    """Names, including ones that are hard to render."""
    random = np.random.default_rng(1)
    names = [*WORDS, "$x$", "a<b", "back\\slash", "\x1b[31m", "x" * 60]
    found = vectors_of({name.encode(): random.standard_normal(5).tolist() for name in names})
    found.save("vectors.safetensors")
    return found


@pytest.fixture
def pairs(workplace: Path) -> None:
    table = random_table(1, 30, 20, 0.5)
    rows = [f"x{x}\ty{y}\t{table[x, y]}\n" for x, y in zip(*np.nonzero(table), strict=True)]
    Path("pairs.tsv").write_text("".join(rows))
    trained(read_pairs("pairs.tsv"), 4).save("vectors.safetensors")


def texts(path: str) -> list[str]:
    """Return all text of an SVG."""
    root = ET.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def check_png(path: str) -> np.ndarray:
    from matplotlib.image import imread

    pixels = imread(path)
    assert pixels.shape[1] >= 1400
    assert len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 20
    return pixels


def check_pdf(path: str) -> None:
    data = Path(path).read_bytes()
    assert data.startswith(b"%PDF-1.")
    match = re.search(rb"startxref\n(\d+)\n%%EOF\s*$", data)
    assert match
    assert data[int(match[1]) :].startswith(b"xref")
    assert data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") == 1


def test_learning_curves(neglm: Neglm, logs: None) -> None:
    result = neglm("plot", "neglm.log", "nce.log")
    assert result.stdout.decode() == (
        "curves.svg: learning curves of 2 trainings by words: training loss, validation perplexity, log Z\n"
    )
    found = texts("curves.svg")
    for title in (
        "Training loss, nats per word, epoch means",
        "Validation perplexity",
        "log Z, mean ± standard deviation",
    ):
        assert title in found
    for label in ("neglm  best 97.50", "nce  best 104.2", "neglm  5.00", "thousand words"):
        assert label in found
    neglm("plot", "neglm.log", "nce.log", "--reports")
    assert {"Training loss, nats per word", "neglm  4.51"} <= set(texts("curves.svg"))


def test_learning_curves_by_time_with_names(neglm: Neglm, logs: None) -> None:
    arguments = ("plot", "neglm.log", "nce.log", "--by", "time", "--label", "NEGLM & co", "NCE $1$", "-o", "c.svg")
    summary = json.loads(neglm(*arguments, "--json").stdout)
    assert [run["finished"] for run in summary["trainings"]] == [True, False]
    assert [run["valid_perplexity"] for run in summary["trainings"]] == [97.5, 104.25]
    assert summary["trainings"][0]["seconds"] == 400
    found = texts("c.svg")
    assert {"minutes", "NEGLM & co  best 97.50", "NCE $1$  best 104.2"} <= set(found)
    assert "thousand words" not in found


def test_one_log_from_a_pipe_to_a_pipe(neglm: Neglm, workplace: Path) -> None:
    short = lines(epoch_end(1, 1, 7), epoch_end(2, 2, 6), end(2, 2))
    result = neglm("plot", "-", "-o", "-", stdin=short)
    Path("out.svg").write_bytes(result.stdout)
    found = texts("out.svg")
    assert "Training loss, nats per word, epoch means" in found
    assert "Validation perplexity" not in found
    assert "6.00" in found
    assert b"the plot: learning curves of a training" in result.stderr


def test_every_format_and_the_same_bytes_twice(neglm: Neglm, logs: None) -> None:
    for name in ("a.svg", "a.png", "a.PDF"):
        neglm("plot", "neglm.log", "nce.log", "-o", name)
        first = Path(name).read_bytes()
        neglm("plot", "neglm.log", "nce.log", "-o", name, SOURCE_DATE_EPOCH="7", MPLBACKEND="svg")
        assert Path(name).read_bytes() == first
    check_png("a.png")
    check_pdf("a.PDF")
    neglm("plot", "neglm.log", "-o", "a.png")
    assert Path("a.png").read_bytes() != first
    assert not [name for name in os.listdir() if "incomplete" in name]


def test_settings_of_the_user_do_not_count(neglm: Neglm, logs: None) -> None:
    neglm("plot", "neglm.log", "-o", "a.svg")
    Path("matplotlibrc").write_text("font.size: 30\nlines.linewidth: 9\nsvg.fonttype: path\n")
    neglm("plot", "neglm.log", "-o", "b.svg")
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


def test_lines_are_told_apart_without_colors(neglm: Neglm, logs: None) -> None:
    neglm("plot", "neglm.log", "nce.log", "-o", "c.svg")
    svg = Path("c.svg").read_text()
    dashes = set(re.findall(r"stroke-dasharray: ([\d.,]+)", svg))
    assert len(dashes) >= 2  # of the second line, and of the leader to its label
    assert "#0072b2" in svg
    assert "#d55e00" in svg


def test_a_map_of_words(neglm: Neglm, vectors: Vectors) -> None:
    result = neglm("plot", "vectors.safetensors", "--max-vocab", "12")
    assert re.fullmatch(
        r"map.svg: 12 most frequent words of vectors.safetensors, first two principal components, \d\d% of the "
        r"variance\n",
        result.stdout.decode(),
    )
    found = texts("map.svg")
    assert set(WORDS[:12]) <= set(found)
    assert "word12" not in found
    neglm("plot", "vectors.safetensors", "--max-vocab", "12", "-o", "again.svg")
    assert Path("again.svg").read_bytes() == Path("map.svg").read_bytes()
    neglm("plot", "vectors.safetensors", "-o", "map.png")
    check_png("map.png")


def test_words_are_drawn_as_they_are(neglm: Neglm, vectors: Vectors) -> None:
    neglm("plot", "vectors.safetensors", "-o", "map.svg")
    found = set(texts("map.svg"))
    assert {"$x$", "a<b", "back\\slash", "\\x1b[31m", "x" * 24 + "…"} <= found
    assert any(text.startswith("All 35 words of vectors.safetensors") for text in found)


def test_frequent_words_are_larger(neglm: Neglm, workplace: Path) -> None:
    vectors_of({b"often": [1, 0], b"rare": [-1, 0], b"middle": [0, 1]}, counts=[1000, 10, 100]).save("v")
    neglm("plot", "v", "-o", "map.svg")
    sizes = {
        "".join(element.itertext()): float(re.findall(r"font-size: ([\d.]+)px", element.attrib["style"])[0])
        for element in ET.parse("map.svg").getroot().iter("{http://www.w3.org/2000/svg}text")
    }
    assert (sizes["often"], sizes["middle"], sizes["rare"]) == (11, 9, 7)


def test_words_that_no_font_has(neglm: Neglm, workplace: Path) -> None:
    vectors_of({"\U000f0000".encode(): [1, 0], b"b": [0, 1], "\U0001e7e0\U0001e7e1".encode(): [1, 1]}).save("v")
    assert b"some characters are in no font" in neglm("plot", "v", "-o", "map.png").stderr
    assert neglm("plot", "v", "-o", "map.svg").stderr == b""
    assert "\U0001e7e0\U0001e7e1" in texts("map.svg")


def test_a_map_by_tsne(neglm: Neglm, vectors: Vectors) -> None:
    result = neglm(
        "plot", "vectors.safetensors", "--max-vocab", "20", "--projection", "tsne", "-o", "map.svg", "--json"
    )
    assert json.loads(result.stdout)["projection"] == "tsne"
    found = texts("map.svg")
    assert "20 most frequent words of vectors.safetensors, t-SNE" in found[-1]
    assert set(WORDS[:20]) & set(found)
    Path("stubs/sklearn").mkdir(parents=True)
    Path("stubs/sklearn/__init__.py").write_text("raise ImportError('no sklearn')")
    refused = neglm("plot", "vectors.safetensors", "--projection", "tsne", PYTHONPATH="stubs", code=1)
    assert "--projection tsne needs scikit-learn: pip install scikit-learn, or use pca" in one_sentence(refused.stderr)


def test_a_map_of_chosen_words(neglm: Neglm, vectors: Vectors) -> None:
    Path("words.txt").write_bytes(b"\xef\xbb\xbfword3\r\nword5\n$x$\nword3\n\n\nunknown\nword20\nword21\n")
    result = neglm("plot", "vectors.safetensors", "--only", "words.txt", "-o", "map.svg")
    assert result.stderr.decode() == "left out 1 word of words.txt without a vector: unknown\n"
    assert result.stdout.startswith(b"map.svg: 5 words of vectors.safetensors, first two principal components")
    assert {"word3", "word5", "$x$", "word20", "word21"} <= set(texts("map.svg"))
    assert not {"word4", "unknown"} & set(texts("map.svg"))
    svg = Path("map.svg").read_text()
    assert "#0072b2" in svg  # the first group
    assert "#d55e00" in svg  # the second
    Path("words.txt").write_bytes(b"word3\nword5\n")
    summary = json.loads(neglm("plot", "vectors.safetensors", "--only", "words.txt", "-o", "map.svg", "--json").stdout)
    assert (summary["vocabulary"], summary["oov"]) == (2, 0)
    assert "#d55e00" not in Path("map.svg").read_text()
    piped = neglm("plot", "vectors.safetensors", "--only", "-", "--projection", "tsne", stdin=b"word1\nword2\nword9")
    assert piped.stdout == b"map.svg: 3 words of vectors.safetensors, t-SNE\n"


def test_chosen_words_composed_from_subwords(neglm: Neglm, workplace: Path) -> None:
    Path("text.txt").write_text("walking talking walked talked king queen " * 20)
    neglm("embed", "text.txt", "--subwords", "3-4", "--size", "4", "--epochs", "1", "--buckets", "50", "--quiet")
    Path("words.txt").write_text("walking\nstalking\nking\n")
    summary = json.loads(neglm("plot", "vectors.safetensors", "--only", "words.txt", "--json").stdout)
    assert (summary["vocabulary"], summary["oov"]) == (3, 0)
    assert "stalking" in texts("map.svg")


def size_of(path: str) -> tuple[float, float]:
    """Return width and height of an SVG, in inches."""
    root = ET.parse(path).getroot()
    width, height = (float(root.attrib[name].removesuffix("pt")) / 72 for name in ("width", "height"))
    return width, height


def font_sizes(path: str) -> dict[str, float]:
    """Return the font size of each text of an SVG, in points."""
    elements = ET.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")
    return {
        "".join(element.itertext()): float(re.findall(r"font(?:-size)?:[^;]*?([\d.]+)px", element.attrib["style"])[0])
        for element in elements
    }


@pytest.mark.parametrize(
    ("width", "inches"),
    [("5", 5), ("3.25in", 3.25), ("8.89cm", 3.5), ("88.9 mm", 3.5), ("acl", 3.03), ("icml-wide", 6.75)],
)
def test_widths_of_papers(neglm: Neglm, logs: None, width: str, inches: float) -> None:
    neglm("plot", "neglm.log", "nce.log", "--width", width)
    assert size_of("curves.svg")[0] == pytest.approx(inches, abs=0.001)


def test_width_of_all_plots(neglm: Neglm, logs: None, pairs: None) -> None:
    for output, arguments in {
        "curves.svg": ["neglm.log", "nce.log"],
        "map.svg": ["vectors.safetensors"],
        "pmi.svg": ["--pmi", "vectors.safetensors"],
    }.items():
        neglm("plot", *arguments)
        usual = font_sizes(output)
        neglm("plot", *arguments, "--width", "ieee", "--font-size", "7.2")
        assert size_of(output)[0] == pytest.approx(3.49, abs=0.001)
        for text, size in font_sizes(output).items():
            if text in usual:
                assert size == pytest.approx(0.8 * usual[text], rel=0.001), text


def test_narrow_plots_have_names_below(neglm: Neglm, logs: None) -> None:
    neglm("plot", "neglm.log", "nce.log", "--width", "acl")
    found = texts("curves.svg")
    assert {"neglm", "nce", "97.50", "104.2"} <= set(found)
    assert found.count("neglm") == 1
    assert "neglm  best 97.50" not in found
    neglm("plot", "neglm.log", "nce.log")
    assert "neglm  best 97.50" in texts("curves.svg")


def test_pmi_of_a_sample_of_words(neglm: Neglm, workplace: Path) -> None:
    random = np.random.default_rng(2)
    Path("text.txt").write_text(" ".join(f"w{int(200 * number**2)}" for number in random.random(20_000)))
    neglm("embed", "text.txt", "--size", "4", "--epochs", "1", "--min-count", "1", "--quiet")
    whole, sample = (
        json.loads(neglm("plot", "--pmi", "vectors.safetensors", "--json", *options).stdout)
        for options in ((), ("--every", "4"))
    )
    assert (whole["every"], whole["correlation_error"]) == (1, 0)
    assert sample["every"] == 4
    assert 0 < sample["pairs"] < whole["pairs"] / 2
    assert abs(sample["correlation"] - whole["correlation"]) < 6 * sample["correlation_error"]
    written = " ".join(texts("pmi.svg"))
    assert f"{sample['pairs']:,} pairs of one word in 4" in written
    assert f"correlation {sample['correlation']:.3f} ± {sample['correlation_error']:.3f}" in written


def test_learned_scores_against_pmi(neglm: Neglm, pairs: None) -> None:
    summary = json.loads(neglm("plot", "--pmi", "vectors.safetensors", "--json").stdout)
    assert summary["output"] == "pmi.svg"
    assert 0.5 < summary["correlation"] <= 1
    assert 0 < summary["unseen_noise"] < 1
    found = texts("pmi.svg")
    for label in ("score = PMI", "median score", "never seen", "−∞", "learned score", "PMI of the observed pairs"):
        assert label in found
    assert f"correlation {summary['correlation']:.3f}" in " ".join(found)
    first = Path("pmi.svg").read_bytes()
    neglm("plot", "--pmi", "vectors.safetensors", "--pairs", "pairs.tsv")
    assert Path("pmi.svg").read_bytes() == first
    neglm("plot", "--pmi", "vectors.safetensors", "-o", "pmi.png")
    check_png("pmi.png")
    neglm("plot", "--pmi", "vectors.safetensors", "-o", "pmi.pdf")
    check_pdf("pmi.pdf")


@pytest.fixture
def without_matplotlib(workplace: Path) -> dict[str, str]:
    Path("stubs/matplotlib").mkdir(parents=True)
    Path("stubs/matplotlib/__init__.py").write_text("raise ModuleNotFoundError('none', name='matplotlib')")
    return {"PYTHONPATH": "stubs"}


def test_without_matplotlib(neglm: Neglm, logs: None, without_matplotlib: dict[str, str]) -> None:
    refused = neglm("plot", "neglm.log", code=1, **without_matplotlib)
    assert one_sentence(refused.stderr) == (
        "neglm: figures need matplotlib, which is not installed: pip install 'neglm[plot]'"
    )
    assert not Path("curves.svg").exists()
    followed = neglm("plot", "--follow", "neglm.log", COLUMNS="70", **without_matplotlib).stdout.decode()
    assert followed.startswith("neglm.log: epoch 4, 1,600,000 words, 6 min, finished\n")
    assert followed.endswith("1,600 thousand words\n")
    assert "Validation perplexity  best 97.50" in followed
    assert "⠒" in followed
    plain = neglm("plot", "--follow", "neglm.log", PYTHONIOENCODING="ascii", **without_matplotlib).stdout
    assert b"*****" in plain


def test_refused(neglm: Neglm, logs: None, vectors: Vectors) -> None:
    def sentence(*arguments: str, code: int = 1) -> str:
        Path("old.svg").write_bytes(b"old")
        before = sorted(os.listdir())
        found = one_sentence(neglm("plot", *arguments, "-o", "old.svg", code=code).stderr)
        assert Path("old.svg").read_bytes() == b"old"
        assert sorted(os.listdir()) == before
        return found

    Path("empty.log").touch()
    assert "empty.log has no report yet: the first comes after ten seconds" in sentence("empty.log")
    assert "empty.log has no report yet" in sentence("neglm.log", "empty.log")
    Path("text").write_bytes(b"some words\n")
    assert "text, line 1: this is not a training log" in sentence("neglm.log", "text")
    assert "nothing does not exist" in sentence("nothing")
    Path("folder").mkdir()
    assert "folder is a directory" in sentence("folder")
    neglm("vocab", "text", "-o", "vocab")
    assert "vocab has no vectors to plot, it is of the kind `vocabulary`" in sentence("vocab")
    assert "neglm.log is not a neglm file" in sentence("--pmi", "neglm.log")
    assert "vectors.safetensors has no context vectors" in sentence("--pmi", "vectors.safetensors")
    Path("none").write_bytes(b"\n \n")
    assert "none contains no words: write one per line" in sentence("vectors.safetensors", "--only", "none")
    Path("foreign").write_bytes(b"some\nother\n")
    only = sentence("vectors.safetensors", "--only", "foreign")
    assert "vectors.safetensors has a vector for none of the words of foreign: check spelling and case" in only
    assert "missing does not exist" in sentence("vectors.safetensors", "--only", "missing")
    Path("many").write_text("\n".join(f"w{i}" for i in range(10_001)))
    assert "many has 10,001 words: choose at most 10,000" in sentence("vectors.safetensors", "--only", "many")
    for file in ("neglm.log", "vectors.safetensors"):
        crowded = sentence(file, "--width", "2", "--font-size", "30")
        assert "a figure 2 inches wide has no room for text of 30 points: choose a larger --width or" in crowded
    damaged = bytearray(Path("vectors.safetensors").read_bytes())
    damaged[-1] ^= 1
    Path("damaged").write_bytes(damaged)
    assert "damaged is damaged" in sentence("damaged")


def test_wrong_usage(neglm: Neglm, logs: None, vectors: Vectors) -> None:
    before = sorted(os.listdir())
    for arguments, message in (
        (("neglm.log", "-o", "a.gif"), "the name a.gif does not end in .svg, .png or .pdf"),
        (("neglm.log", "--label", "a", "b"), "--label has 2 names for 1 file"),
        (("neglm.log", "--max-vocab", "3"), "--max-vocab, --only and --projection are for a map"),
        (("neglm.log", "--only", "words"), "--max-vocab, --only and --projection are for a map"),
        (("vectors.safetensors", "--only", "words", "--max-vocab", "3"), "--only and --max-vocab both choose"),
        (("vectors.safetensors", "--by", "time"), "--by, --reports and --label are for the logs"),
        (("vectors.safetensors", "--reports"), "--by, --reports and --label are for the logs"),
        (("vectors.safetensors", "neglm.log"), "give logs, or a single file of vectors"),
        (("vectors.safetensors", "--k", "3"), "are for --pmi"),
        (("vectors.safetensors", "--every", "3"), "are for --pmi"),
        (("--pmi", "vectors.safetensors", "--every", "0"), "--every must be at least 1"),
        (("--pmi", "vectors.safetensors", "text", "--pairs", "p"), "give one of them"),
        (("-", "-"), "can be read only once"),
        (("-", "--only", "-"), "can be read only once"),
        (("neglm.log", "--width", "wide"), "--width wide is not a width: give inches (3.25), cm or mm (8.9cm), or a"),
        (("neglm.log", "--width", "nan"), "--width nan is not a width"),
        (("neglm.log", "--width", "1.9"), "--width must be between 2 and 40 inches"),
        (("neglm.log", "--width", "2000mm"), "--width must be between 2 and 40 inches"),
        (("neglm.log", "--font-size", "3"), "--font-size must be at least 4"),
        (("--follow", "neglm.log", "--width", "acl"), "with no options except --by and --reports"),
        (("--follow", "neglm.log", "--font-size", "8"), "with no options except --by and --reports"),
        (("--follow", "neglm.log", "nce.log"), "--follow takes one log"),
        (("--follow", "-"), "--follow takes one log"),
        (("--follow", "neglm.log", "-o", "a.svg"), "with no options except --by and --reports"),
    ):
        assert message in one_sentence(neglm("plot", *arguments, code=2).stderr)
    Path("log.svg").write_bytes(lines(*training(1)))
    refused = neglm("plot", "log.svg", "-o", "log.svg", code=2)
    assert "the output log.svg is one of the inputs" in one_sentence(refused.stderr)
    assert sorted(os.listdir()) == sorted([*before, "log.svg"])
    assert "cannot write" in one_sentence(neglm("plot", "neglm.log", "-o", "nowhere/a.svg", code=1).stderr)


class Follower:
    """`neglm plot --follow` on its own pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, "plot", "--follow", *arguments],
            stdin=slave, stdout=slave, stderr=subprocess.PIPE,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "30"},
        )  # fmt: skip
        os.close(slave)
        os.set_blocking(self._master, False)
        self._read = b""

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def shown(self) -> str:
        """Return all output so far, without colors and cursor movements."""
        with suppress(OSError):  # nothing to read yet, or the other end is closed
            while data := os.read(self._master, 1 << 16):
                self._read += data
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._read.decode(errors="replace"))

    def wait_for(self, text: str) -> None:
        self._wait(lambda: text in self.shown())

    def finish(self) -> int:
        """Return the exit code. Keeps reading the output, or the process would block on it."""
        self._wait(lambda: self.shown() is not None and self.process.poll() is not None)
        return self.process.returncode

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS  # a hang is an error
        while not done():
            assert time.monotonic() < deadline, self.shown()[-300:]
            time.sleep(0.05)


def test_follow_redraws_while_a_training_writes(workplace: Path) -> None:
    whole = lines(report(100, 10, 9), report(200, 20, 8), epoch_end(1000, 100, 7, 321), end(1000, 100)).splitlines(True)
    with open("train.log", "wb", buffering=0) as log, Follower("train.log", "--by", "time") as follower:
        follower.wait_for("train.log has no report yet")
        log.write(whole[0])
        follower.wait_for("Training loss  9.00")
        log.write(whole[1][:-20])
        log.write(whole[1][-20:])
        follower.wait_for("Training loss  8.00")
        assert "321.0" not in follower.shown()
        log.write(whole[2])
        follower.wait_for("Validation perplexity  best 321.0")
        assert follower.process.poll() is None
        log.write(whole[3])
        assert follower.finish() == 0
        assert "finished" in follower.shown()
        assert "100 seconds" in follower.shown()


def test_follow_waits_for_a_log_that_is_not_there_yet(workplace: Path) -> None:
    with Follower("train.log") as follower:
        follower.wait_for("waiting for train.log")
        Path("train.log").write_bytes(lines(report(100, 10, 9)))
        follower.wait_for("Training loss  9.00")
        Path("train.log").write_bytes(lines(report(100, 10, 9), end(1000, 100)))
        assert follower.finish() == 0


def test_follow_starts_anew_with_a_new_training(workplace: Path) -> None:
    Path("train.log").write_bytes(lines(*training(2))[:-40])
    with Follower("train.log") as follower:
        follower.wait_for("epoch 2")
        Path("train.log").write_bytes(lines(report(100, 10, 123)))
        follower.wait_for("Training loss  123.0")
        follower.process.send_signal(signal.SIGINT)
        assert follower.finish() == 130
        assert follower.process.stderr
        assert one_sentence(follower.process.stderr.read()) == "neglm: interrupted"


def test_follow_refuses_what_is_no_log(neglm: Neglm, vectors: Vectors) -> None:
    sentence = one_sentence(neglm("plot", "--follow", "no/train.log", code=1).stderr)
    assert "no/train.log does not exist, and there is no directory no for it" in sentence
    for name in ("vectors.safetensors", "text"):
        Path("text").write_bytes(b"words\n")
        refused = neglm("plot", "--follow", name, code=1)
        assert f"{name}, line 1: this is not a training log" in one_sentence(refused.stderr)
