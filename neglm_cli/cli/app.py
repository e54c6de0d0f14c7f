"""The Typer application that subcommands join, each with examples that --help and its man page share."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from neglm_cli import __version__

SUMMARY = "Word embeddings and language models from your own text, with one objective: negative sampling."
DESCRIPTION = (
    "The negative-sampling objective of word2vec trains word vectors. It also trains a language model, if at test "
    "time the score of a word is multiplied by its unigram probability. neglm is a suite of commands around that, "
    "for corpora on disk that may be larger than memory."
)


class Example(NamedTuple):
    command: str
    meaning: str


class Subcommand(NamedTuple):
    """A subcommand as the man page sees it."""

    name: str
    function: Callable[..., Any]
    paragraphs: tuple[str, ...]  # the first one is the summary
    examples: tuple[Example, ...]


SUBCOMMANDS: list[Subcommand] = []

app = typer.Typer(
    name="neglm",
    help=f"{SUMMARY}\n\n{DESCRIPTION}",
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"neglm {__version__}")
        raise typer.Exit


@app.callback()
def neglm(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def subcommand(name: str, *examples: tuple[str, str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to the application. A reader that closes the pipe (`neglm … | head`) ends it silently."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        page = Subcommand(name, function, _paragraphs(function), tuple(Example(*example) for example in examples))
        SUBCOMMANDS.append(page)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
                sys.stdout.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

        app.command(name, help="\n\n".join(page.paragraphs), epilog=_epilog(page.examples))(run)
        return function

    return decorate


def _paragraphs(function: Callable[..., Any]) -> tuple[str, ...]:
    """A docstring's paragraphs, each on one line: the terminal, or the man page, breaks them to its own width."""
    return tuple(" ".join(paragraph.split()) for paragraph in (function.__doc__ or "").split("\n\n"))


def _epilog(examples: tuple[Example, ...]) -> str:
    lines = ["[bold]Examples[/bold]"]
    for example in examples:
        lines += ["", f"  [cyan]{example.command}[/cyan]", f"      {example.meaning}"]
    return "\n".join(lines)
