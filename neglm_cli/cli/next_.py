"""`neglm next`: the most likely next words."""

import os
from typing import Annotated

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    INPUT,
    Debug,
    DeviceName,
    Json,
    ModelFile,
    Quiet,
    Threads,
    Tokenize,
    Top,
    input_file,
    line_preparation,
    one_blas_thread,
)
from neglm_cli.cli.queries import Answer, Query, answer, as_text
from neglm_cli.cli.reading import open_model
from neglm_cli.store.output import STANDARD_STREAM


@subcommand(
    "next",
    ("echo 'the stock market' | neglm next", "The ten most likely next words."),
    ("neglm next --after 'new york' --top 3", "After these words, instead of standard input."),
    ("neglm next --json < lines.txt", "A JSON object per line."),
)
def next_(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A language model; - is standard input.", show_default=DEFAULT_MODEL),
    ] = None,
    named: ModelFile = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            help="Context, in place of standard input; may be repeated.",
            show_default=False,
            metavar="TEXT",
            rich_help_panel=INPUT,
        ),
    ] = None,
    tokenize: Tokenize = False,
    top: Top = 10,
    json: Json = False,
    device: DeviceName = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show the most likely next words after each line of standard input, with their probabilities.

    An answer is a header, a line with word, tab and probability for each word, and an empty line; with --json, an
    object on one line. Each line is answered before the next is read, independently of the others. Out-of-vocabulary
    words are read as <unk>. <eos> is the end of the line. The default device is the
    CPU: a GPU has little to do for one line at a time, and its kernels take a while to compile.
    """
    path = input_file(model, named, DEFAULT_MODEL)
    if path == STANDARD_STREAM and not after:
        raise typer.BadParameter("the model comes from standard input (-): give the context with --after.")
    one_blas_thread()
    console.announce_compiling()
    import numpy as np

    from neglm_cli.lm.generation import next_words

    opened = open_model(path, device, threads, 1)
    words, end = opened.model.words, opened.model.end_of_line
    prepare = line_preparation(tokenize)

    def read(line: bytes) -> Query:
        return tuple(prepare(line).split())

    def ask(query: Query) -> Answer:
        together = b" ".join(query)
        line = opened.line(together)
        ids = np.concatenate([[end], line.ids]).astype(np.int32)
        found = [(words[word], probability) for word, probability in next_words(opened.scorer, ids, top)]
        header = b"after %b" % (together or b"the end of a line")
        return Answer(header, {"query": as_text(together), "oov": sum(line.unknown)}, "next", "probability", found)

    try:
        answer([read(os.fsencode(text)) for text in after or ()], read, ask, "after", json)
    finally:
        opened.device.close()
