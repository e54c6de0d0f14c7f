import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_nearest import buffered
from tests.conftest import COMMAND, Neglm, one_sentence
from tests.vectors.making import vectors_of

WORDS = {b"man": [1, 0], b"king": [1, 1], b"woman": [0, 1], b"queen": [-3, 4], b"prince": [-1, 0]}

# b − a + c = (√½ − 1, √½ + 1), of length √3: with (−0.6, 0.8), and with (−1, 0)
ADD = b"man is to king as woman is to\nqueen\t0.8899\nprince\t0.1691\n\n"


@pytest.fixture
def vectors(workplace: Path) -> None:
    vectors_of(WORDS).save("vectors.safetensors")


def test_answers_by_hand(neglm: Neglm, vectors: None) -> None:
    result = neglm("analogy", "man", "king", "woman", "--quiet")
    assert result.stdout == ADD
    assert result.stderr == b""
    (header, first, second, *_) = neglm("analogy", "man", "king", "woman", "--method", "mul").stdout.splitlines()
    assert header == b"man is to king as woman is to"
    assert first.startswith(b"prince\t73.2")  # (1 − √½)/2 · 1/2 / 0.001: divided by ε, the rounding of float32 shows
    assert second == b"queen\t2.5554"  # (1 + 0.2 √½)/2 · 0.9 / 0.201


def test_several_questions_in_threes(neglm: Neglm, vectors: None) -> None:
    lines = neglm("analogy", *["man", "king", "woman"] * 2, "--top", "1").stdout
    assert lines == b"man is to king as woman is to\nqueen\t0.8899\n\n" * 2
    sentence = one_sentence(neglm("analogy", "man", "king", "woman", "man", code=2).stderr)
    assert one_sentence(neglm("analogy", "man", "king", code=2).stderr).startswith(
        "neglm: analogy needs three words; got 2."
    )
    assert "analogy needs three words (or six, nine and so on, for several analogies); got 4" in sentence


def test_json(neglm: Neglm, vectors: None) -> None:
    answer = json.loads(neglm("analogy", "man", "king", "woman", "--top", "1", "--json").stdout)
    assert answer == {
        "query": "man king woman",
        "method": "add",
        "answers": [{"word": "queen", "score": pytest.approx(0.889940, abs=2e-6)}],
    }


def test_arguments_that_cannot_be_answered(neglm: Neglm, vectors: None) -> None:
    asked = ["man", "king", "Woman", "man", "king", "woman"]
    result = neglm("analogy", *asked, "--quiet", code=1)
    assert result.stdout == b"\n" + ADD
    assert one_sentence(result.stderr).startswith("neglm: `Woman` is not in the vocabulary")
    objects = [json.loads(line) for line in neglm("analogy", *asked, "--json", code=1).stdout.splitlines()]
    assert [sorted(each) for each in objects] == [["error", "query"], ["answers", "method", "query"]]


def test_lines_of_standard_input(neglm: Neglm, vectors: None) -> None:
    lines = b"man king woman\nman king\nman king Woman\nman king woman\n"
    result = neglm("analogy", stdin=lines, code=1)
    assert result.stdout == ADD + b"\n\n" + ADD
    assert result.stderr.decode().splitlines()[-2:] == [
        "neglm: analogy needs three words; got 2",
        "neglm: `Woman` is not in the vocabulary of vectors.safetensors, but `woman` is",
    ]
    objects = [json.loads(line) for line in neglm("analogy", "--json", stdin=lines, code=1).stdout.splitlines()]
    assert ["error" in each for each in objects] == [False, True, True, False]
    assert objects[1] == {"query": "man king", "error": "analogy needs three words; got 2"}


def test_each_line_is_answered_before_the_next_is_sent(neglm: Neglm, vectors: None) -> None:
    process = subprocess.Popen([*COMMAND, "analogy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=buffered())
    assert process.stdin
    assert process.stdout
    for _ in range(3):
        process.stdin.write(b"man king woman\n")
        process.stdin.flush()
        assert b"".join(process.stdout.readline() for _ in range(4)) == ADD
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait() == 0


def test_a_method_that_is_none(neglm: Neglm, vectors: None) -> None:
    assert "--method" in one_sentence(neglm("analogy", "man", "king", "woman", "--method", "sub", code=2).stderr)
