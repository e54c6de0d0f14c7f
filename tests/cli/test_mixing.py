"""`--adapt`, `--cache`, `--interpolate` and `--tune` of `neglm eval` and `neglm score`."""

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_train_lm import SMALL
from tests.conftest import COMMAND, Neglm, one_sentence, only_text
from tests.sgns.making import some_text


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("model")
    (directory / "corpus.txt").write_bytes(some_text(2000))
    subprocess.run([*COMMAND, "train-lm", "corpus.txt", *SMALL], cwd=directory, check=True, capture_output=True)
    return (directory / "model.safetensors").read_bytes()


@pytest.fixture(autouse=True)
def files(workplace: Path, trained: bytes) -> None:
    (workplace / "model.safetensors").write_bytes(trained)
    (workplace / "test.txt").write_bytes(b"w1 w2 w3 w4 w5 nowhere\n" * 60)  # repetitive
    (workplace / "valid.txt").write_bytes(b"w3 w9 w1 w2\n" * 60)


def evaluated(neglm: Neglm, *options: str) -> dict[str, object]:
    return only_text(neglm("eval", "--test", "test.txt", "--threads", "1", "--json", *options).stdout)


def perplexity(neglm: Neglm, *options: str) -> float:
    return float(evaluated(neglm, *options)["perplexity"])  # type: ignore[arg-type]


def scores(neglm: Neglm, *options: str) -> list[float]:
    output = neglm("score", "test.txt", "--threads", "1", *options).stdout.decode()
    return [float(line.split("\t")[0]) for line in output.splitlines()]


def test_both_help_on_a_repetitive_text(neglm: Neglm) -> None:
    plain, adapted, cached = (perplexity(neglm, *options) for options in ((), ("--adapt", "0.3"), ("--cache", "100")))
    assert adapted < 0.75 * plain
    assert cached < 0.75 * plain


def test_the_report(neglm: Neglm) -> None:
    options = ["--adapt", "0.2", "--adapt-decay", "0.01", "--cache", "50", "--cache-weight", "0.25"]
    result = evaluated(neglm, *options)
    assert result["log_z_mean"] is result["unnormalized_perplexity"] is None
    found = result["test_time"]
    assert isinstance(found, dict)
    assert (found["adapt_rate"], found["adapt_decay"], found["cache_words"]) == (0.2, 0.01, 50)
    assert (found["cache_weight"], found["cache_theta"], found["ngram_weight"]) == (0.25, 1.0, None)
    assert found["model_perplexity"] == pytest.approx(perplexity(neglm, *options[:4]))
    text = neglm("eval", "--test", "test.txt", "--threads", "1", *options).stdout.decode()
    assert "adapted         rate 0.2, decay 0.01" in text
    assert "0.750 model (" in text
    assert "unnormalized" not in text
    assert evaluated(neglm)["test_time"] is None


def test_runs_are_the_same_and_texts_stand_alone(neglm: Neglm) -> None:
    options = ["--adapt", "0.2", "--cache", "50"]
    one, other = (evaluated(neglm, *options) for _ in range(2))
    assert [one[name] for name in ("perplexity", "log10_probability")] == [
        other[name] for name in ("perplexity", "log10_probability")
    ]
    done = neglm("eval", "--test", "valid.txt", "test.txt", "--threads", "1", "--json", *options)
    assert json.loads(done.stdout)["test"][1]["perplexity"] == one["perplexity"]


def test_score_agrees_with_eval(neglm: Neglm) -> None:
    options = ["--adapt", "0.2", "--cache", "50"]
    rows = neglm("eval", "--test", "test.txt", "--threads", "1", "--per-line", *options).stdout.decode().splitlines()
    assert scores(neglm, "--carry", *options) == pytest.approx([float(row.split("\t")[0]) for row in rows], abs=1e-4)
    by_line = scores(neglm, *options)
    assert by_line != pytest.approx(scores(neglm, "--carry", *options), abs=1e-4)
    assert by_line[0] == pytest.approx(scores(neglm)[0], abs=0.5)  # equal lines become likely
    assert by_line[-1] > 0.75 * by_line[0]
    unnormalized = scores(neglm, "--unnormalized", "--adapt", "0.2")
    assert unnormalized[-1] > 0.75 * unnormalized[0]


def test_the_saved_model_is_the_end_state(neglm: Neglm) -> None:
    """It goes on as the adapted model would have; the original keeps its bytes."""
    before = Path("model.safetensors").read_bytes()
    plain = perplexity(neglm)
    for command in (("eval", "--test", "test.txt"), ("score", "--carry", "test.txt")):
        neglm(*command, "--adapt", "0.3", "--save-adapted", "new.safetensors", "--threads", "1")
        found = neglm("eval", "new.safetensors", "--test", "test.txt", "--threads", "1", "--json").stdout
        assert only_text(found)["perplexity"] < 0.75 * plain
    assert Path("model.safetensors").read_bytes() == before
    Path("twice.txt").write_bytes(Path("test.txt").read_bytes() * 2)  # 420 tokens each: whole segments
    options = ["--adapt", "0.3", "--threads", "1", "--per-word"]
    twice = neglm("score", "twice.txt", *options).stdout.splitlines()
    neglm("score", "test.txt", *options, "--save-adapted", "half")
    after = neglm("score", "half", "test.txt", "--threads", "1", "--per-word").stdout.splitlines()
    for word, other in zip(after[:5], twice[480:485], strict=True):  # 8 lines of output for each; within a segment
        assert float(word.split(b"\t")[2]) == pytest.approx(float(other.split(b"\t")[2]), abs=1e-4)


def test_tuning_is_printed_and_used(neglm: Neglm) -> None:
    done = neglm("eval", "--test", "valid.txt", "--adapt", "auto", "--cache", "20", "--tune", "valid.txt", "--json")
    notes = done.stderr.decode()
    result = only_text(done.stdout)
    tried = [float(line.rpartition(" ")[2]) for line in notes.splitlines() if "perplexity" in line]
    assert len(tried) > 11
    assert result["perplexity"] == pytest.approx(min(tried[-9:]), rel=1e-4)
    assert f"--adapt {result['test_time']['adapt_rate']:g}" in notes.splitlines()[-1]
    assert notes.splitlines()[-1].startswith("chosen: --adapt ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--adapt fast", "--adapt fast is not a learning rate"),
        ("--adapt nan", "--adapt nan is not a learning rate"),
        ("--adapt auto", "--adapt auto needs a validation text, --tune FILE"),
        ("--adapt-decay 0.1", "--adapt-decay is for --adapt"),
        ("--save-adapted new", "--save-adapted is for --adapt"),
        ("--cache-weight 0.1", "--cache-weight is for --cache"),
        ("--tune valid.txt", "--tune is for --adapt, --cache and --interpolate"),
        ("--adapt 0.1 --adapt-decay 0 --tune valid.txt", "--tune has nothing to choose"),
        ("--cache 9 --cache-weight 1", "leave nothing for the model"),
        ("--adapt 0.1 --save-adapted test.txt", "the output test.txt is one of the inputs"),
        ("--adapt 0.1 --save-adapted -", "--save-adapted needs the name of a file"),
    ],
)
@pytest.mark.parametrize("command", ["eval --test", "score"])
def test_options_that_do_not_fit(neglm: Neglm, command: str, options: str, message: str) -> None:
    done = neglm(*command.split(), "test.txt", *options.split(), code=2)
    assert message in " ".join(done.stderr.decode().replace("│", " ").split())


def test_more_options_that_do_not_fit(neglm: Neglm) -> None:
    for command, message in {
        "score test.txt --cache 9 --unnormalized": "which --unnormalized does not compute",
        "score test.txt --nbest tab --adapt 0.1": "not for n-best lists",
        "eval --similarity test.txt --cache 9": "--cache is for --test",
        "eval --test test.txt valid.txt --adapt 0.1 --save-adapted new": "--save-adapted is for a single text",
    }.items():
        done = neglm(*command.split(), code=2)
        assert message in " ".join(done.stderr.decode().replace("│", " ").split())


def test_bad_input(neglm: Neglm) -> None:
    Path("empty.txt").write_bytes(b"")
    for options, message in {
        "--cache 9 --tune empty.txt": "empty",
        "--cache 9 --tune none.txt": "none.txt",
        "--adapt 0.1 --save-adapted no/where": "cannot write no/where",
    }.items():
        done = neglm("eval", "--test", "test.txt", *options.split(), code=1)
        assert message in one_sentence(done.stderr)


# --- with kenlm ---------------------------------------------------------------------------------------------


def test_without_kenlm(neglm: Neglm) -> None:
    """The fixture's environment decides whether it is there."""
    try:
        import kenlm  # noqa: F401
    except ImportError:
        done = neglm("eval", "--test", "test.txt", "--interpolate", "lm.arpa", code=1)
        assert "pip install 'neglm[kenlm]'" in done.stderr.decode()
    else:
        done = neglm("eval", "--test", "test.txt", "--interpolate", "lm.arpa", code=1)
        assert "there is no such file" in done.stderr.decode()


def test_interpolation(neglm: Neglm) -> None:
    pytest.importorskip("kenlm")
    words = "-0.9\tw1\n-0.8\tw2\n-0.9\tw3\n-0.9\tw4\n-1.0\tw5\n-1.2\t<unk>\n-0.8\t</s>\n-99\t<s>\t0\n"
    Path("lm.arpa").write_text(
        f"\\data\\\nngram 1=8\nngram 2=1\n\n\\1-grams:\n{words}\n\\2-grams:\n-0.1\tw1 w2\n\n\\end\\\n"
    )
    alone = evaluated(neglm, "--interpolate", "lm.arpa", "--interpolate-weight", "0.25")
    found = alone["test_time"]
    assert isinstance(found, dict)
    assert (found["ngram_weight"], found["ngram_model"]) == (0.25, "lm.arpa")
    assert found["model_perplexity"] == pytest.approx(perplexity(neglm))
    by_line = scores(neglm, "--carry", "--interpolate", "lm.arpa", "--interpolate-weight", "0.25")
    assert sum(by_line) == pytest.approx(alone["log10_probability"], rel=1e-4)
    tuned = evaluated(neglm, "--interpolate", "lm.arpa", "--tune", "test.txt")
    assert float(tuned["perplexity"]) <= min(perplexity(neglm), found["ngram_perplexity"]) + 1e-5  # type: ignore[arg-type]
    Path("list").write_bytes(b"x\tw1 w2\nx\tw5 w5\n")
    best = neglm("score", "model.safetensors", "list", "--nbest", "tab", "--interpolate", "lm.arpa").stdout
    assert best.count(b"\n") == 2
    assert math.isfinite(float(np.float64(best.split(b"\t")[1])))
