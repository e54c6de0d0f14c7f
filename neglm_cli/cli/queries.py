"""Queries from the command line or, line by line, from standard input; answers that a pipe's reader can wait for."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from neglm_cli.cli.console import console
from neglm_cli.errors import NeglmError, visible

if TYPE_CHECKING:
    from neglm_cli.text.word_index import WordIndex
    from neglm_cli.vectors.neighbors import Neighbor

JSON_DIGITS = 6

Query = tuple[bytes, ...]  # words


class Answer(NamedTuple):
    header: bytes
    fields: dict[str, Any]  # what JSON says beside the list
    listed: str  # what JSON calls the list
    measure: str  # what JSON calls the number
    found: list[tuple[bytes, float]]


def answer(
    queries: list[Query], read: Callable[[bytes], Query], ask: Callable[[Query], Answer], prompt: str, json: bool
) -> None:
    """Answer the queries; if there are none, each line of standard input before the next one is read.

    A query that cannot be answered gets one sentence, or a JSON object with an error, and the others are answered. If
    it was an argument, the exit code is 1 in the end.
    """
    answered = [_answered(query, ask, json) for query in queries]
    if not all(answered):
        raise typer.Exit(1)
    if not queries:
        for line in _lines(prompt):
            _answered(read(line), ask, json)


def _answered(query: Query, ask: Callable[[Query], Answer], json: bool) -> bool:
    """Answer a query; False if that was not possible, which is said."""
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


def known_ids(alphabet: "WordIndex", words: Sequence[bytes], file: str) -> list[int]:
    """The ids of the words; a sentence for the first that has none."""
    from neglm_cli.vectors.lexicon import lower

    ids = [alphabet.id(word) for word in words]
    for word, id_ in zip(words, ids, strict=True):
        if id_ < 0:
            small = lower(word)
            hint = f", but `{visible(as_text(small))}` is" if alphabet.id(small) >= 0 else ""
            raise NeglmError(f"`{visible(as_text(word))}` is not among the {len(alphabet):,} words of {file}{hint}")
    return ids


def spelt(alphabet: "WordIndex", neighbours: list["Neighbor"]) -> list[tuple[bytes, float]]:
    return [(alphabet[neighbour.id], neighbour.score) for neighbour in neighbours]


def _lines(prompt: str) -> Iterator[bytes]:
    """The lines of standard input, as they come; a prompt before each if somebody is typing."""
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
    """One JSON object on a line; or a header, `word TAB number` lines and an empty line.

    On a terminal the numbers stand below each other; elsewhere words are exactly their bytes.
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
