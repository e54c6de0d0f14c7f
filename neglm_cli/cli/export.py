"""`neglm export`: vectors in the forms that other tools read."""

from typing import Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import INPUT, OUTPUT, Debug, Json, Quiet, Table
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM
from neglm_cli.vectors.forms import GZIP_ENDING, OF_ONE_FILE, Form, files_of, form_of


@subcommand(
    "export",
    ("neglm export -o vectors.txt", "The vectors in vectors.safetensors as text, for gensim and many others."),
    ("neglm export news.safetensors -o news.bin.gz", "word2vec's binary form, compressed; gensim reads that, too."),
    ("neglm export --top 10000 --normalise -o news.tsv", "For TensorBoard's projector; also writes news.metadata.tsv."),
    ("neglm export --form text -o - | head -n 3", "How it looks."),
)
def export(
    vectors: Annotated[
        str,
        typer.Argument(metavar="VECTORS", help="A file of vectors; - is standard input."),
    ] = "vectors.safetensors",
    table: Table = None,
    contexts: Annotated[
        bool,
        typer.Option(
            "--contexts",
            help="Export the context vectors instead of the word vectors.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only the N most frequent words.",
            show_default="all of them",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is standard output, for text and binary. A name that ends in .gz is compressed.",
            show_default="none: it must be named",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            help="text: word2vec's text form; binary: its binary form; npy: a NumPy matrix, with the words one a line "
            "in FILE.words.txt; tsv: for TensorBoard's projector, with words and counts in FILE.metadata.tsv.",
            show_default="by the name: .txt .vec text, .bin binary, .npy npy, .tsv tsv",
            metavar="FORM",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    normalise: Annotated[
        bool,
        typer.Option("--normalise", help="Scale every vector to length 1.", rich_help_panel=OUTPUT),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write vectors in a form that other tools read.

    Numbers in text are as short as they can be and still give the same 32-bit number when they are read. Words are
    written as they are, byte for byte, in the order of the file. White space inside a word, which only words from
    pairs can have, becomes _ where a form has no place for it: any in text and binary; tabs and newlines in tsv;
    newlines in npy.

    The two files of npy and tsv take their names only when both are complete. In place of FILE stands the output's
    name without .npy or .tsv.
    """
    if output is None:
        raise typer.BadParameter("name the file to write with --output, for example --output vectors.txt.")
    chosen = _form(output, form)
    refuse_overwriting(files_of(output, chosen), [vectors])
    console.announce_compiling()
    from neglm_cli.vectors import exchange
    from neglm_cli.vectors.vectors import load_vectors

    loaded = load_vectors(vectors, table)
    name = "standard input" if vectors == STANDARD_STREAM else shown(vectors)
    if contexts and not len(loaded.contexts):
        raise NeglmError(f"{name} has no context vectors: leave out --contexts")
    words, matrix = (loaded.contexts, loaded.context_vectors) if contexts else (loaded.words, loaded.vectors)
    words, matrix = exchange.most_frequent(words, matrix, top)
    words, changed = exchange.replace_white_space(words, chosen)
    matrix = exchange.normalized(matrix) if normalise else matrix
    with Progress("writing vectors", len(matrix), "K words") as progress:
        files = exchange.write(words, matrix, output, chosen, progress.advance)
    if changed:
        console.note(f"{changed:,} {'words have' if changed > 1 else 'word has'} _ in place of white space")
    summary = {"output": files, "form": str(chosen), "words": len(words), "size": loaded.size, "changed": changed}
    console.summary(summary, _as_text(summary), output, json)


def _form(output: str, form: Form | None) -> Form:
    found = form or form_of(output)
    if output in STANDARD_OUTPUT and form is None:
        raise typer.BadParameter("say with --form what to write to standard output: text or binary.")
    if found is None:
        raise typer.BadParameter(
            f"the name {shown(output)} does not tell the form: let it end in .txt, .vec, .bin, .npy or .tsv, or "
            "use --form."
        )
    if found not in OF_ONE_FILE and output in STANDARD_OUTPUT:
        raise typer.BadParameter(f"the form {found} has two files and cannot go to standard output: name a file.")
    if found not in OF_ONE_FILE and output.endswith(GZIP_ENDING):
        raise typer.BadParameter(f"the form {found} is not written compressed: leave out {GZIP_ENDING}.")
    return found


def _as_text(summary: dict[str, Any]) -> str:
    name = " and ".join("standard output" if file in STANDARD_OUTPUT else shown(file) for file in summary["output"])
    size = f"{count_of(summary['words'], 'word')}, vectors of {count_of(summary['size'], 'number')}"
    return f"{name}: {size}, as {summary['form']}"
