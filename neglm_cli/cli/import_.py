"""`neglm import`: vectors that other tools made."""

from typing import Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import INPUT, OUTPUT, Debug, Json, Quiet
from neglm_cli.cli.progress import Progress, bytes_to_read
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM
from neglm_cli.vectors.forms import WORDS_ENDING, ImportForm, companion_file


@subcommand(
    "import",
    ("neglm import GoogleNews-vectors-negative300.bin.gz", "word2vec's binary form; writes vectors.safetensors."),
    ("neglm import cc.de.300.vec.gz -o german.safetensors", "fastText's text form, compressed."),
    ("neglm import glove.6B.300d.txt", "GloVe's text, which has no first line with the sizes."),
    ("neglm import matrix.npy --words words.txt", "A NumPy matrix; the words stand in a file, one a line."),
    ("neglm import words.vec --contexts contexts.vec", "Word vectors and context vectors, each with words of its own."),
)
def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Vectors, plain or compressed (gzip, bzip2, xz, zstd); - is standard input.",
            show_default=False,
        ),
    ],
    form: Annotated[
        ImportForm | None,
        typer.Option(
            help="text: word2vec's, fastText's or GloVe's text; binary: word2vec's binary form; npy: a NumPy matrix.",
            show_default="from the contents",
            metavar="FORM",
            rich_help_panel=INPUT,
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(
            help="For npy: a list of the words, one a line.",
            show_default="FILE without .npy, and .words.txt",
            metavar="LIST",
            rich_help_panel=INPUT,
        ),
    ] = None,
    contexts: Annotated[
        str | None,
        typer.Option(
            help="Context vectors, in any of these forms. Those of an .npy file have their words beside it.",
            show_default="none",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="File to write; - is standard output.", metavar="FILE", rich_help_panel=OUTPUT
        ),
    ] = "vectors.safetensors",
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Read vectors that another tool made, and write them as a file of vectors.

    The form is known from the contents. Words are separated from their numbers by white space, and no other byte
    matters; each may appear once. The files must be complete: as many words as the first line promises, as many
    numbers for each, all finite, a newline at the end of the text.

    These forms have no counts. Every word gets the count 1, and the order is kept, which in most files is that of
    frequency. What the vectors were trained for is stored as unknown.
    """
    inputs = [path for path in (file, contexts, words) if path is not None]
    if inputs.count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    refuse_overwriting([output], [*inputs, *(companion_file(path, WORDS_ENDING) for path in inputs)])
    console.announce_standard_input(inputs)
    console.announce_compiling()
    from neglm_cli.vectors import exchange

    with Progress("reading vectors", bytes_to_read([file] if contexts is None else [file, contexts])) as progress:
        table, found = exchange.read(file, form, words, progress.advance)
        others = None if contexts is None else exchange.read(contexts, form, None, progress.advance)[0]
    vectors = exchange.assemble(table, others)
    vectors.save(output)
    summary = {
        "output": output,
        "form": str(found),
        "words": len(vectors.words),
        "contexts": len(vectors.contexts),
        "size": vectors.size,
    }
    console.summary(summary, _as_text(summary), output, json)


def _as_text(summary: dict[str, Any]) -> str:
    name = "the vectors" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    contexts = f" and {count_of(summary['contexts'], 'context')}" if summary["contexts"] else ""
    return (
        f"{name}: {count_of(summary['words'], 'word')}{contexts}, vectors of {count_of(summary['size'], 'number')}, "
        f"from {summary['form']}"
    )
