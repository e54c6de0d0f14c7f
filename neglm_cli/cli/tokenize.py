"""`neglm tokenize`: split raw text into tokens."""

from typing import Annotated

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import OUTPUT, Debug, Quiet
from neglm_cli.cli.progress import Progress, bytes_to_read
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.store.output import STANDARD_STREAM, check_writable, writing


@subcommand(
    "tokenize",
    ("neglm tokenize raw.txt -o tokens.txt", "A training text for models that are used with --tokenize."),
    ("echo 'Who won?' | neglm tokenize", "Who won ?"),
    ("neglm tokenize test.txt | neglm eval --test -", "The perplexity of a raw text."),
)
def tokenize_(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="Raw texts, plain or compressed; - is standard input.", show_default="standard input"
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is standard output. Names that end in .gz, .bz2, .xz or .zst are compressed.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = STANDARD_STREAM,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Split raw text into tokens, separated by blanks, as --tokenize of other commands does.

    A token is a word, which may have apostrophes and hyphens between letters (don't, well-known), a number, which may
    have points and commas between digits (1,200.5), or any other single character: Who won? becomes Who won ?. A
    combining mark belongs to the character before it. Lines and upper case are kept, <unk> stays one token.

    Text that was tokenized this way stays as it is. Other tokenizations do not: those of the Penn Treebank and
    WikiText have tokens such as mr., u.s. and 's, which are split. Models of such texts are for text tokenized like
    theirs, without --tokenize.
    """
    texts = files or [STANDARD_STREAM]
    refuse_repeated_stdin(texts)
    refuse_overwriting([output], texts)
    check_writable(output)
    from neglm_cli.store.compressed import compressing
    from neglm_cli.text.source import open_source
    from neglm_cli.text.tokenization import tokenize

    sources = [open_source(text) for text in texts]
    console.announce_standard_input(texts)
    with (
        Progress("tokenizing", bytes_to_read(texts)) as progress,
        writing(output, binary=False) as file,
        compressing(file, output) as lines,
    ):
        for source in sources:
            for block in source.lines(progress.advance):
                lines.write(b"".join(tokenize(line) + b"\n" for line in block))
