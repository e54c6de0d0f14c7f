"""Options of earlier versions: each works, prints a note with its new name, and appears in no help."""

import os
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.cli.app import SUBCOMMANDS
from neglm_cli.cli.manual import subcommand_page
from neglm_cli.cli.renamed import RENAMED, renamed_options, with_new_names
from neglm_cli.settings import embed, train_lm, vocab
from tests.conftest import Neglm, one_sentence
from tests.sgns.making import some_text

SETTINGS = {"vocab": vocab.Settings, "embed": embed.Settings, "train-lm": train_lm.Settings}
OLD = {name: renamed_options(name, SETTINGS.get(name)) for name in sorted({*RENAMED, *SETTINGS})}
TINY = "--hidden 4 --batch 2 --bptt 5 --k 2 --epochs 1 --threads 1 --no-cache"
USES = {  # a command for each old option, with files from `files`
    "vocab --max-size": "vocab corpus.txt --max-size 5",
    "vocab --text": "vocab corpus.txt --text -o words.tsv",
    "vocab --word2vec": "vocab corpus.txt --word2vec -o words.tsv",
    "phrases --score": "phrases corpus.txt --score npmi",
    "embed --init": "embed corpus.txt --size 4 --min-count 1 --epochs 1 --no-cache --init vectors.safetensors -o new",
    "embed --exact": "embed --pairs pairs.tsv --exact --size 2 -o new",
    "train-lm --model": f"train-lm corpus.txt {TINY} --model new",
    "train-lm --init": f"train-lm corpus.txt {TINY} --init 0.5 -o new",
    "train-lm --init-embeddings": f"train-lm corpus.txt {TINY} --init-embeddings vectors.safetensors -o new",
    "train-lm --max-size": f"train-lm corpus.txt {TINY} --max-size 10 -o new",
    "eval --restrict": "eval --similarity similar.tsv --restrict 4",
    "score --words": "score corpus.txt --words",
    "score --unnormalised": "score corpus.txt --unnormalised",
    "generate --words": "generate --words 3",
    "plot --words": "plot vectors.safetensors --words 3",
    "plot --method": "plot vectors.safetensors --method pca",
    "export --form": "export --form text -o new.txt",
    "export --top": "export --top 2 -o new.txt",
    "export --normalise": "export --normalise -o new.txt",
    "import --form": "import vectors.txt --form text -o new",
    "import --words": "import matrix.npy --words words.txt -o new",
    "import --contexts": "import vectors.txt --contexts vectors.txt -o new",
}
BY_NEW_NAME = ("vocab --text", "train-lm --init", "generate --words", "export --top", "embed --exact")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def files(made: Path, neglm: Neglm) -> None:
    """Files that the commands read, trained once."""
    if not (made / "model.safetensors").exists():
        Path("corpus.txt").write_bytes(some_text(300))
        Path("pairs.tsv").write_bytes(b"a\tx\t3\na\ty\t1\nb\ty\t2\n")
        Path("similar.tsv").write_bytes(b"w1\tw2\t3\nw2\tw3\t2\nw1\tw3\t1\n")
        Path("vectors.txt").write_bytes(b"2 3\na 1 0 0.5\nb 0 1 1e-5\n")
        Path("words.txt").write_bytes(b"a\nb\n")
        np.save("matrix.npy", np.ones((2, 3), np.float32))
        neglm("train-lm", "corpus.txt", *TINY.split())
        neglm("embed", *["corpus.txt", "--size", "4", "--min-count", "1", "--epochs", "1", "--no-cache"])
        for name in os.listdir():
            (made / name).write_bytes(Path(name).read_bytes())
    for path in made.iterdir():
        Path(path.name).write_bytes(path.read_bytes())


def test_every_old_option_is_tried() -> None:
    assert set(USES) == {f"{command} {old}" for command, names in OLD.items() for old in names}
    assert all(f" {use.split()[1]} " in f" {command} " for use, command in USES.items())


@pytest.mark.parametrize("use", USES)
def test_old_options_work_with_a_note(neglm: Neglm, files: None, use: str) -> None:
    name, old = use.split()
    said = neglm(*USES[use].split()).stderr.decode()
    assert said.count("note: ") == 1
    assert f"note: {old} is now {OLD[name][old]}\n" in said
    assert b"note: " not in neglm(*USES[use].split(), "--quiet").stderr


@pytest.mark.parametrize("use", BY_NEW_NAME)
def test_old_options_do_what_the_new_ones_do(neglm: Neglm, files: None, use: str) -> None:
    """Standard output, and the bytes of all files."""
    name, old = use.split()
    results = []
    for option in (old, OLD[name][old]):
        command = USES[use].replace(f" {old}", f" {option}")
        output = neglm(*command.split(), "--quiet").stdout
        results.append((output, {path: Path(path).read_bytes() for path in os.listdir()}))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", OLD)
def test_old_options_are_shown_nowhere(neglm: Neglm, name: str) -> None:
    (page,) = [page for page in SUBCOMMANDS if page.name == name]
    shown = neglm(name, "--help", COLUMNS="200").stdout.decode() + subcommand_page(page).replace("\\-", "-")
    for old, new in OLD[name].items():
        own = {word.strip("[]│,.;:()'`") for word in shown.split()}
        assert new.split()[0] in own
        assert old not in own


def test_errors_come_with_the_note(neglm: Neglm) -> None:
    """The error names the new option, which the user did not type."""
    note, error = neglm("train-lm", "--init", "-1", code=2).stderr.decode().splitlines()
    assert note == "note: --init is now --init-range"
    assert error == "neglm: --init-range must be at least 0. See `neglm train-lm --help`."


def test_old_names_as_values_are_left_alone(neglm: Neglm) -> None:
    assert "--vocab does not exist" in one_sentence(neglm("vocab", "--", "--vocab", code=1).stderr)
    takes_value = {"--new": True, "--other": True, "--flag": False}
    cases = {
        "--other --old x": "--other --old x",
        "--old --old x": "--new --old x",
        "--flag --old x": "--flag --new x",
        "--old=x -- --old y": "--new=x -- --old y",
        "--short x": "--new 1 x",
        "--short=x": "--short=x",
    }
    renamed = {"--old": "--new", "--short": "--new 1"}
    for given, expected in cases.items():
        assert " ".join(with_new_names(given.split(), renamed, takes_value)[0]) == expected
    assert with_new_names(["--old", "a", "--old", "b"], renamed, takes_value)[1] == ["note: --old is now --new"]
