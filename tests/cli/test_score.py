"""`neglm score`, `generate` and `next` on the command line."""

import json
import math
import subprocess
from pathlib import Path

import pytest

from neglm_cli.lm.model import LanguageModel
from tests.cli.test_train_lm import SMALL, sentence
from tests.conftest import COMMAND, Neglm
from tests.sgns.making import some_text


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("model")
    (directory / "corpus.txt").write_bytes(some_text(2000))
    subprocess.run([*COMMAND, "train-lm", "corpus.txt", *SMALL], cwd=directory, check=True, capture_output=True)
    return (directory / "model.safetensors").read_bytes()


@pytest.fixture
def model(workplace: Path, trained: bytes) -> LanguageModel:
    (workplace / "model.safetensors").write_bytes(trained)
    return LanguageModel.load("model.safetensors")


TEXT = some_text(300) + b"\nnowhere <unk> nothing"


def rows(output: bytes) -> list[list[str]]:
    return [line.split("\t") for line in output.decode().splitlines()]


def test_carried_lines_are_those_of_eval(neglm: Neglm, model: LanguageModel) -> None:
    Path("test.txt").write_bytes(TEXT)
    found = rows(neglm("score", "model.safetensors", "test.txt", "--carry").stdout)
    expected = rows(neglm("eval", "--test", "test.txt", "--per-line").stdout)
    assert len(found) == len(TEXT.split(b"\n"))
    for mine, theirs in zip(found, expected, strict=True):
        assert float(mine[0]) == pytest.approx(float(theirs[0]), abs=2e-5)
        assert mine[1:] == theirs[2:]


def test_lines_stand_alone_and_stay_in_order(neglm: Neglm, model: LanguageModel) -> None:
    lines = TEXT.split(b"\n")
    found = rows(neglm("score", stdin=TEXT).stdout)
    assert [int(row[1]) for row in found] == [len(line.split()) for line in lines]
    assert found[-1][2] == "2"
    again = rows(neglm("score", stdin=b"\n".join([*lines[5:], *lines[:5]]) + b"\n").stdout)
    for mine, theirs in zip([*found[5:], *found[:5]], again, strict=True):
        assert float(mine[0]) == pytest.approx(float(theirs[0]), abs=1e-5)


def test_words_add_up_in_both_forms_and_bases(neglm: Neglm, model: LanguageModel) -> None:
    text = b"nowhere " + TEXT.split(b"\n")[0] + b"\n"
    (line,) = rows(neglm("score", stdin=text).stdout)
    *by_word, last, empty = rows(neglm("score", "--per-word", stdin=text).stdout)
    assert empty == [""]
    assert last[0] == "<eos>"
    assert [row[0] for row in by_word] == text.decode().split()
    assert by_word[0][1:] == [str(model.unknown), by_word[0][2], "1"]
    assert {row[3] for row in by_word[1:]} == {"0"}
    assert [row[1] for row in by_word[1:]] == [str(model.words.id(word)) for word in text.split()[1:]]
    assert sum(float(row[2]) for row in [*by_word, last]) == pytest.approx(float(line[0]), abs=1e-4)
    natural = json.loads(neglm("score", "--per-word", "--json", "--base", "e", stdin=text).stdout)
    assert natural["ln_probability"] == pytest.approx(float(line[0]) * math.log(10), rel=1e-4)
    assert [entry["oov"] for entry in natural["words"]] == [1] + [0] * len(by_word)


def test_a_partner_can_wait_for_each_answer(model: LanguageModel, neglm: Neglm) -> None:
    neglm("score", stdin=b"a\n")  # compile kernels
    with subprocess.Popen([*COMMAND, "score"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        for text in (b"a\n", b"\n", b"w1 w2 w3\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert process.stdout.readline().split(b"\t")[1] == str(len(text.split())).encode() + b""
        process.stdin.close()
        assert process.wait() == 0


def test_odd_lines(neglm: Neglm, model: LanguageModel) -> None:
    long = b"w1 " * 350_000 + b"\n"
    found = rows(neglm("score", "--unnormalized", stdin=b"\n" + long + b" \t \n").stdout)
    assert [row[1] for row in found] == ["0", "350000", "0"]
    assert found[0] == found[2]
    assert neglm("score", stdin=b"").stdout == b""


NBEST = b"one\t-1.5\tw1 w2 w3\none\t-2\tw2 w3 w1\ntwo\t0\tw1\n"


def test_nbest_lists(neglm: Neglm, model: LanguageModel) -> None:
    texts = [b"w1 w2 w3", b"w2 w3 w1", b"w1"]
    alone = [float(row[0]) for row in rows(neglm("score", stdin=b"\n".join(texts)).stdout)]
    totals = {text.decode(): score + 0.5 * own for text, score, own in zip(texts, (-1.5, -2, 0), alone, strict=True)}
    found = rows(neglm("score", "--nbest", "tab", "--weight", "0.5", stdin=NBEST).stdout)
    assert [row[0] for row in found] == ["one", "one", "two"]
    assert float(found[0][1]) >= float(found[1][1])
    for row in found:
        assert float(row[1]) == pytest.approx(totals[row[2]], abs=1e-5)
    best = rows(neglm("score", "--nbest", "tab", "--weight", "0.5", "--best", stdin=NBEST).stdout)
    assert best == [found[0], found[2]]


def test_the_other_forms(neglm: Neglm, model: LanguageModel) -> None:
    reference = rows(neglm("score", "--nbest", "tab", stdin=b"a\tw1 w2\na\tw2 w1 w2 w1\n").stdout)
    kaldi = neglm("score", "--nbest", "kaldi", stdin=b"a-1 w1 w2\na-2 w2 w1 w2 w1\n").stdout.decode().splitlines()
    assert [line.split(" ", 1)[1] for line in kaldi] == [row[2] for row in reference]
    scored = b"a-1 -9.5 w1 w2\na-2 1.25e2 w2 w1 w2 w1\nb-1 7 w1\n"
    assert neglm("score", "--nbest", "kaldi", stdin=scored).stdout == (
        b"a-2 1.25e2 w2 w1 w2 w1\na-1 -9.5 w1 w2\nb-1 7 w1\n"
    )
    first = json.loads(neglm("score", "--nbest", "kaldi", "--json", stdin=scored).stdout.splitlines()[0])
    assert first["total_score"] == pytest.approx(125 + first["log10_probability"], abs=1e-5)
    assert (first["list"], first["line"], first["list_score"]) == ("a", 2, 125)
    for mixed in (b"a-1 -35 w1\na-2 -34.5 w1\n", b"a-1 35. w1\na-2   36 w1\n", b"a-1 1e-3 w1\na-2 .5 w1\n"):
        found = [
            json.loads(line) for line in neglm("score", "--nbest", "kaldi", "--json", stdin=mixed).stdout.splitlines()
        ]
        assert [(each["line"], each["text"]) for each in found] == [(2, "w1"), (1, "w1")]
    moses = neglm("score", "--nbest", "moses", stdin=b"0 ||| w1 w2 ||| LM= 1 ||| -3\n").stdout
    (alone,) = rows(neglm("score", stdin=b"w1 w2\n").stdout)
    *fields, total = moses.decode().strip().split(" ||| ")
    assert fields == ["0", "w1 w2", "LM= 1"]
    assert float(total) == pytest.approx(-3 + float(alone[0]), abs=1e-5)


def test_bad_lists_and_models(neglm: Neglm, model: LanguageModel) -> None:
    message = sentence(neglm("score", "--nbest", "tab", stdin=b"one\tw1\nno tab\n", code=1).stderr)
    assert "line 2 of standard input is no n-best line" in message
    message = sentence(neglm("score", "--nbest", "kaldi", stdin=b"a-1 -3 w1\na-2 w1\n", code=1).stderr)
    assert "line 2 of standard input has no score, but others of its list have" in message
    for form, line in (("tab", b"one\t%b\tw1\n"), ("moses", b"0 ||| w1 ||| LM= 1 ||| %b\n")):
        for given, score in ((b"nan", "nan"), (b"-1e400", "-inf"), (b"infinity", "inf")):
            result = neglm("score", "--nbest", form, stdin=line % b"1" + line % given, code=1)
            message = sentence(result.stderr)
            assert message == f"neglm: line 2 of standard input has the score {score}: it must be finite"
    assert "--weight must be a finite" in sentence(neglm("score", "--nbest", "tab", "--weight", "nan", code=2).stderr)
    Path("text.txt").write_bytes(b"w1 w2\n")
    assert "text.txt is not a model" in sentence(neglm("score", "text.txt", "text.txt", code=1).stderr)
    neglm("vocab", "text.txt", "-o", "v.safetensors")
    assert "v.safetensors contains a vocabulary" in sentence(neglm("score", "v.safetensors", code=1).stderr)
    assert "missing.txt does not exist" in sentence(neglm("score", "model.safetensors", "missing.txt", code=1).stderr)
    assert "--nbest" in sentence(neglm("score", "--best", code=2).stderr)


def test_generating_ends_if_a_model_predicts_only_ends_of_line(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(b"a\n" + b"\n" * 500)
    neglm("train-lm", "corpus.txt", "--hidden", "3", "--epochs", "1", "--batch", "1", "--no-cache", "--threads", "1")
    assert neglm("generate", "--max-words", "3", "--temperature", "0").stdout == b"\n\n\n"


def test_generated_text(neglm: Neglm, model: LanguageModel) -> None:
    ten = neglm("generate").stdout
    assert ten.count(b"\n") == 10
    assert set(ten.split()) <= set(model.words)
    assert neglm("generate").stdout == ten
    assert neglm("generate", "--seed", "2").stdout != ten
    assert len(neglm("generate", "--max-words", "37", "--no-unk").stdout.split()) == 37
    prompted = neglm("generate", "--lines", "3", "--prompt", "w1 w2").stdout
    assert all(line.startswith(b"w1 w2") for line in prompted.splitlines())
    greedy = neglm("generate", "--lines", "1", "--max-words", "5", "--temperature", "0").stdout
    assert greedy == neglm("generate", "--lines", "1", "--max-words", "5", "--temperature", "0", "--seed", "9").stdout
    unknown = neglm("generate", "--lines", "1", "--max-words", "3", "--prompt", "zorro")
    assert b"out of vocabulary (OOV), read as <unk>: zorro" in unknown.stderr


def test_generate_ends_well_with_head(model: LanguageModel) -> None:
    command = f"{' '.join(COMMAND)} generate --max-words 100000 | head -2"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, timeout=300)
    assert result.stdout.count(b"\n") == 2
    assert b"Traceback" not in result.stderr
    assert result.returncode == 0


def test_next_words(neglm: Neglm, model: LanguageModel) -> None:
    output = neglm("next", "--top", "4", stdin=b"w1 w2\n\n").stdout.decode().split("\n")
    assert output[0] == "after w1 w2"
    assert output[6] == "after the end of a line"
    shares = [float(line.split("\t")[1]) for line in output[1:5]]
    assert shares == sorted(shares, reverse=True)
    everything = json.loads(neglm("next", "--top", "100000", "--json", "--after", "w1 w2").stdout)
    assert sum(entry["probability"] for entry in everything["next"]) == pytest.approx(1, abs=1e-3)
    word = everything["next"][0]
    scored = rows(neglm("score", "--per-word", stdin=f"w1 w2 {word['word']}\n".encode()).stdout)[2]
    assert scored[0] == word["word"]
    assert 10 ** float(scored[2]) == pytest.approx(word["probability"], rel=1e-3)


def test_a_single_file_that_is_no_model_is_a_text(neglm: Neglm, model: LanguageModel) -> None:
    Path("test.txt").write_bytes(TEXT)
    result = neglm("score", "test.txt")
    assert result.stdout == neglm("score", "model.safetensors", "test.txt").stdout
    assert result.stderr == b"test.txt is a text: read with model.safetensors\n"
    assert neglm("score", "test.txt", "--quiet").stderr == b""


@pytest.mark.parametrize("command", ["score", "filter"])
def test_a_single_dash_is_a_text(neglm: Neglm, model: LanguageModel, command: str) -> None:
    """A model and a text cannot both come from standard input."""
    assert neglm(command, "-", stdin=TEXT).stdout == neglm(command, stdin=TEXT).stdout != b""
    Path("test.txt").write_bytes(TEXT)
    piped = neglm(command, "-", "test.txt", stdin=Path("model.safetensors").read_bytes())
    assert piped.stdout == neglm(command, "test.txt").stdout


def test_a_text_in_place_of_the_model(neglm: Neglm, model: LanguageModel) -> None:
    Path("a b.txt").write_bytes(TEXT)
    Path("test.txt").write_bytes(TEXT)
    assert sentence(neglm("score", "a b.txt", "test.txt", code=1).stderr) == (
        "neglm: a b.txt is not a model: a model comes before the texts, as in "
        "`neglm score model.safetensors 'a b.txt' test.txt`"
    )
    Path("model.safetensors").unlink()
    assert sentence(neglm("score", "test.txt", code=1).stderr) == (
        "neglm: test.txt is not a model, and there is no model.safetensors here to score it with: train one with "
        "`neglm train-lm`, or name one, as in `neglm score model.safetensors test.txt`"
    )


def test_a_damaged_model_is_no_text(neglm: Neglm, model: LanguageModel) -> None:
    Path("other.safetensors").write_bytes(Path("model.safetensors").read_bytes()[:2000])
    assert "other.safetensors is cut short" in sentence(neglm("score", "other.safetensors", code=1).stderr)
