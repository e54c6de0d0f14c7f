"""Protection of inputs from being overwritten."""

import os
from collections.abc import Iterable, Sequence

import typer

from neglm_cli.errors import shown
from neglm_cli.store.output import STANDARD_OUTPUT


def refuse_overwriting(
    outputs: Iterable[str | None], inputs: Iterable[str | None], replaceable: Iterable[str | None] = ()
) -> None:
    """Refuse outputs that are inputs of the command, or texts that its inputs were made from, under any name.

    Vocabularies, vectors, models and checkpoints record their texts, which a command may read without naming them.
    replaceable: inputs that the output may replace (the checkpoint of a resumed run), but not their texts.
    """
    written = [path for path in outputs if path and path not in STANDARD_OUTPUT]
    named = [path for path in inputs if path]
    for path in written:
        for other in named:
            if _same(path, other):
                raise typer.BadParameter(f"the output {shown(path)} is one of the inputs: name another with --output.")
    _refuse_equal(written)
    existing = [path for path in written if os.path.isfile(path)]
    if existing:  # else nothing can be lost, and nothing has to be imported
        _refuse_remembered(existing, [*named, *(path for path in replaceable if path)])


def _refuse_remembered(outputs: Sequence[str], inputs: Sequence[str]) -> None:
    from neglm_cli.text.provenance import recorded_paths

    for home in inputs:
        for text in recorded_paths(home):
            for path in outputs:
                if _same(path, text):
                    raise typer.BadParameter(
                        f"the output {shown(path)} is a text that {shown(home)} was made from: name another."
                    )


def _refuse_equal(outputs: Sequence[str]) -> None:
    for number, path in enumerate(outputs):
        for other in outputs[:number]:
            if _same(path, other):
                raise typer.BadParameter(f"the outputs {shown(other)} and {shown(path)} are the same file.")


def _same(output: str, other: str) -> bool:
    """Return True if both are the same existing file."""
    try:
        return os.path.isfile(other) and os.path.samefile(output, other)
    except OSError:  # one of them does not exist
        return False
