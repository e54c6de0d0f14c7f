"""`neglm analogy`: a is to b as c is to which word?"""

import os
from typing import Annotated, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    DEFAULT_VECTORS,
    MODEL,
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
    "analogy",
    ("neglm analogy athens greece baghdad", "Athens is to Greece as Baghdad is to …"),
    ("neglm analogy man king woman --method mul --top 3", "The three best answers by 3CosMul."),
    ("neglm analogy", "Ask for queries, one per line."),
    ("neglm analogy --json < questions.txt > answers.jsonl", "A JSON object per line."),
)
def analogy(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A B C",
            help="Queries of three words each. By default, the lines of standard input.",
            show_default=False,
        ),
    ] = None,
    vectors: QueriedVectors = DEFAULT_VECTORS,
    table: Table = None,
    method: Annotated[
        Literal["add", "mul"],
        typer.Option(
            help="Score of a candidate. add: 3CosAdd, the cosine with b - a + c; mul: 3CosMul of Levy and Goldberg "
            "(2014), with epsilon 0.001.",
            metavar="add|mul",
            rich_help_panel=MODEL,
        ),
    ] = "add",
    subwords: SubwordsOfFile = True,
    top: Top = 10,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Answer analogies: a is to b as c is to which word?

    The order of the words is that of word2vec's word-analogy: man king woman should give queen. They are never among
    the answers.

    An answer is a header, a line with word, tab and score for each, and an empty line; with --json, an object on one
    line. Each line of standard input is answered before the next is read. Vectors trained with --subwords answer for
    out-of-vocabulary words, too, and the header names these. Otherwise, a query with such a word gets a message on
    standard error, or an object with an error; the other queries are answered, and the exit code is 1.
    """
    given = [os.fsencode(word) for word in words or ()]
    if len(given) % 3:
        several = " (or six, nine and so on, for several analogies)" if len(given) > 3 else ""
        raise typer.BadParameter(f"analogy needs three words{several}; got {len(given)}.")
    if not given and vectors == STANDARD_STREAM:
        raise typer.BadParameter("the vectors come from standard input (-): give the queries as arguments.")
    console.announce_compiling()
    from neglm_cli.vectors.analogies import answers_to
    from neglm_cli.vectors.lookup import Lookup, units
    from neglm_cli.vectors.neighbors import CosineIndex
    from neglm_cli.vectors.vectors import load_vectors

    loaded = load_vectors(vectors, table)
    file = shown(vectors) if vectors != STANDARD_STREAM else "standard input"
    directions = CosineIndex.of(loaded.vectors, file)
    lookup = Lookup(loaded, subwords)

    def ask(query: Query) -> Answer:
        if len(query) != 3:
            raise NeglmError(f"analogy needs three words; got {len(query)}")
        looked_up = find_words(lookup, query, file)
        found = answers_to(directions, units(looked_up), method, top, looked_up.known)
        header = b"%b is to %b as %b is to" % query + composed_header(looked_up)
        fields = {"query": as_text(b" ".join(query)), "method": method} | composed_fields(lookup, looked_up)
        return Answer(header, fields, "answers", "score", spelt(loaded.words, found))

    queries: list[Query] = [tuple(given[i : i + 3]) for i in range(0, len(given), 3)]
    answer(queries, lambda line: tuple(line.split()), ask, "a b c", json)
