"""The Typer application that subcommands join, each with examples that --help and its man page share."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from neglm_cli import __version__
from neglm_cli.cli.commands import Group, command_class, escaped
from neglm_cli.cli.renamed import renamed_options
from neglm_cli.cli.settings_options import with_options

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
    multi_value_options: tuple[str, ...] = ()  # options that take several values, and come after the arguments


SUBCOMMANDS: list[Subcommand] = []

app = typer.Typer(
    name="neglm",
    cls=Group,
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


def subcommand(
    name: str, *examples: tuple[str, str], multi_value_options: tuple[str, ...] = (), settings: type | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to the application. It ends silently if the reader of its output closes the pipe (`| head`).

    multi_value_options: take all values that follow them; `--similarity a b` is `--similarity a --similarity b`.
    settings: a dataclass of declared settings, each of which becomes an option.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        if settings is not None:
            function = with_options(function, settings)
        shown = tuple(Example(*example) for example in examples)
        page = Subcommand(name, function, _paragraphs(function), shown, multi_value_options)
        SUBCOMMANDS.append(page)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
                sys.stdout.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

        text = "\n\n".join(page.paragraphs)
        app.command(
            name,
            cls=command_class(multi_value_options, renamed_options(name, settings)),
            help=text,
            epilog=_epilog(page.examples),
        )(run)
        return function

    return decorate


def _paragraphs(function: Callable[..., Any]) -> tuple[str, ...]:
    """A docstring's paragraphs, each on one line: the terminal, or the man page, breaks them to its own width."""
    return tuple(" ".join(paragraph.split()) for paragraph in (function.__doc__ or "").split("\n\n"))


def _epilog(examples: tuple[Example, ...]) -> str:
    lines = ["[bold]Examples[/bold]"]
    for example in examples:
        lines += ["", f"  [cyan]{escaped(example.command)}[/cyan]", f"      {escaped(example.meaning)}"]
    return "\n".join(lines)
