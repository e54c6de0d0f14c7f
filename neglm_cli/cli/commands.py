"""Extensions of Typer's commands: options with several values, as in `--similarity sets/*.tsv`; old names of options;
panels in one order; help as it is written, with plain flags, defaults without parentheses, and square brackets."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from neglm_cli.cli.console import console
from neglm_cli.cli.renamed import with_new_names
from neglm_cli.cli.usage import options_of, refuse_single_dash, takes_value
from neglm_cli.cli.values import DirectValues

PANELS = (
    "Input",
    "Test sets",
    "Model",
    "Training",
    "At test time",
    "N-best lists",
    "Output",
    "Runtime",
)  # in the order of --help


def escaped(text: str) -> str:
    """Escape brackets, so that Rich finds no markup. The text must have no backslash before a bracket."""
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
            parameter._runtime_param = DirectValues(parameter)
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # Typer would show <bool>
            if is_argument(parameter):
                parameter.display_type_rich = _no_type  # Typer would show <str>
            if isinstance(parameter.show_default, str):
                parameter._get_default_string = partial(_default_in_words, parameter)  # Typer would add parentheses
        return parameters


def _no_type(ctx: Any) -> None:
    pass


def _default_in_words(parameter: Any, **_: Any) -> str:
    return str(parameter.show_default)


class Group(_PlainHelp, TyperGroup):
    pass


class Command(_PlainHelp, TyperCommand):
    multi_value_options: tuple[str, ...] = ()  # options that take several values
    renamed: Mapping[str, str] = {}  # old options, with the new ones

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.sort(key=panel_order)
        for parameter in self.params:
            if set(parameter.opts) & set(self.multi_value_options):
                parameter.metavar = f"{parameter.metavar}..."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        expanded = expand_values(args, self.multi_value_options) if self.multi_value_options else args
        refuse_single_dash(ctx, expanded)
        arguments, notes = with_new_names(expanded, self.renamed, takes_value(options_of(ctx)))
        try:
            return super().parse_args(ctx, arguments)
        finally:  # --quiet is known now
            for note in notes:
                console.note(note)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Show required options, and arguments before options that would take them for values."""
        first, *others = super().collect_usage_pieces(ctx)
        required = [
            f"{each.opts[-1]} {each.metavar}" for each in self.params if each.required and not is_argument(each)
        ]
        return [*others, first] if self.multi_value_options else [first, *required, *others]


def is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def panel_order(parameter: Any) -> int:
    """Return the position of a parameter's panel; arguments come first."""
    return -1 if is_argument(parameter) else PANELS.index(parameter.rich_help_panel)


def command_class(multi_value: tuple[str, ...], renamed_options: Mapping[str, str]) -> type[Command]:
    """Return the class of a command with these options."""

    class Configured(Command):
        multi_value_options, renamed = multi_value, renamed_options

    return Configured


def expand_values(arguments: list[str], options: tuple[str, ...]) -> list[str]:
    """Repeat each of these options before every value that follows it.

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
