"""`neglm info`: what a file is."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import OUTPUT, Debug, Json, Quiet

if TYPE_CHECKING:
    from neglm_cli.store.container import Stored

FILES = ("corpus", "validation")  # fields that list texts


@subcommand(
    "info",
    ("neglm info vocab.safetensors", "Its kind, versions, arguments and sizes; verifies its checksum."),
    ("neglm info vocab.safetensors --words | head", "The most frequent words with their counts."),
    ("neglm info vocab.safetensors --json", "The description as JSON, for scripts."),
)
def info(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file that neglm wrote; - is standard input.", show_default=False),
    ],
    words: Annotated[
        bool,
        typer.Option("--words", help="Print only the words: word TAB count lines.", rich_help_panel=OUTPUT),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what a neglm file is: its kind, versions, arguments and sizes.

    The file is read to the end and its checksum verified; a damaged file is an error.
    """
    console.announce_compiling()
    from neglm_cli.errors import NeglmError
    from neglm_cli.store import container

    stored = container.read(file)
    if words:
        if "words" not in stored.tensors:
            raise NeglmError(f"{stored.name} has no vocabulary: it is of the kind `{stored.kind}`")
        _print_words(stored, json)
    elif json:
        console.json(_description(stored))
    elif not quiet:
        console.result(_as_text(stored))


def _print_words(stored: "Stored", json: bool) -> None:
    from neglm_cli.text import wordlist
    from neglm_cli.text.vocabulary import Vocabulary

    vocabulary = Vocabulary.from_stored(stored)
    if json:
        words = (word.decode(errors="backslashreplace") for word in vocabulary)
        console.json([list(pair) for pair in zip(words, vocabulary.counts.tolist(), strict=True)])
    else:
        sys.stdout.buffer.writelines(wordlist.lines(vocabulary))
        sys.stdout.buffer.flush()


def _description(stored: "Stored") -> dict[str, Any]:
    return {
        "file": stored.name,
        "size": stored.size,
        "checksum_verified": True,
        **stored.fields,
        "tensors": {
            name: {"dtype": str(array.dtype), "shape": list(array.shape)}
            for name, array in sorted(stored.tensors.items())
        },
    }


def _as_text(stored: "Stored") -> str:
    from neglm_cli.errors import shown
    from neglm_cli.text.remembered import corpus_state, path_from

    lines = [f"{stored.name}: {stored.kind}, {stored.size:,} bytes, checksum verified"]
    for name, value in stored.fields.items():
        if name not in ("format", "kind", *FILES):
            lines.append(f"  {name:<16}{_plain(value)}")
    for name, array in sorted(stored.tensors.items()):
        shape = " × ".join(f"{length:,}" for length in array.shape)
        lines.append(f"  {name:<15} {array.dtype} {shape}")
    for name in FILES:
        for file in stored.fields.get(name, []):
            path = path_from(stored.path, file["path"])
            state = "a pipe" if path is None else f"{shown(path)}, {corpus_state(file | {'path': path})}"
            lines.append(f"  {name:<16}{state}, {file['size']:,} bytes, fingerprint {file['fingerprint']}")
    return "\n".join(lines)


def _plain(value: Any) -> str:
    """A value of JSON for a reader who need not know Python."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_plain, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)
