"""`neglm eval --minimal-pairs` on the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.test_score import model, rows, trained  # noqa: F401
from tests.cli.test_train_lm import SMALL, sentence
from tests.conftest import Neglm

PAIRS = [("w1 w2 w3", "w3 w2 w1"), ("w5", "w5 w4 w6 w7"), ("w2 new", "w2 other"), ("w4 ,?", "w1 ,?")]
BLIMP = [
    {"sentence_good": good, "sentence_bad": bad, "UID": f"p{i % 2}", "linguistics_term": "agreement"}
    for i, (good, bad) in enumerate(PAIRS)
]


@pytest.mark.usefixtures("model")
def test_accuracy(neglm: Neglm) -> None:
    Path("pairs.tsv").write_text("".join(f"{good}\t{bad}\n" for good, bad in PAIRS))
    Path("blimp.jsonl").write_text("".join(json.dumps(each) + "\n" for each in BLIMP))
    text = "".join(f"{sentence}\n" for pair in PAIRS for sentence in pair)
    scores = [float(row[0]) for row in rows(neglm("score", stdin=text.encode()).stdout)]
    correct = [scores[i] - scores[i + 1] > 1e-5 for i in range(0, len(scores), 2)]
    for file in ("pairs.tsv", "blimp.jsonl"):
        report = json.loads(neglm("eval", "--minimal-pairs", file, "--json").stdout)
        (result,) = report["minimal_pairs"]
        total = {name: result["total"][name] for name in ("pairs", "correct", "ties", "oov", "accuracy")}
        assert total == {"pairs": 4, "correct": sum(correct), "ties": 1, "oov": 2, "accuracy": sum(correct) / 4}
    (phenomenon,) = result["phenomena"]
    assert phenomenon["name"] == "agreement"
    assert [(each["name"], each["pairs"]) for each in phenomenon["paradigms"]] == [("p0", 2), ("p1", 2)]
    assert sum(each["correct"] for each in phenomenon["paradigms"]) == sum(correct)
    both = json.loads(neglm("eval", "--minimal-pairs", "pairs.tsv", "blimp.jsonl", "--json").stdout)
    assert both["minimal_pairs"][0]["total"]["pairs"] == 8
    table = neglm("eval", "--minimal-pairs", "blimp.jsonl").stdout.decode().splitlines()
    assert table[0] == "model.safetensors: 4 minimal pairs"
    assert [line.split()[0] for line in table[2:]] == ["agreement", "p0", "p1", "total"]


@pytest.mark.usefixtures("model")
def test_files_with_the_same_name(neglm: Neglm) -> None:
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(name, "pairs.tsv").write_text("w1\tw2 w3\n")
    both = json.loads(neglm("eval", "--minimal-pairs", "a/pairs.tsv", "b/pairs.tsv", "--json").stdout)
    phenomena = both["minimal_pairs"][0]["phenomena"]
    assert [each["name"] for each in phenomena] == ["a/pairs.tsv", "b/pairs.tsv"]


@pytest.mark.usefixtures("model")
def test_bad_input(neglm: Neglm) -> None:
    Path("one.tsv").write_text("a\tb\nonly one\n")
    message = sentence(neglm("eval", "--minimal-pairs", "one.tsv", code=1).stderr)
    assert "line 2 of one.tsv, at byte 4, is no minimal pair (it has 1 of 2 columns)" in message
    (result,) = json.loads(neglm("eval", "--minimal-pairs", "one.tsv", "--skip-bad", "--json").stdout)["minimal_pairs"]
    assert (result["bad"], result["total"]["pairs"]) == (1, 1)
    table = neglm("eval", "--minimal-pairs", "one.tsv", "--skip-bad").stdout.decode()
    assert table.startswith("model.safetensors: 1 minimal pair, 1 bad line skipped\n")
    assert "--minimal-pairs" in sentence(neglm("eval", "--test", "one.tsv", "--skip-bad", code=2).stderr)
    for options in (["--minimal-pairs", "one.tsv", "--test", "one.tsv"], ["--test", "one.tsv", "--tokenize"]):
        assert "--minimal-pairs" in sentence(neglm("eval", *options, code=2).stderr)


@pytest.mark.usefixtures("workplace")
def test_raw_sentences_are_tokenized(neglm: Neglm) -> None:
    Path("train.txt").write_text("Who won ?\nKim won .\n" * 20)
    neglm("train-lm", "train.txt", *SMALL)
    Path("pairs.tsv").write_text("Who won?\twon Who?\n")
    assert "--tokenize is for --minimal-pairs; `neglm tokenize` splits texts" in sentence(
        neglm("eval", "--test", "pairs.tsv", "--tokenize", code=2).stderr
    )
    for options, oov in (([], 1), (["--tokenize"], 0)):
        found = json.loads(neglm("eval", "--minimal-pairs", "pairs.tsv", *options, "--json").stdout)
        assert found["minimal_pairs"][0]["total"]["oov"] == oov
