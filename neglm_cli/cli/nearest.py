"""`neglm nearest`: nearest neighbors of words."""

import os
from typing import Annotated

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    DEFAULT_VECTORS,
    INPUT,
    Debug,
    Json,
    QueriedVectors,
    Quiet,
    SubwordsOfFile,
    Table,
    Top,
)
from neglm_cli.cli.queries import (
    Answer,
    Query,
    answer,
    as_text,
    composed_fields,
    composed_header,
    find_words,
    spelt,
)
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM


@subcommand(
    "nearest",
    ("neglm nearest king queen", "The ten nearest neighbors of each."),
    ("neglm nearest 'new york' --top 3", "The nearest neighbors of two words together."),
    ("neglm nearest --vectors wiki.safetensors", "Ask for queries, one per line."),
    ("neglm nearest king | cut -s -f 1", "Only the words."),
    ("neglm nearest --json < words.txt > neighbors.jsonl", "A JSON object per line."),
)
def nearest(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="Queries, each of one word, or of several separated by spaces. By default, the lines of standard "
            "input.",
            show_default=False,
        ),
    ] = None,
    vectors: QueriedVectors = DEFAULT_VECTORS,
    table: Table = None,
    contexts: Annotated[
        bool,
        typer.Option(
            "--contexts",
            help="Search among context vectors instead of word vectors.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    subwords: SubwordsOfFile = True,
    top: Top = 10,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show the nearest neighbors of words, by cosine similarity.

    The neighbors of several words are those of the sum of their vectors, each of unit length. The words of the query
    are not shown, except with --contexts: the context vector of a word differs from its word vector.

    An answer is a header, a line with word, tab and cosine for each neighbor, and an empty line; with --json, an object
    on one line. Each line of standard input is answered before the next is read. Vectors trained with --subwords answer
    for out-of-vocabulary words, too, and the header names these. Otherwise, a query with such a word gets a message on
    standard error, or an object with an error; the other queries are answered, and the exit code is 1.
    """
    if not words and vectors == STANDARD_STREAM:
        raise typer.BadParameter("the vectors come from standard input (-): give the queries as arguments.")
    console.announce_compiling()

    from neglm_cli.vectors.lookup import Lookup, units
    from neglm_cli.vectors.neighbors import CosineIndex, nearest
    from neglm_cli.vectors.vectors import load_vectors

    loaded = load_vectors(vectors, table)
    lookup = Lookup(loaded, subwords)
    file = shown(vectors) if vectors != STANDARD_STREAM else "standard input"
    word_directions = CosineIndex.of(loaded.vectors, file)
    if contexts and not len(loaded.contexts):
        raise NeglmError(f"{file} has no context vectors: leave out --contexts")
    context_directions = CosineIndex.of(loaded.context_vectors, file) if contexts else None
    kind, searched = ("contexts", loaded.contexts) if contexts else ("words", loaded.words)

    def read(line: bytes) -> Query:
        whole = line.strip()
        return (whole,) if loaded.words.id(whole) >= 0 else tuple(line.split())

    def ask(query: Query) -> Answer:
        if not query:
            raise NeglmError("the query is empty: give one word or more")
        looked_up = find_words(lookup, query, file)
        if context_directions is None:
            found = nearest(word_directions, units(looked_up), top, looked_up.known)
        else:  # none is excluded: a context is not the word with the same spelling
            found = nearest(context_directions, units(looked_up), top)
        together = b" ".join(query)
        origin = composed_header(looked_up)
        header = b"nearest to %b%b, among %b %b" % (together, origin, f"{len(searched):,}".encode(), kind.encode())
        fields = {"query": as_text(together), "among": kind} | composed_fields(lookup, looked_up)
        return Answer(header, fields, "neighbors", "cosine", spelt(searched, found))

    answer([read(os.fsencode(word)) for word in words or ()], read, ask, "word", json)
