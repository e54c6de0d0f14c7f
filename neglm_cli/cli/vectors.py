"""`neglm vectors`: the vectors of words."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import DEFAULT_VECTORS, Debug, Json, QueriedVectors, Quiet, SubwordsOfFile, Table
from neglm_cli.cli.queries import as_text, find_words
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.vectors.lookup import Found


@subcommand(
    "vectors",
    ("neglm vectors king queen", "Their vectors, one per line."),
    ("neglm vectors --vectors wiki.safetensors < words.txt > words.vec", "The vectors of all words in a file."),
    ("neglm vectors king --json", "A JSON object per word."),
)
def vectors(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="Words. By default, those of standard input, separated by white space.",
            show_default=False,
        ),
    ] = None,
    file: QueriedVectors = DEFAULT_VECTORS,
    table: Table = None,
    subwords: SubwordsOfFile = True,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Print the vectors of words.

    A line has a word and its numbers, separated by blanks, as in word2vec's text format, with as few digits as give the
    same 32-bit number when read. Vectors trained with --subwords have vectors for out-of-vocabulary words, too; a note
    tells their number, and in JSON, from_subwords lists them. Otherwise, such a word gets a message on standard error,
    or an object with an error; the other words are printed, and the exit code is 1.
    """
    if not words and file == STANDARD_STREAM:
        raise typer.BadParameter("the vectors come from standard input (-): give the words as arguments.")
    console.announce_compiling()
    from neglm_cli.vectors.lookup import Lookup
    from neglm_cli.vectors.vectors import load_vectors

    lookup = Lookup(load_vectors(file, table), subwords)
    name = shown(file) if file != STANDARD_STREAM else "standard input"
    failed = composed = 0
    for word in map(os.fsencode, words) if words else _words_of_input():
        try:
            found = find_words(lookup, [word], name)
            composed += len(found.composed)
            _print(word, found, json)
        except NeglmError as error:
            failed += 1
            if json:
                console.json_line({"query": as_text(word), "error": str(error)})
            else:
                console.error(str(error))
    if composed:
        console.note(f"{composed:,} out-of-vocabulary {'words' if composed > 1 else 'word'} composed from subwords")
    if failed:
        raise typer.Exit(1)


def _words_of_input() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield from line.split()


def _print(word: bytes, found: "Found", json: bool) -> None:
    from neglm_cli.text.word_index import WordIndex
    from neglm_cli.vectors import matrix_text

    if json:
        vector = [float(number) for number in found.vectors[0]]
        console.json_line({"word": as_text(word), "from_subwords": as_texts(found), "vector": vector})
        return
    index = WordIndex.of([word])
    for text in matrix_text.format_lines(index.words, index.offsets, found.vectors, b" "):
        sys.stdout.buffer.write(text.data)
    sys.stdout.buffer.flush()


def as_texts(found: "Found") -> list[str]:
    return [as_text(word) for word in found.composed]
