"""`neglm tokenize` on the command line, and --tokenize of commands that read a sentence."""

import gzip
import json
from pathlib import Path

import pytest

import neglm_cli
from tests.cli.test_train_lm import SMALL, sentence
from tests.conftest import Neglm

RAW = "Who won?\n\nIt's 1,200.5 km (u.s.)\nno newline!"
TOKENS = "Who won ?\n\nIt's 1,200.5 km ( u . s . )\nno newline !"


@pytest.mark.usefixtures("workplace")
def test_files_pipes_and_python(neglm: Neglm) -> None:
    assert neglm("tokenize", stdin=RAW.encode()).stdout.decode() == TOKENS + "\n"
    Path("raw.txt").write_text(RAW)
    neglm("tokenize", "raw.txt", "raw.txt", "-o", "tokens.gz")
    assert gzip.decompress(Path("tokens.gz").read_bytes()).decode() == (TOKENS + "\n") * 2
    assert neglm("tokenize", "tokens.gz").stdout.decode() == (TOKENS + "\n") * 2
    assert neglm_cli.tokenize(RAW) == TOKENS
    assert neglm("tokenize", stdin=b"caf\xe9!").stdout == b"caf\xe9 !\n"


@pytest.mark.usefixtures("workplace")
def test_bad_input(neglm: Neglm) -> None:
    Path("raw.txt").write_text(RAW)
    assert "nowhere does not exist" in sentence(neglm("tokenize", "raw.txt", "nowhere", "-o", "new", code=1).stderr)
    assert not Path("new").exists()
    assert "one of the inputs" in sentence(neglm("tokenize", "raw.txt", "-o", "raw.txt", code=2).stderr)
    assert "can be read only once" in sentence(neglm("tokenize", "-", "-", code=2).stderr)


@pytest.mark.usefixtures("workplace")
def test_contexts_and_prompts(neglm: Neglm) -> None:
    Path("train.txt").write_text("Who won ?\nKim won .\n" * 20)
    neglm("train-lm", "train.txt", *SMALL)
    raw, split, tokens = (
        json.loads(neglm("next", "--after", text, *options, "--json").stdout)
        for text, options in (("Who won?", []), ("Who won?", ["--tokenize"]), ("Who won ?", []))
    )
    assert raw["oov"] == 1
    assert split == tokens
    generated = neglm("generate", "--prompt", "Who won?", "--tokenize", "--lines", "1")
    assert generated.stdout.startswith(b"Who won ?")
    assert b"<unk>" not in generated.stderr
