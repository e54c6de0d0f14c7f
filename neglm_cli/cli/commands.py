"""What Typer's commands do not have: options that take several values, as in `--similarity sets/*.tsv`, flags that
--help shows by their names alone, defaults in words without parentheses, and help that is shown as it is written,
square brackets included."""

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from neglm_cli.cli.usage import refuse_single_dash


def escaped(text: str) -> str:
    """Text in which Rich finds no markup; it has no backslash before a bracket."""
    return text.replace("[", r"\[")


class _PlainHelp:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for described in (self, *self.params):  # type: ignore[attr-defined]
            if getattr(described, "help", None):
                described.help = escaped(described.help)

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # Typer would show <bool>
            if isinstance(parameter.show_default, str):
                parameter._get_default_string = partial(_default_in_words, parameter)  # Typer would add parentheses
        return parameters


def _default_in_words(parameter: Any, **_: Any) -> str:
    return str(parameter.show_default)


class Group(_PlainHelp, TyperGroup):
    pass


class Command(_PlainHelp, TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        refuse_single_dash(ctx, args)
        return super().parse_args(ctx, args)


def spread_out(arguments: list[str], options: tuple[str, ...]) -> list[str]:
    """The command line with each of these options repeated before every value that follows it.

    Values end at the next option, or at `--`. A single `-` is a value: standard input.
    """
    result: list[str] = []
    current = ""  # the option whose values these are
    for position, argument in enumerate(arguments):
        if argument == "--":
            return result + arguments[position:]
        if argument.startswith("-") and argument != "-":
            name, equals, _ = argument.partition("=")
            current = name if name in options else ""
            if not current or equals or not _has_value(arguments, position):
                result.append(argument)
        else:
            result += [current, argument] if current else [argument]
    return result


def _has_value(arguments: list[str], position: int) -> bool:
    following = arguments[position + 1 : position + 2]
    return bool(following) and (following[0] == "-" or not following[0].startswith("-"))


def spreading(options: tuple[str, ...]) -> type[Command]:
    """The class of a command whose `options` take several values."""
    if not options:
        return Command

    class Spreading(Command):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            for parameter in self.params:
                if set(parameter.opts) & set(options):
                    parameter.metavar = f"{parameter.metavar}..."

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, spread_out(args, options))

        def collect_usage_pieces(self, ctx: Any) -> list[str]:
            """Arguments before options: behind them they would be taken for values."""
            first, *others = super().collect_usage_pieces(ctx)
            return [*others, first]

    return Spreading
