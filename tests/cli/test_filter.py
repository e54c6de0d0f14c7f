"""`neglm filter` on the command line."""

import gzip
import json
import math
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from neglm_cli.lm.model import LanguageModel
from tests.cli.test_score import model, rows, trained  # noqa: F401
from tests.cli.test_train_lm import SMALL, sentence
from tests.conftest import Neglm, users_environment
from tests.cut_short import cut_short
from tests.sgns.making import some_text

LINES = [*some_text(400).decode().splitlines()[:30], "w1 nowhere nothing", "", "w2"]


def jsonl(lines: list[str]) -> str:
    return "".join(f'{{"id": {i}, "text": {json.dumps(line)}}}\n' for i, line in enumerate(lines))


def objects(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_lines(neglm: Neglm, model: LanguageModel) -> None:  # noqa: F811
    text = "\n".join(LINES).encode()
    found = rows(neglm("filter", stdin=text).stdout)
    assert [row[3] for row in found] == LINES
    scored = rows(neglm("score", stdin=text).stdout)
    for mine, theirs in zip(found, scored, strict=True):
        tokens, oov = int(theirs[1]), int(theirs[2])
        assert float(mine[0]) == pytest.approx(10 ** (-float(theirs[0]) / (tokens + 1)), rel=1e-4)
        assert int(mine[1]) == tokens
        assert float(mine[2]) == pytest.approx(oov / max(tokens, 1), abs=1e-5)


@pytest.mark.usefixtures("model")
def test_jsonl_keeps_its_records(neglm: Neglm) -> None:
    Path("docs.jsonl").write_text(jsonl(LINES) + "\n", encoding="utf-8")
    with gzip.open("docs.jsonl.gz", "wb") as file:
        file.write(jsonl(LINES).encode())
    plain = neglm("filter", "docs.jsonl", "--field", "text").stdout
    summary = json.loads(neglm("filter", "docs.jsonl.gz", "--field", "text", "-o", "out.gz", "--json").stdout)
    assert gzip.decompress(Path("out.gz").read_bytes()) == plain
    assert not Path("out.gz.partial").exists()
    assert {name: summary[name] for name in ("output", "records", "kept_records", "bad")} == {
        "output": "out.gz", "records": len(LINES), "kept_records": len(LINES), "bad": 0,
    }  # fmt: skip
    as_lines = rows(neglm("filter", stdin="\n".join(LINES).encode() + b"\n").stdout)
    for i, found in enumerate(objects(plain)):
        assert (found["id"], found["text"]) == (i, LINES[i])
        assert found["perplexity"] == pytest.approx(float(as_lines[i][0]), rel=1e-5)
        assert found["tokens"] == int(as_lines[i][1])
    assert neglm("filter", "docs.jsonl", "--field", "text", "--bare").stdout.decode() == jsonl(LINES)


@pytest.mark.usefixtures("model")
def test_ranges(neglm: Neglm) -> None:
    Path("lines").write_text("\n".join(LINES) + "\n")
    everything = rows(neglm("filter", "lines").stdout)
    values = sorted(float(row[0]) for row in everything)
    low, high = values[5], values[-8]
    kept = rows(neglm("filter", "lines", "--keep", f"{low * 0.9999}..{high * 1.0001}").stdout)
    assert kept == [row for row in everything if low <= float(row[0]) <= high]
    half = rows(neglm("filter", "lines", "--keep", "50%..").stdout)
    assert half == [row for row in everything if float(row[0]) >= values[len(values) // 2]]
    bare = neglm("filter", "lines", "--keep", "50%..", "--bare", "-o", "kept.txt")
    assert Path("kept.txt").read_text().splitlines() == [row[3] for row in half]
    assert f"{len(half)} of {len(LINES)} records" in bare.stdout.decode()
    assert neglm("filter", "lines", "--keep", "..1e-9").stdout == b""


@pytest.mark.usefixtures("model")
def test_shares_of_unknown_words(neglm: Neglm) -> None:
    text = "\n".join([*LINES, "nowhere w1", "nowhere nothing w1"]).encode()
    everything = rows(neglm("filter", stdin=text).stdout)
    half = [row for row in everything if float(row[2]) <= 0.5]
    assert 0 < len(everything) - len(half) < len(everything)
    assert rows(neglm("filter", "--max-oov", "0.5", stdin=text).stdout) == half
    median = sorted(float(row[0]) for row in half)[(len(half) - 1) // 2]
    kept = rows(neglm("filter", "--max-oov", "0.5", "--keep", "..50%", stdin=text).stdout)
    assert kept == [row for row in half if float(row[0]) <= median]
    assert "--max-oov" in sentence(neglm("filter", "-q", "--max-oov", "2", stdin=b"w1\n", code=2).stderr)


@pytest.mark.usefixtures("model")
def test_contrast(neglm: Neglm) -> None:
    Path("other.txt").write_bytes(some_text(300) * 3)
    neglm("train-lm", "other.txt", *SMALL, "-o", "other.safetensors")
    text = "\n".join(LINES).encode()
    one, other = (
        rows(neglm("filter", "-m", name, stdin=text).stdout) for name in ("model.safetensors", "other.safetensors")
    )
    both = rows(neglm("filter", "--contrast", "other.safetensors", stdin=text).stdout)
    assert [row[:3] for row in both] == [row[:3] for row in one]
    for row, mine, theirs in zip(both, one, other, strict=True):
        assert float(row[3]) == pytest.approx(math.log2(float(mine[0])) - math.log2(float(theirs[0])), abs=1e-4)
    kept = rows(neglm("filter", "--contrast", "other.safetensors", "--keep", "..0", stdin=text).stdout)
    assert kept == [row for row in both if float(row[3]) <= 0]


@pytest.mark.usefixtures("model")
def test_unnormalized_and_tokenized(neglm: Neglm) -> None:
    text = b"w1, w2?\n"
    (exact,) = rows(neglm("filter", "--tokenize", stdin=text).stdout)
    (logits,) = rows(neglm("filter", "--tokenize", "--unnormalized", stdin=text).stdout)
    (score,) = rows(neglm("score", "--tokenize", "--unnormalized", stdin=text).stdout)
    assert exact[1] == logits[1] == "6"
    assert float(logits[0]) == pytest.approx(10 ** (-float(score[0]) / 7), rel=1e-4)
    assert logits[3] == "w1, w2?"


@pytest.mark.usefixtures("model")
def test_bad_lines(neglm: Neglm) -> None:
    good = '{"text": "w1 w2"}\n'
    bad = {
        "{text}\n": "is not JSON",
        '{"other": 1}\n': "has no text in the field 'text'",
        "[]\n": "is not a JSON object",
    }
    for line, reason in bad.items():
        Path("docs").write_text(f"é\n{line}" if reason == "" else good + line + good, encoding="utf-8")
        result = neglm("filter", "docs", "--field", "text", "-o", "out", code=1)
        assert f"line 2 of docs, at byte {len(good)}, {reason}" in sentence(result.stderr.splitlines()[-1] + b"\n")
        assert not Path("out").exists()
    assert b"keeps" not in result.stderr  # nothing was scored
    assert not Path("out.partial").exists()
    Path("docs").write_text(good + "".join(bad) + good)
    result = neglm("filter", "docs", "--field", "text", "--skip-bad", "-o", "out", "--json")
    summary = json.loads(result.stdout)
    assert (summary["records"], summary["bad"], summary["kept_records"]) == (2, 3, 2)
    assert len(Path("out").read_bytes().splitlines()) == 2


@pytest.mark.usefixtures("model")
def test_bad_lines_after_a_batch(neglm: Neglm) -> None:
    """The scores before it are kept; bad lines that one run skipped stop another that does not."""
    good, asked = '{"text": "w1 w2"}\n' * 1500, ["filter", "docs", "--field", "text", "-o", "out"]
    Path("docs").write_text(f"{good}bad\n{good}")
    stopped = neglm(*asked, code=1).stderr.decode()
    assert "out.partial keeps 1,024 scores for --resume" in stopped
    assert "line 1,501 of docs" in stopped
    assert "1,024 records have been scored before" in neglm(*asked, "--resume", "--skip-bad").stderr.decode()
    assert len(Path("out").read_bytes().splitlines()) == 3000
    Path("out").unlink()
    killed = subprocess.run(
        cut_short(signal.SIGKILL, "neglm_cli.lm.filter_scores:PartialScores.append", "3", *asked, "--skip-bad"),
        env=users_environment(), capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "line 1,501 of docs" in neglm(*asked, "--resume", code=1).stderr.decode()


@pytest.mark.usefixtures("model")
def test_odd_records(neglm: Neglm) -> None:
    long = "x" * 1_000_000 + " w1" * 1_500
    (found,) = objects(neglm("filter", "--field", "text", stdin=jsonl([long]).encode()).stdout)
    assert (found["tokens"], found["oov_share"]) == (1_501, pytest.approx(1 / 1_501, rel=1e-4))
    (lines,) = objects(neglm("filter", "--field", "text", stdin=jsonl(["w1 w2\nw3\n"]).encode()).stdout)
    (alone,) = rows(neglm("filter", stdin=b"w1 w2").stdout)
    (other,) = rows(neglm("filter", stdin=b"w3").stdout)
    expected = (math.log(float(alone[0])) * 3 + math.log(float(other[0])) * 2) / 5
    assert math.log(lines["perplexity"]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.usefixtures("model")
def test_options_that_do_not_fit(neglm: Neglm) -> None:
    Path("lines").write_text("w1\n")
    assert "--keep 5 is not a range" in sentence(neglm("filter", "-q", "lines", "--keep", "5", code=2).stderr)
    assert "--resume is for runs with an --output file" in sentence(
        neglm("filter", "-q", "lines", "--resume", code=2).stderr
    )
    assert "one of the inputs" in sentence(
        neglm("filter", "-m", "model.safetensors", "lines", "-o", "lines", code=2).stderr
    )
    assert "--skip-bad is for JSONL" in sentence(neglm("filter", "-q", "lines", "--skip-bad", code=2).stderr)
    result = neglm("filter", "nowhere.txt", stdin=b"", code=1)
    assert "nowhere.txt does not exist" in sentence(result.stderr)
    result = neglm("filter", "-m", "model.safetensors", "lines", "-o", "out", "--resume", code=1)
    assert "there is nothing to resume: out.partial does not exist" in sentence(result.stderr)


@pytest.mark.usefixtures("model")
def test_a_killed_run_resumes(neglm: Neglm) -> None:
    Path("lines").write_text("".join(f"{line}\n" for line in LINES * 100))
    asked = ["filter", "-m", "model.safetensors", "lines", "--keep", "..90%", "-o"]
    neglm(*asked, "whole")
    killed = subprocess.run(
        cut_short(signal.SIGKILL, "neglm_cli.lm.filter_scores:PartialScores.append", "3", *asked, "out"),
        env=users_environment(), capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not Path("out").exists()
    with open("out.partial", "ab") as file:
        file.write(b"half a score")
    lines = Path("lines").read_bytes()
    with open("lines", "r+b") as changed:  # a byte between the samples of `provenance.sample`
        changed.seek(len(lines) // 2)
        changed.write(b"x")
    assert "is not of this run" in sentence(neglm(*asked, "out", "--resume", code=1).stderr)
    Path("lines").write_bytes(lines)
    again = neglm(*asked, "out", "--resume")
    assert b"2,048 records have been scored before" in again.stderr
    assert Path("out").read_bytes() == Path("whole").read_bytes()
    assert not Path("out.partial").exists()


@pytest.mark.usefixtures("model")
def test_scores_of_another_run_are_not_resumed(neglm: Neglm) -> None:
    Path("lines").write_text("w1\n")
    asked = ["filter", "-m", "model.safetensors", "lines", "-o", "out"]
    Path("out.partial").write_bytes(b'{"files": []}\n')
    assert "out.partial is not of this run" in sentence(neglm(*asked, "--resume", code=1).stderr)
    assert b"out.partial, of a run that was stopped, is replaced" in neglm(*asked).stderr
    assert not Path("out.partial").exists()
