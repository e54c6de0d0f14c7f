"""Counts in the output of commands: singular for one, and consistent units for adjacent numbers."""

import re
from pathlib import Path

import pytest

from neglm_cli.errors import count_of
from tests.conftest import Neglm

NOUNS = "entries|epochs|words|times|contexts|dimensions|pairs|phrases|numbers|files|names|questions|trainings|runs"
TRAINED = ("--epochs", "1", "--no-cache")


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "word", "1 word"), (0, "word", "0 words"), (2000, "entry", "2,000 entries"), (2, "process", "2 processes")],
)
def test_a_count_with_its_noun(number: int, noun: str, text: str) -> None:
    assert count_of(number, noun) == text


def test_one_is_singular(neglm: Neglm) -> None:
    Path("one.txt").write_bytes(b"a a a b\n" * 20 + b"rare\n")
    Path("pair.tsv").write_bytes(b"a\tb\t5\n")
    Path("known.tsv").write_bytes(b"a\tb\t5\n")
    Path("known.txt").write_bytes(b": one\na b a b\n")
    said = ""
    for arguments in (
        ("vocab", "one.txt", "--min-count", "2"),
        ("embed", "--size", "1", "--min-count", "1", *TRAINED),
        ("export", "-o", "vectors.txt", "--max-vocab", "1"),
        ("import", "vectors.txt", "-o", "one.safetensors"),
        ("eval", "--similarity", "known.tsv", "--analogy", "known.txt"),
        ("plot", "vectors.safetensors", "--max-vocab", "1"),
        ("embed", "--pairs", "pair.tsv", "--size", "1", *TRAINED, "-o", "pairs.safetensors"),
        ("pmi", "pairs.safetensors"),
        ("plot", "--pmi", "pairs.safetensors"),
        ("phrases", "one.txt", "--min-count", "1", "-o", "joined.txt"),
        ("train-lm", "--hidden", "2", "--batch", "2", *TRAINED),
        ("eval", "model.safetensors", "--test", "one.txt"),
    ):
        result = neglm(*arguments)
        said += (result.stdout + result.stderr).decode()
    assert not re.findall(rf"(?<![\d,.])1 (?:{NOUNS})\b", said)
    assert (
        len(re.findall(r"(?<![\d,.])1 (?:epoch|word|time|context|dimension|pair|phrase|number|question)\b", said)) > 15
    )


def test_entries_of_a_vocabulary_and_words_of_a_text_are_told_apart(neglm: Neglm) -> None:
    Path("one.txt").write_bytes(b"a b c\n")
    first, *rows = neglm("vocab", "one.txt").stdout.decode().splitlines()
    assert first == "vocab.safetensors: 5 entries, including <unk> and <eos>"
    assert rows[1:3] == ["  tokens          3", "  distinct words  3"]


def test_embed_says_what_it_leaves_out_of_a_vocabulary(neglm: Neglm) -> None:
    Path("some.txt").write_bytes(b"often often also\n" * 5 + b"rare\n" * 4 + b"once\n")
    neglm("vocab", "some.txt")
    small = ("--size", "4", "--sample", "0", *TRAINED)
    assert "\nleaving out 2 words below --min-count 5\n" in neglm("embed", *small).stderr.decode()
    assert "\nleaving out 1 word below --min-count 2\n" in neglm("embed", *small, "--min-count", "2").stderr.decode()
    assert "leaving out" not in neglm("embed", *small, "--min-count", "1").stderr.decode()
    Path("vocab.safetensors").unlink()
    assert "leaving out" not in neglm("embed", "some.txt", *small).stderr.decode()  # a text without a vocabulary
