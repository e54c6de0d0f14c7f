"""Queries from arguments or, line by line, from standard input, each answered at once."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from neglm_cli.cli.console import console
from neglm_cli.errors import NeglmError, visible

if TYPE_CHECKING:
    from neglm_cli.text.word_index import WordIndex
    from neglm_cli.vectors.lookup import Found, Lookup
    from neglm_cli.vectors.neighbors import Neighbor

JSON_DIGITS = 6

Query = tuple[bytes, ...]  # words


class Answer(NamedTuple):
    header: bytes
    fields: dict[str, Any]  # of the JSON object, besides the list
    listed: str  # name of the list in JSON
    measure: str  # name of the number in JSON
    found: list[tuple[bytes, float]]


def answer(
    queries: list[Query], read: Callable[[bytes], Query], ask: Callable[[Query], Answer], prompt: str, json: bool
) -> None:
    """Answer the queries or, if there are none, each line of standard input before the next is read.

    A query that cannot be answered gets one sentence, or a JSON object with an error; the others are answered, and the
    exit code is 1.
    """
    asked = queries or map(read, _lines(prompt))
    answered = [_answered(query, ask, json) for query in asked]
    if not all(answered):
        raise typer.Exit(1)


def _answered(query: Query, ask: Callable[[Query], Answer], json: bool) -> bool:
    """Print the answer to a query, or why there is none. Return False in that case."""
    try:
        _show(ask(query), json)
    except NeglmError as error:
        if json:
            console.json_line({"query": as_text(b" ".join(query)), "error": str(error)})
        else:
            console.error(str(error))
            _write([b""])
        return False
    return True


def as_text(word: bytes) -> str:
    return word.decode(errors="backslashreplace")


def find_words(lookup: "Lookup", words: Sequence[bytes], file: str) -> "Found":
    """Return the vectors of words, from subwords if the file has them. Raise if a word has none."""
    from neglm_cli.vectors.lexicon import lower

    found = lookup.find(words)
    if not isinstance(found, bytes):
        return found
    small = lower(found)
    hint = f", but `{visible(as_text(small))}` is" if lookup.words.id(small) >= 0 else ""
    if lookup.subwords is not None:
        hint += f", and too short for n-grams of {lookup.subwords.lengths} characters"
    raise NeglmError(f"`{visible(as_text(found))}` is not in the vocabulary of {file}{hint}")


def composed_fields(lookup: "Lookup", found: "Found") -> dict[str, Any]:
    """Return the JSON field that lists words composed from subwords, for files that have them."""
    return {} if lookup.subwords is None else {"from_subwords": [as_text(word) for word in found.composed]}


def composed_header(found: "Found") -> bytes:
    """Return the part of a header that names words composed from subwords."""
    return b" (%b: from subwords)" % b", ".join(found.composed) if found.composed else b""


def spelt(index: "WordIndex", neighbors: list["Neighbor"]) -> list[tuple[bytes, float]]:
    return [(index[neighbor.id], neighbor.score) for neighbor in neighbors]


def _lines(prompt: str) -> Iterator[bytes]:
    """Yield the lines of standard input as they arrive, at a terminal with a prompt before each."""
    typing = sys.stdin.isatty() and not console.quiet
    while True:
        if typing:
            print(f"{prompt}> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            break
        yield line
    if typing:
        print(file=sys.stderr)


def _show(result: Answer, json: bool) -> None:
    """Print a JSON object on one line; or a header, `word TAB number` lines and an empty line.

    At a terminal the numbers are aligned; elsewhere words are written byte for byte.
    """
    if json:
        found = [{"word": as_text(word), result.measure: round(number, JSON_DIGITS)} for word, number in result.found]
        console.json_line(result.fields | {result.listed: found})
        return
    lines = [result.header]
    if sys.stdout.isatty():
        from rich.cells import cell_len

        words = [visible(as_text(word)) for word, _ in result.found]
        width = max(map(cell_len, words), default=0)
        padded = [word + " " * (width - cell_len(word)) for word in words]
        encoding = sys.stdout.encoding
        lines = [visible(as_text(result.header)).encode(encoding, "backslashreplace")]
        columns = [word.encode(encoding, "backslashreplace") for word in padded]
    else:
        columns = [word for word, _ in result.found]
    numbers = [number for _, number in result.found]
    lines += [b"%b\t%.4f" % (word, number) for word, number in zip(columns, numbers, strict=True)]
    _write([*lines, b""])


def _write(lines: list[bytes]) -> None:
    sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
    sys.stdout.buffer.flush()
