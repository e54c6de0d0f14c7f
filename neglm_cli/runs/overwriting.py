"""Checks that no output replaces an input."""

import os
from collections.abc import Iterable, Sequence

from neglm_cli.errors import UsageError, shown
from neglm_cli.store.folder import file_of
from neglm_cli.store.output import STANDARD_OUTPUT


def refuse_overwriting(
    outputs: Iterable[str | None], inputs: Iterable[str | None], replaceable: Iterable[str | None] = ()
) -> None:
    """Raise if an output is an input, or a text that an input was made from, under any name.

    Vocabularies, vectors, models and checkpoints record their texts, which a command may read although they are
    not named. replaceable: inputs that an output may replace (the checkpoint of a resumed run), unlike their texts.
    """
    written = [path for path in outputs if path and path not in STANDARD_OUTPUT]
    named = [file_of(path) for path in inputs if path]
    for path in written:
        for other in named:
            if _same(path, other):
                raise UsageError(f"the output {shown(path)} is one of the inputs: name another output.")
    _refuse_equal(written)
    existing = [path for path in written if os.path.isfile(path)]
    if existing:  # else nothing can be lost
        _refuse_remembered(existing, [*named, *(path for path in replaceable if path)])


def _refuse_remembered(outputs: Sequence[str], inputs: Sequence[str]) -> None:
    from neglm_cli.text.provenance import recorded_paths

    for recorded_in in inputs:
        for text in recorded_paths(recorded_in):
            for path in outputs:
                if _same(path, text):
                    raise UsageError(
                        f"the output {shown(path)} is a text that {shown(recorded_in)} was made from: name another."
                    )


def _refuse_equal(outputs: Sequence[str]) -> None:
    for number, path in enumerate(outputs):
        for other in outputs[:number]:
            if _same(path, other):
                raise UsageError(f"the outputs {shown(other)} and {shown(path)} are the same file.")


def _same(output: str, other: str) -> bool:
    """Return True if writing to one path would change the other, which is a file."""
    try:
        return os.path.isfile(other) and os.path.samefile(output, other)
    except OSError:  # one of them does not exist
        return False
