"""Model cards: README.md of a folder for the Hugging Face Hub."""

from collections.abc import Iterable, Mapping
from typing import Any

from neglm_cli import __version__
from neglm_cli.errors import visible

LANGUAGE_MODEL_USE = """
    pip install neglm
    neglm eval {name} --test test.txt
    neglm score {name} < sentences.txt
    neglm generate {name} --prompt 'the market'

In Python:

    import neglm_cli
    model = neglm_cli.load("{name}")
    model.score("the market rose"), model.next("the market"), model.generate("the market")

`tokenizer.json` is for the package `tokenizers`: words are separated by white space, and `<eos>` is the end of a line.
"""
VECTORS_USE = """
    pip install neglm
    neglm nearest king --vectors {name}

In Python, with any of these packages:

    neglm_cli.load("{name}")["king"]
    staticvectors.StaticVectors("{name}").embeddings("king")
    model2vec.StaticModel.from_pretrained("{name}").encode("king")
    sentence_transformers.SentenceTransformer("{name}").encode("king")
"""


def card(name: str, front: Mapping[str, Any], description: str, use: str, sections: Mapping[str, list[str]]) -> str:
    """Return the text of a card. front: the fields that the Hub reads; sections: lines by heading, in order."""
    lines = ["---", *_yaml(front), "---", "", f"# {visible(name)}", "", description, "", "## Use"]
    lines.append(use.format(name=name).rstrip("\n"))
    for heading, text in sections.items():
        if text:
            lines += ["", f"## {heading}", "", *text]
    lines += ["", f"Made by neglm {__version__}."]
    return "\n".join(lines) + "\n"


def _yaml(front: Mapping[str, Any]) -> Iterable[str]:
    for field, value in front.items():
        if isinstance(value, list):
            yield f"{field}:"
            yield from (f"- {item}" for item in value)
        else:
            yield f"{field}: {value}"


def table(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    """Return the lines of a table; none without rows."""
    lines = [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}", *lines] if lines else []


def _cell(value: object) -> str:
    return visible(str(value)).replace("|", r"\|")
