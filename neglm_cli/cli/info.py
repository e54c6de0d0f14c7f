"""`neglm info`: describe a file."""

from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import OUTPUT, Debug, Json, Quiet
from neglm_cli.errors import visible
from neglm_cli.store.terminal import standard_output

if TYPE_CHECKING:
    from neglm_cli.store.container import Stored

FILES = ("corpus", "validation")  # fields that are lists of files
COLUMN = 16  # characters for names
WIDTH = 100  # characters of a value in a line
MOST_VALUES = 3  # of a list
STAY = "\xa0"  # a space at which lines are not broken


@subcommand(
    "info",
    ("neglm info vocab.safetensors", "Kind, versions, arguments and sizes; verifies the checksum."),
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
    """Describe a neglm file: its kind, versions, arguments and sizes.

    The file is read to the end and its checksum verified; a damaged file is an error. In JSON, metadata has the fields
    that neglm-format(5) lists.
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
    from neglm_cli.text.word_index import WordIndex

    vocabulary = WordIndex.from_stored(stored)
    if json:
        words = (word.decode(errors="backslashreplace") for word in vocabulary)
        console.json([list(pair) for pair in zip(words, vocabulary.counts.tolist(), strict=True)])
    else:
        out = standard_output()
        out.writelines(wordlist.lines(vocabulary))
        out.flush()


def _description(stored: "Stored") -> dict[str, Any]:
    return {
        "file": stored.name,
        "kind": stored.kind,
        "bytes": stored.size,
        "checksum_verified": True,
        "metadata": stored.fields,
        "tensors": {
            name: {"dtype": str(array.dtype), "shape": list(array.shape)}
            for name, array in sorted(stored.tensors.items())
        },
    }


def _as_text(stored: "Stored") -> str:
    rows = [(name, _readable(value)) for name, value in stored.fields.items() if name not in ("format", "kind", *FILES)]
    for name, array in sorted(stored.tensors.items()):
        rows.append((name, f"{array.dtype} {' × '.join(f'{length:,}' for length in array.shape)}"))
    for name in FILES:
        rows += [(name, _file_as_text(stored, file)) for file in stored.fields.get(name, [])]
    width = max(COLUMN, *(len(name) + 1 for name, _ in rows))
    lines = [f"{stored.name}: {stored.kind}, {stored.size:,} bytes, checksum verified"]
    for name, text in rows:
        first, *more = wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"  {name:<{width}}{first}", *(" " * (width + 2) + line for line in more)]
    return "\n".join(visible(line.replace(STAY, " ")) for line in lines)


def _file_as_text(stored: "Stored", file: dict[str, Any]) -> str:
    from neglm_cli.errors import shown
    from neglm_cli.text.provenance import corpus_state, path_from

    path = path_from(stored.path, file["path"])
    state = "a pipe" if path is None else f"{shown(path)}, {corpus_state(file | {'path': path})}"
    return f"{state}, {file['size']:,} bytes, fingerprint {file['fingerprint']}"


def _readable(value: Any) -> str:
    """Format a value of the metadata: `none`, `yes`, `1,000`, `4.60517`; of a long list only the end."""
    if value is None or value in ([], {}, ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_readable(item)}".replace(" ", STAY) for name, item in value.items())
    if isinstance(value, list):
        last = _readable(value[-1])
        return (
            f"{len(value):,} values, the last {last}" if len(value) > MOST_VALUES else " ".join(map(_readable, value))
        )
    return str(value)
