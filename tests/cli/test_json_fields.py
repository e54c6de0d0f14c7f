"""JSON of all commands: a field has one name, one type and one meaning."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from neglm_cli.cli.app import SUBCOMMANDS
from tests.conftest import Neglm
from tests.sgns.making import some_text

TINY = "--hidden 4 --batch 2 --bptt 5 --k 2 --epochs 1 --threads 1 --no-cache"
VECTORS = "--size 4 --min-count 1 --epochs 1 --threads 1 --no-cache"
COMMANDS = (  # in this order: later ones read what earlier ones wrote
    "vocab corpus.txt -o v",
    "vocab --merge v -o merged",
    "phrases corpus.txt --threshold 0 --list list.tsv",
    f"embed corpus.txt {VECTORS}",
    f"embed --pairs pairs.tsv {VECTORS} -o p",
    f"embed corpus.txt {VECTORS} --subwords 2-3 -o sub",
    "embed --pairs pairs.tsv --full-batch --size 2 -o full",
    f"train-lm corpus.txt {TINY} --dry-run",
    f"train-lm corpus.txt {TINY} --valid corpus.txt --log log",
    "eval --test corpus.txt",
    "eval --test corpus.txt pairs.tsv",
    "eval --test corpus.txt --per-line",
    "eval --test corpus.txt --adapt 0.1 --cache 20",
    "eval --similarity similar.tsv --analogy questions.txt",
    "score corpus.txt --per-word",
    "score corpus.txt --base e",
    "score model.safetensors pairs.tsv --nbest tab",
    "score corpus.txt --surprisal json",
    "score corpus.txt --surprisal json --regions",
    "eval --minimal-pairs pairs.tsv",
    "filter corpus.txt -o filtered.txt",
    "next --after w1",
    "vectors w1 somewhere -m sub",
    "nearest somewhere -m sub",
    "nearest w1 nowhere",
    "analogy w1 w2 w3",
    "pmi",
    "plot log",
    "plot vectors.safetensors",
    "plot vectors.safetensors --pmi",
    "export -o new.txt",
    "export -o new.npy",
    "import new.txt -o new",
    "export model.safetensors --pytorch pt",
    "import --pytorch pt -o again.safetensors",
    "export model.safetensors --hub hub",
    "info model.safetensors",
    "cache",
    "doctor --quick --device cpu",
)
OPAQUE = {  # names inside are not fields: of file formats (neglm-format(5)), of parts of a sum, of methods and checks
    "metadata", "tensors", "memory_bytes", "disk_bytes", "errors", "rates",
}  # fmt: skip
WITHOUT_JSON = {"generate", "tokenize"}
TYPES = {  # the decisions
    "output": str, "model": str, "file": str, "objective": str, "format": str,
    "tokens": int, "vocabulary": int, "contexts": int, "dimensions": int, "oov": int, "bytes": int, "pairs": int,
    "ranks": int, "words_per_second": int, "pairs_per_second": int,
    "loss": float, "seconds": float, "log10_probability": float, "ln_probability": float, "perplexity": float,
    "log_likelihood": float, "kl_divergence": float,
}  # fmt: skip
GONE = {"size", "unit", "per_second", "trained_on", "training_loss", "skipped", "unknown", "cut_words", "neighbours"}

Found = dict[str, dict[type, str]]  # the types of each field, each with a command that printed it


def fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all fields of nested objects."""
    if isinstance(value, list):
        for item in value:
            yield from fields(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name, item
            if name not in OPAQUE:
                yield from fields(item)


def collect(neglm: Neglm) -> Found:
    """Run all commands."""
    Path("corpus.txt").write_bytes(some_text(400))
    Path("pairs.tsv").write_bytes(b"a\tx y\nb\tx\nb\ty\n")
    Path("similar.tsv").write_bytes(b"w1\tw2\t3\nw2\tw3\t2\nw1\tw3\t1\nw1\tnowhere\t1\n")
    Path("questions.txt").write_bytes(b": all\nw1 w2 w3 w4\n")
    seen: Found = {}
    for command in COMMANDS:
        code = 1 if "nowhere" in command else 0
        output = neglm(*command.split(), "--json", code=code, NEGLM_CACHE="cache").stdout.decode()
        documents = [json.loads(output)] if output.startswith("{\n") else [*map(json.loads, output.splitlines())]
        for name, value in fields(documents):
            if value is not None:
                seen.setdefault(name, {}).setdefault(type(value), command)
    return seen


def test_every_command_is_tried() -> None:
    tried = {command.split()[0] for command in COMMANDS}
    assert tried == {page.name for page in SUBCOMMANDS} - WITHOUT_JSON


def test_fields_have_one_type(neglm: Neglm) -> None:
    seen = collect(neglm)
    assert {name: types for name, types in seen.items() if len(types) > 1} == {}
    for name, kind in TYPES.items():
        assert set(seen.get(name, {kind: ""})) == {kind}, name
    assert not GONE & set(seen)
    assert {name for name in TYPES if name not in seen} <= {"ranks"}  # only under mpirun


def test_eval_has_one_shape(neglm: Neglm) -> None:
    Path("corpus.txt").write_bytes(some_text(300))
    Path("similar.tsv").write_bytes(b"w1\tw2\t3\nw2\tw3\t2\n")
    Path("pairs.tsv").write_bytes(b"w1 w2\tw2 w1\n")
    neglm("train-lm", "corpus.txt", *TINY.split())
    shapes = [
        {name: type(value) for name, value in json.loads(neglm("eval", *command.split(), "--json").stdout).items()}
        for command in (
            "--test corpus.txt", "--test corpus.txt similar.tsv", "--test corpus.txt --test similar.tsv",
            "-m model.safetensors --similarity similar.tsv", "--similarity similar.tsv -m model.safetensors",
            "--minimal-pairs pairs.tsv",
        )
    ]  # fmt: skip
    lists = ("test", "similarity", "analogy", "minimal_pairs")
    assert shapes == [{"model": str, "vocabulary": int, **dict.fromkeys(lists, list)}] * 6
