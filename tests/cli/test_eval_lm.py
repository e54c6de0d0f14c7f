"""`neglm eval --test` on the command line."""

import json
import math
from pathlib import Path

import pytest

from neglm_cli.lm.model import LanguageModel
from tests.cli.test_train_lm import SMALL, sentence
from tests.conftest import Neglm, only_text
from tests.sgns.making import some_text


@pytest.fixture
def model(workplace: Path, neglm: Neglm) -> Path:
    (workplace / "corpus.txt").write_bytes(some_text(2000))
    neglm("train-lm", "corpus.txt", *SMALL)
    (workplace / "test.txt").write_bytes(some_text(300) + b"nowhere <unk> nothing\n")
    return workplace / "model.safetensors"


def test_all_figures(neglm: Neglm, model: Path) -> None:
    report = json.loads(neglm("eval", "--test", "test.txt", "--json").stdout)
    assert (report["model"], report["similarity"], report["analogy"]) == ("model.safetensors", [], [])
    assert report["vocabulary"] == len(LanguageModel.load("model.safetensors").words)
    (result,) = report["test"]
    text = Path("test.txt").read_bytes()
    assert result["tokens"] == len(text.split())
    assert result["lines"] == text.count(b"\n")
    assert result["oov"] == 2  # a literal <unk> in the text is in the vocabulary
    assert result["bytes"] == len(text)
    tokens = result["tokens"] + result["lines"]
    assert result["bits_per_word"] == pytest.approx(math.log2(result["perplexity"]), rel=1e-6)
    assert result["bits_per_byte"] == pytest.approx(result["bits_per_word"] * tokens / len(text), rel=1e-5)
    unnormalized = math.log(result["perplexity"]) - result["log_z_mean"]
    assert math.log(result["unnormalized_perplexity"]) == pytest.approx(unnormalized, rel=1e-5)
    for name in ("perplexity_without_oov", "log_z_std", "unigram_perplexity"):
        assert result[name] > 0


def test_the_unigram_model_is_that_of_the_counts(neglm: Neglm, model: Path) -> None:
    words = LanguageModel.load("model.safetensors").words
    total = words.counts.sum()
    sum_of_logs = 0.0
    tokens = Path("test.txt").read_bytes().replace(b"\n", b" <eos> ").split()
    for word in tokens:
        known = words.id(word) if words.id(word) >= 0 else words.id(b"<unk>")
        sum_of_logs += math.log(words.counts[known] / total)
    result = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)
    assert result["unigram_perplexity"] == pytest.approx(math.exp(-sum_of_logs / len(tokens)), rel=1e-6)


def test_lines_add_up_and_files_stand_alone(neglm: Neglm, model: Path) -> None:
    whole = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)
    rows = neglm("eval", "--test", "test.txt", "--per-line").stdout.decode().splitlines()
    assert len(rows) == whole["lines"]
    fields = [row.split("\t") for row in rows]
    assert sum(float(row[0]) for row in fields) == pytest.approx(whole["log10_probability"], rel=1e-5)
    assert [sum(int(row[i]) for row in fields) for i in (2, 3)] == [whole["tokens"], whole["oov"]]
    both = json.loads(neglm("eval", "model.safetensors", "--test", "test.txt", "corpus.txt", "--json").stdout)["test"]
    assert [entry["file"] for entry in both] == ["test.txt", "corpus.txt"]
    assert both[0]["perplexity"] == whole["perplexity"]
    piped = only_text(neglm("eval", "--test", "-", "--json", stdin=Path("test.txt").read_bytes()).stdout)
    assert piped["perplexity"] == whole["perplexity"]
    lines = neglm("eval", "--test", "test.txt", "--per-line", "--json").stdout.splitlines()
    assert sum(json.loads(line)["log10_probability"] for line in lines) == pytest.approx(whole["log10_probability"])


def test_a_last_line_without_newline_counts(neglm: Neglm, model: Path) -> None:
    whole = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)
    Path("cut.txt").write_bytes(Path("test.txt").read_bytes().rstrip(b"\n"))
    cut = only_text(neglm("eval", "--test", "cut.txt", "--json").stdout)
    assert cut["perplexity"] == whole["perplexity"]
    assert cut["bytes"] == whole["bytes"] - 1


def test_a_text_of_unknown_words_is_evaluated_with_a_note(neglm: Neglm, model: Path) -> None:
    Path("foreign.txt").write_bytes(b"lorem ipsum\n")
    result = neglm("eval", "--test", "foreign.txt", "--json")
    assert b"all words of foreign.txt are out of the vocabulary" in result.stderr
    assert only_text(result.stdout)["oov"] == 2


def test_threads_make_no_difference_to_speak_of(neglm: Neglm, model: Path) -> None:
    one, three = (
        only_text(neglm("eval", "--test", "test.txt", "--json", "--threads", threads).stdout) for threads in "13"
    )
    assert one["perplexity"] == pytest.approx(three["perplexity"], rel=1e-5)


def test_bad_input_is_one_sentence(neglm: Neglm, model: Path) -> None:
    neglm("vocab", "corpus.txt", "--quiet")
    neglm("embed", "corpus.txt", "--size", "4", "--epochs", "1", "--no-cache", "--quiet")
    Path("foreign.txt").write_bytes(b"lorem ipsum\n")
    Path("empty.txt").write_bytes(b"")
    bad: list[tuple[tuple[str, ...], str]] = [
        (
            ("vocab.safetensors", "--test", "test.txt"),
            "contains a vocabulary; expected a language model",
        ),
        (
            ("vectors.safetensors", "--test", "test.txt"),
            "contains word vectors; expected a language model",
        ),
        (("none.safetensors", "--test", "test.txt"), "none.safetensors does not exist"),
        (("--test", "none.txt"), "none.txt does not exist"),
        (("--test", "empty.txt"), "empty.txt is empty"),
        (("model.safetensors", "--similarity", "test.txt"), ""),
    ]
    for arguments, part in bad:
        assert part in sentence(neglm("eval", *arguments, code=1).stderr)
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("--test", "test.txt", "--similarity", "test.txt"), "--test is for language models"),
        (("--per-line", "--similarity", "test.txt"), "--per-line is for --test"),
        (("--test", "-", "-"), "standard input"),
        ((), "nothing to evaluate on"),
        (("--test", "test.txt", "--fold-case"), "--fold-case"),
    ]
    for arguments, part in wrong:
        assert part in sentence(neglm("eval", *arguments, code=2).stderr)
