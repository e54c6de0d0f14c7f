"""`neglm nearest`: the words whose vectors are nearest."""

import os
from typing import Annotated

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import INPUT, Debug, Json, Quiet, Table, Top, VectorsFile
from neglm_cli.cli.queries import Answer, Query, answer, as_text, known_ids, spelt
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM


@subcommand(
    "nearest",
    ("neglm nearest king queen", "The ten nearest words of each."),
    ("neglm nearest 'new york' --top 3", "The nearest words of two words together."),
    ("neglm nearest --vectors wiki.safetensors", "Ask for one line after the other."),
    ("neglm nearest king | cut -s -f 1", "Only the words."),
    ("neglm nearest --json < words.txt > neighbours.jsonl", "A JSON object for every line."),
)
def nearest(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="Queries, each one word, or several with blanks between them. Without any, the lines of standard "
            "input are the queries.",
            show_default=False,
        ),
    ] = None,
    vectors: VectorsFile = "vectors.safetensors",
    table: Table = None,
    contexts: Annotated[
        bool,
        typer.Option(
            "--contexts",
            help="Show the nearest context vectors, not word vectors.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    top: Top = 10,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show the words whose vectors are nearest to that of a word.

    Near means a high cosine. The neighbours of several words are those of the sum of their vectors, each of
    length 1. The words of the query are not shown; with --contexts they are, because the context vector of a word is
    not its word vector.

    An answer is a header, a line with word, tab and cosine for each neighbour, and an empty line; with --json it is
    an object on one line. Every line of standard input is answered before the next is read. If a query has an unknown
    word, a sentence on standard error says so, or the object has an error, and the next query is answered; the exit
    code is 1 if the query was an argument.
    """
    if not words and vectors == STANDARD_STREAM:
        raise typer.BadParameter("standard input (-) holds the vectors: give the queries as arguments.")
    console.announce_compiling()

    from neglm_cli.vectors.neighbors import CosineIndex, nearest, nearest_contexts
    from neglm_cli.vectors.vectors import load_vectors

    loaded = load_vectors(vectors, table)
    file = shown(vectors) if vectors != STANDARD_STREAM else "standard input"
    word_directions = CosineIndex.of(loaded.vectors, file)
    if contexts and not len(loaded.contexts):
        raise NeglmError(f"{file} has no context vectors: ask without --contexts")
    context_directions = CosineIndex.of(loaded.context_vectors, file) if contexts else None
    kind, alphabet = ("contexts", loaded.contexts) if contexts else ("words", loaded.words)

    def read(line: bytes) -> Query:
        whole = line.strip()
        return (whole,) if loaded.words.id(whole) >= 0 else tuple(line.split())

    def ask(query: Query) -> Answer:
        if not query:
            raise NeglmError("a query without a word: give one or more")
        ids = known_ids(loaded.words, query, file)
        if context_directions is None:
            found = nearest(word_directions, ids, top)
        else:
            found = nearest_contexts(word_directions, context_directions, ids, top)
        together = b" ".join(query)
        header = b"nearest to %b, among %b %b" % (together, f"{len(alphabet):,}".encode(), kind.encode())
        fields = {"query": as_text(together), "among": kind}
        return Answer(header, fields, "neighbours", "cosine", spelt(alphabet, found))

    answer([read(os.fsencode(word)) for word in words or ()], read, ask, "word", json)
