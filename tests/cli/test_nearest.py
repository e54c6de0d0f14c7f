import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.vectors.vectors import Vectors
from tests.conftest import COMMAND, Neglm, one_sentence
from tests.vectors.making import vectors_of

WORDS = {b"east": [2, 0], b"northeast": [3, 4], b"north": [0, 5], b"west": [-1, 0], b"\xff\x1b": [0, -2]}
CONTEXTS = {b"up": [0, 1], b"east": [4, 3]}
EAST = b"nearest to east, among 5 words\nnortheast\t0.6000\nnorth\t0.0000\n\xff\x1b\t0.0000\nwest\t-1.0000\n\n"


@pytest.fixture
def vectors(workplace: Path) -> Vectors:
    made = vectors_of(WORDS, CONTEXTS)
    made.save("vectors.safetensors")
    return made


def test_neighbors_by_hand(neglm: Neglm, vectors: Vectors) -> None:
    result = neglm("nearest", "east", "--quiet")
    assert result.stdout == EAST
    assert result.stderr == b""


def test_several_queries_and_several_words(neglm: Neglm, vectors: Vectors) -> None:
    """(1, 0) + (0, 1): the cosine with (0.6, 0.8) is 1.4 / √2."""
    result = neglm("nearest", "east", "east north", "--top", "1")
    assert result.stdout == (
        b"nearest to east, among 5 words\nnortheast\t0.6000\n\n"
        b"nearest to east north, among 5 words\nnortheast\t0.9899\n\n"
    )


def test_json_is_one_object_a_line(neglm: Neglm, vectors: Vectors) -> None:
    lines = neglm("nearest", "east", "west", "--top", "2", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "query": "east",
            "among": "words",
            "neighbors": [{"word": "northeast", "cosine": 0.6}, {"word": "north", "cosine": 0.0}],
        },
        {
            "query": "west",
            "among": "words",
            "neighbors": [{"word": "north", "cosine": 0.0}, {"word": "\\xff\x1b", "cosine": 0.0}],
        },
    ]


def test_contexts(neglm: Neglm, vectors: Vectors) -> None:
    assert neglm("nearest", "east", "--contexts").stdout == (
        b"nearest to east, among 2 contexts\neast\t0.8000\nup\t0.0000\n\n"
    )
    assert json.loads(neglm("nearest", "east", "--contexts", "--json").stdout)["among"] == "contexts"
    vectors_of(WORDS).save("vectors.safetensors")
    sentence = one_sentence(neglm("nearest", "east", "--contexts", code=1).stderr)
    assert sentence == "neglm: vectors.safetensors has no context vectors: leave out --contexts"


def test_lines_of_standard_input(neglm: Neglm, vectors: Vectors) -> None:
    """A query without an answer still ends with an empty line, as a delimiter."""
    result = neglm("nearest", stdin=b"east\nsouth\n\n  east north \r\nwest", code=1)
    answers = result.stdout.split(b"\n\n")
    assert answers[0] + b"\n\n" == EAST
    assert result.stdout.startswith(EAST + b"\n\nnearest to east north, among 5 words\nnortheast\t0.9899\n")
    assert b"nearest to west, among 5 words\n" in result.stdout
    assert result.stderr.decode().splitlines()[-2:] == [
        "neglm: `south` is not in the vocabulary of vectors.safetensors",
        "neglm: the query is empty: give one word or more",
    ]
    objects = neglm("nearest", "--json", stdin=b"south\neast\n", code=1).stdout.splitlines()
    assert json.loads(objects[0]) == {
        "query": "south",
        "error": "`south` is not in the vocabulary of vectors.safetensors",
    }
    assert json.loads(objects[1])["query"] == "east"
    assert neglm("nearest", stdin=b"").stdout == b""


def buffered() -> dict[str, str]:
    """Return an environment in which Python buffers output until it is flushed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_each_line_is_answered_before_the_next_is_sent(neglm: Neglm, vectors: Vectors, form: list[str]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "nearest", *form], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=buffered()
    )
    assert process.stdin
    assert process.stdout
    for word in (b"east", b"west", b"north"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        if form:
            assert json.loads(process.stdout.readline())["query"] == word.decode()
        else:
            assert process.stdout.readline() == b"nearest to %b, among 5 words\n" % word
            while process.stdout.readline() != b"\n":
                pass
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait() == 0


def test_a_reader_that_has_enough(neglm: Neglm, vectors: Vectors) -> None:
    neglm("nearest", "east")  # compile kernels
    process = subprocess.Popen(
        [*COMMAND, "nearest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(b"east\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"east\n" * 3)
    process.stdin.close()
    assert process.wait() == 0
    assert process.stderr.read() == b""


def test_unknown_words_on_the_command_line(neglm: Neglm, vectors: Vectors) -> None:
    """Other queries are still answered, as from standard input; only the exit code shows the failure."""
    result = neglm("nearest", "south", "east", code=1)
    assert result.stdout == b"\n" + EAST
    assert one_sentence(result.stderr) == "neglm: `south` is not in the vocabulary of vectors.safetensors"
    failed, found = neglm("nearest", "East", "east", "--json", code=1).stdout.splitlines()
    message = "`East` is not in the vocabulary of vectors.safetensors, but `east` is"
    assert json.loads(failed) == {"query": "East", "error": message}
    assert json.loads(found)["query"] == "east"
    assert "the query is empty" in one_sentence(neglm("nearest", "", code=1).stderr)


def test_odd_bytes_go_in_and_out(neglm: Neglm, vectors: Vectors) -> None:
    expected = b"nearest to \xff\x1b, among 5 words\neast\t0.0000\n\n"
    assert neglm("nearest", os.fsdecode(b"\xff\x1b"), "--top", "1").stdout == expected
    assert neglm("nearest", "--top", "1", stdin=b"\xff\x1b\n").stdout == expected
    assert neglm("nearest", "--top", "1", stdin=b"\xff\x1b\n", PYTHONIOENCODING="ascii").stdout == expected
    assert "`\\xfe` is not in" in one_sentence(neglm("nearest", os.fsdecode(b"\xfe"), code=1).stderr)


def test_a_word_with_a_blank_in_it(neglm: Neglm, workplace: Path) -> None:
    vectors_of({b"new york": [1, 0], b"new": [0, 1], b"york": [0, 1], b"other": [1, 1]}).save("vectors.safetensors")
    assert b"nearest to new york, among 4 words\nother\t0.7071\nnew\t0.0000\n" in neglm("nearest", "new york").stdout


def test_on_a_terminal_columns_are_aligned_and_control_characters_shown(neglm: Neglm, vectors: Vectors) -> None:
    neglm("nearest", "east")
    ours, theirs = pty.openpty()
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        [*COMMAND, "nearest"], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment
    )
    os.close(theirs)
    os.write(ours, b"east\n\x04")
    assert process.stderr
    assert process.stderr.read() == b"word> word> \n"
    assert process.wait() == 0
    shown = b""
    with suppress(OSError):  # at end of output: the other end is closed
        while data := os.read(ours, 10_000):
            shown += data
    shown = shown.replace(b"\r\n", b"\n")
    assert b"\nnortheast\t0.6000\n" in shown
    assert b"\nnorth    \t0.0000\n" in shown
    assert b"\n\\xff\\x1b \t0.0000\n" in shown


def test_the_prompt_is_for_terminals_only(neglm: Neglm, vectors: Vectors) -> None:
    assert b">" not in neglm("nearest", stdin=b"east\n").stderr


def test_standard_input_cannot_be_both(neglm: Neglm, vectors: Vectors) -> None:
    whole = Path("vectors.safetensors").read_bytes()
    assert "give the queries as arguments" in one_sentence(neglm("nearest", "--vectors", "-", code=2).stderr)
    assert neglm("nearest", "east", "--vectors", "-", stdin=whole).stdout == EAST


def test_vectors_that_are_none(neglm: Neglm, vectors: Vectors) -> None:
    vectors.vectors[2, 0] = np.nan
    vectors.save("vectors.safetensors")
    assert "vectors.safetensors is damaged: tensor `vectors` contains NaN" in one_sentence(
        neglm("nearest", "east", code=1).stderr
    )
    assert "nothing does not exist" in one_sentence(neglm("nearest", "east", "--vectors", "nothing", code=1).stderr)
