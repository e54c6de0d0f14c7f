import json
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.cli.commands import expand_values
from tests.conftest import Neglm, one_sentence
from tests.vectors.making import vectors_of

# Corners of a square, with simple cosines to `man`: 3/√10 for king and woman, 3/√11 for queen.
WORDS = {b"man": [0, 0, 3], b"king": [1, 0, 3], b"woman": [0, 1, 3], b"queen": [1, 1, 3], b"other": [-1, -1, 3]}
PAIRS = b"word1,word2,score\nman,king,8\nman,queen,3\nman,man,9\nman,dog,1\n"
FAMILY = b": family\nman king woman queen\nMan King Woman Queen\n"
QUESTIONS = FAMILY + b": gram1\nman king woman other\nking man queen woman\n"


@pytest.fixture
def sets(workplace: Path) -> None:
    vectors_of(WORDS).save("vectors.safetensors")
    Path("pairs").write_bytes(PAIRS)
    Path("questions").write_bytes(QUESTIONS)


def test_similarity_by_hand(neglm: Neglm, sets: None) -> None:
    report = json.loads(neglm("eval", "--similarity", "pairs", "--json").stdout)
    cosines = [3 / 10**0.5, 3 / 11**0.5, 1, 0]
    assert report == {
        "model": "vectors.safetensors",
        "vocabulary": 5,
        "test": [],
        "similarity": [
            {
                "file": "pairs",
                "pairs": 4,
                "used": 3,
                "oov": 1,
                "spearman": 1.0,
                "pearson": pytest.approx(np.corrcoef(cosines[:3], [8, 3, 9])[0, 1], abs=1e-5),
                "spearman_all": 1.0,
                "pearson_all": pytest.approx(np.corrcoef(cosines, [8, 3, 9, 1])[0, 1], abs=1e-5),
                "composed_words": 0,
            }
        ],
        "analogy": [],
        "minimal_pairs": [],
    }


def test_similarity_as_text(neglm: Neglm, sets: None) -> None:
    lines = neglm("eval", "--similarity", "pairs").stdout.decode().splitlines()
    assert lines[0] == "vectors.safetensors: 5 words"
    assert lines[2] == "pairs: 4 pairs, 3 used, 1 skipped (OOV)"
    assert lines[4].split() == ["Spearman", "1.0000", "1.0000"]
    assert lines[5].split()[0] == "Pearson"


def test_analogies_by_hand(neglm: Neglm, sets: None) -> None:
    (result,) = json.loads(neglm("eval", "--analogy", "questions", "--json").stdout)["analogy"]
    half = {"correct": 1, "accuracy": 1.0, "accuracy_all": 0.5}
    family = {"questions": 2, "used": 1, "oov": 1, "add": half, "mul": half}
    wrong = {"correct": 1, "accuracy": 0.5, "accuracy_all": 0.5}
    gram = {"questions": 2, "used": 2, "oov": 0, "add": wrong, "mul": wrong}
    all_ = {"correct": 2, "accuracy": pytest.approx(2 / 3, abs=1e-6), "accuracy_all": 0.5}
    assert result == {
        "file": "questions",
        "composed_words": 0,
        "sections": [
            {"name": "family", "kind": "semantic"} | family,
            {"name": "gram1", "kind": "syntactic"} | gram,
        ],
        "semantic": family,
        "syntactic": gram,
        "total": {"questions": 4, "used": 3, "oov": 1, "add": all_, "mul": all_},
    }


def test_analogies_as_text(neglm: Neglm, sets: None) -> None:
    output = neglm("eval", "--analogy", "questions").stdout.decode()
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.startswith("  ") and line.split()}
    assert "questions: 4 questions, 3 used, 1 skipped (OOV)" in output
    assert rows["used"] == ["OOV", "3CosAdd", "3CosMul", "3CosAdd", "3CosMul"]
    assert rows["family"] == ["1", "1", "100.00%", "100.00%", "50.00%", "50.00%"]
    assert rows["semantic"] == rows["family"]
    assert rows["syntactic"] == rows["gram1"] == ["2", "0", "50.00%", "50.00%", "50.00%", "50.00%"]
    assert rows["total"] == ["3", "1", "66.67%", "66.67%", "50.00%", "50.00%"]
    output = neglm("eval", "--analogy", "questions", "--method", "mul").stdout.decode()
    assert "3CosAdd" not in output
    assert "3CosMul" in output


def test_case(neglm: Neglm, sets: None) -> None:
    stderr = neglm("eval", "--analogy", "questions").stderr.decode().splitlines()[-1]
    assert stderr == "questions: 1 of 4 are OOV because of upper case: use --fold-case"
    result = neglm("eval", "--analogy", "questions", "--fold-case", "--json")
    assert b"fold-case" not in result.stderr
    family = json.loads(result.stdout)["analogy"][0]["semantic"]
    assert (family["used"], family["oov"], family["add"]["correct"]) == (2, 0, 2)


def test_max_vocab(neglm: Neglm, sets: None) -> None:
    report = json.loads(
        neglm("eval", "--similarity", "pairs", "--analogy", "questions", "--max-vocab", "4", "--json").stdout
    )
    assert report["vocabulary"] == 4
    assert report["analogy"][0]["total"]["used"] == 2
    assert report["similarity"][0]["used"] == 3


def test_where_all_is_unknown(neglm: Neglm, sets: None) -> None:
    Path("strange").write_bytes(b"x y 1\nx z 2\n")
    Path("stranger").write_bytes(b"x y z w\n")
    arguments = ("eval", "--similarity", "strange", "--analogy", "stranger")
    report = json.loads(neglm(*arguments, "--json").stdout)
    assert report["similarity"][0]["spearman"] is None
    assert report["analogy"][0]["total"]["add"] == {"correct": 0, "accuracy": None, "accuracy_all": 0.0}
    rows = [line.split() for line in neglm(*arguments).stdout.decode().splitlines()]
    assert ["Spearman", "–", "–"] in rows
    assert ["total", "0", "1", "–", "–", "0.00%", "0.00%"] in rows


def test_several_files_after_one_option(neglm: Neglm, sets: None) -> None:
    Path("more").write_bytes(PAIRS)
    Path("vectors.safetensors").rename("others")
    arguments = ("eval", "others", "--similarity", "pairs", "more", "--analogy", "questions", "questions", "--json")
    report = json.loads(neglm(*arguments).stdout)
    assert [each["file"] for each in report["similarity"]] == ["pairs", "more"]
    assert [each["file"] for each in report["analogy"]] == ["questions", "questions"]
    assert report["model"] == "others"
    report = json.loads(neglm("eval", "--json", "--similarity", "-", "--", "others", stdin=PAIRS).stdout)
    assert report["similarity"][0]["used"] == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("v --s a b", "v --s a --s b"),
        ("--s a b --t c - d -q e", "--s a --s b --t c --t - --t d -q e"),
        ("--s=a b c", "--s=a --s b --s c"),
        ("--s a -- b c", "--s a -- b c"),
        ("--s", "--s"),
        ("--s --t a", "--s --t a"),
        ("--other a b", "--other a b"),
        ("--s a --s b c", "--s a --s b --s c"),
    ],
)
def test_spreading(arguments: str, expected: str) -> None:
    assert expand_values(arguments.split(), ("--s", "--t")) == expected.split()


def test_help_shows_that_options_take_several(neglm: Neglm) -> None:
    output = neglm("eval", "--help", COLUMNS="100").stdout.decode()
    assert "neglm eval [MODEL] [OPTIONS]" in output
    assert output.count("FILE...") == 4


def test_what_is_wrong(neglm: Neglm, sets: None) -> None:
    assert "test sets with --similarity, --analogy or --minimal-pairs" in one_sentence(neglm("eval", code=2).stderr)
    assert "needs a value" in one_sentence(neglm("eval", "--similarity", code=2).stderr)
    assert "only once" in one_sentence(neglm("eval", "-", "--similarity", "-", code=2).stderr)
    Path("empty").touch()
    Path("bad").write_bytes(b"a b 1\na b\n")
    for arguments, message in (
        (("--similarity", "nothing"), "nothing does not exist"),
        (("--similarity", "empty"), "empty is empty: nothing to evaluate"),
        (("--analogy", "empty"), "empty is empty: nothing to evaluate"),
        (("--similarity", "pairs", "bad"), "bad, line 2: expected two words and a score"),
        (("--analogy", "bad"), "bad, line 1: expected four words, or a colon and the name of a section"),
        (("--similarity", "pairs", "vectors.safetensors"), "VECTORS comes before the options"),
    ):
        result = neglm("eval", *arguments, code=1)
        assert message in one_sentence(result.stderr)
        assert result.stdout == b""
    assert "pairs is not a neglm file" in one_sentence(neglm("eval", "pairs", "--analogy", "questions", code=1).stderr)
