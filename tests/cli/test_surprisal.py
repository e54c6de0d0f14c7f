"""`neglm score --surprisal` on the command line."""

import csv
import io
import json
import math
from pathlib import Path

import pytest

from neglm_cli.lm.model import LanguageModel
from tests.cli.test_score import model, rows, trained  # noqa: F401
from tests.cli.test_train_lm import sentence
from tests.conftest import Neglm

COLUMNS = ["word", "sentid", "sentpos", "wlen", "surp", "entropy", "entred", "freq", "oov"]
TEXT = "w1 w2 w3\n\nw2 naïve w1\n"


def test_columns(neglm: Neglm, model: LanguageModel) -> None:  # noqa: F811
    header, *table = rows(neglm("score", "--surprisal", "tsv", stdin=TEXT.encode()).stdout)
    assert header == COLUMNS
    assert [row[:4] for row in table] == [
        ["w1", "0", "0", "2"], ["w2", "0", "1", "2"], ["w3", "0", "2", "2"],
        ["w2", "2", "0", "2"], ["naïve", "2", "1", "5"], ["w1", "2", "2", "2"],
    ]  # fmt: skip
    assert [row[8] for row in table] == ["0", "0", "0", "0", "1", "0"]
    counts = [str(model.words.counts[model.words.id(row[0].encode())]) for row in table]
    assert [row[7] for row in table] == [*counts[:4], "0", counts[5]]
    by_word = [row for row in rows(neglm("score", "--per-word", stdin=TEXT.encode()).stdout) if len(row) > 1]
    expected = [-float(row[2]) / math.log10(2) for row in by_word if row[0] != "<eos>"]
    assert [float(row[4]) for row in table] == pytest.approx(expected, abs=1e-4)
    entropy = [float(row[5]) for row in table]
    assert entropy[0] == pytest.approx(entropy[3], abs=1e-4)  # both start a line
    assert [float(row[6]) for row in table[:2]] == pytest.approx(
        [max(0.0, entropy[0] - entropy[1]), max(0.0, entropy[1] - entropy[2])], abs=1e-4
    )
    everything = json.loads(neglm("next", "--top", "100000", "--json", "--after", "w1").stdout)["next"]
    shares = [entry["probability"] for entry in everything if entry["probability"] > 0]
    assert entropy[1] == pytest.approx(-sum(share * math.log2(share) for share in shares), abs=2e-3)


@pytest.mark.usefixtures("model")
def test_tables_agree(neglm: Neglm) -> None:
    text = b'w1 " "w2" w3,w4\n'
    tsv, in_csv = (neglm("score", "--surprisal", form, stdin=text).stdout.decode() for form in ("tsv", "csv"))
    header, *table = list(csv.reader(io.StringIO(tsv), delimiter="\t"))
    assert list(csv.reader(io.StringIO(in_csv))) == [header, *table]
    assert [row[0] for row in table] == text.decode().split()
    for options in (["--surprisal", "json"], ["--surprisal", "tsv", "--json"]):
        objects = [json.loads(line) for line in neglm("score", *options, stdin=text).stdout.splitlines()]
        assert [list(each) for each in objects] == [header] * 4
        assert [each["surp"] for each in objects] == pytest.approx([float(row[4]) for row in table])


@pytest.mark.usefixtures("model")
def test_bytes_that_are_not_utf8(neglm: Neglm) -> None:
    text = b"w1 \xff\xfea\n"
    for form in ("tsv", "csv"):
        table = neglm("score", "--surprisal", form, stdin=text).stdout.splitlines()
        assert table[2].replace(b",", b"\t").split(b"\t")[:4] == [b"\xff\xfea", b"0", b"1", b"3"]
    last = json.loads(neglm("score", "--surprisal", "json", stdin=text).stdout.splitlines()[1])
    assert (last["word"], last["wlen"]) == ("\\xff\\xfea", 3)


@pytest.mark.usefixtures("model")
def test_regions_are_sums(neglm: Neglm) -> None:
    words = rows(neglm("score", "--surprisal", "tsv", stdin=b"w1 w2 w3 nowhere\n").stdout)[1:]
    header, first, second = rows(
        neglm("score", "--surprisal", "tsv", "--regions", stdin=b"w1\t\tw2 w3 nowhere\n").stdout
    )
    assert header == ["text", "sentid", "region", "tokens", *COLUMNS[3:]]
    assert (first[:4], second[:4]) == (["w1", "0", "0", "1"], ["w2 w3 nowhere", "0", "2", "3"])
    assert first[5:] == words[0][4:]
    for column in (4, 6):
        total = sum(float(row[column]) for row in words[1:])
        assert float(second[column + 1]) == pytest.approx(total, abs=1e-4)
    assert second[6] == words[1][5]
    assert second[8:] == ["0", "1"]


@pytest.mark.usefixtures("model")
def test_carried_and_tokenized(neglm: Neglm) -> None:
    Path("a").write_bytes(b"w1 w2\nw1 w2\n")
    alone, carried = (
        rows(neglm("score", "--surprisal", "tsv", *options, "-m", "model.safetensors", "a", "a").stdout)[1:]
        for options in ((), ("--carry",))
    )
    assert [row[1] for row in carried] == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert alone[0][4:] == alone[2][4:]
    assert carried[0][4:] == carried[4][4:]  # each file is a text
    assert carried[0][4:] != carried[2][4:]
    per_word = [row for row in rows(neglm("score", "--carry", "--per-word", "a").stdout) if len(row) > 1]
    expected = [-float(row[2]) / math.log10(2) for row in per_word if row[0] != "<eos>"]
    assert [float(row[4]) for row in carried[:4]] == pytest.approx(expected, abs=1e-4)
    tokens = rows(neglm("score", "--surprisal", "tsv", "--tokenize", stdin=b"w, no-one's?\n").stdout)[1:]
    assert [row[0] for row in tokens] == ["w", ",", "no-one's", "?"]
    scored = rows(neglm("score", "--tokenize", stdin=b"w, no-one's?\n").stdout)
    assert scored[0][1:] == ["4", "4"]


@pytest.mark.usefixtures("model")
def test_options_that_do_not_fit(neglm: Neglm) -> None:
    for options, word in (
        (["--surprisal", "tsv", "--unnormalized"], "--unnormalized"),
        (["--surprisal", "tsv", "--nbest", "tab"], "--nbest"),
        (["--surprisal", "tsv", "--per-word"], "--per-word is not for --surprisal"),
        (["--regions"], "--regions is for --surprisal"),
        (["--nbest", "tab", "--tokenize"], "--tokenize is not for n-best lists"),
    ):
        assert word in sentence(neglm("score", *options, code=2).stderr)
