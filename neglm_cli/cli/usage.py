"""Messages for wrong usage: they name the option as typed and the values it accepts, where Typer's name Python types
and parser internals."""

import re
from difflib import get_close_matches
from typing import Any

import typer

from neglm_cli.cli.renamed import option_positions
from neglm_cli.errors import visible
from neglm_cli.settings.values import number

NOT_A_CHOICE = re.compile(r"'(?P<value>.*)' is not one of (?P<choices>'.*')", re.DOTALL)
EXTRA = re.compile(r"Got unexpected extra argument\(s\) \((?P<arguments>.*)\)", re.DOTALL)


def sentence(error: typer.TyperException, arguments: list[str]) -> str:
    """Return what is wrong and where to read on; nothing for `neglm` alone, which has shown its help."""
    message = _message(error, arguments)
    return with_advice(message, arguments, error) if message else ""


def with_advice(message: str, arguments: list[str], error: typer.TyperException | None = None) -> str:
    """Add where to read about the command."""
    stop = "" if message.endswith((".", "?", ")")) else "."
    return f"{message}{stop} See `{_command(error, arguments)} --help`."


def refuse_single_dash(context: Any, arguments: list[str]) -> None:
    """Refuse word2vec's single dashes: -output would be read as -o utput, and write a file of that name."""
    options = options_of(context)
    for position in option_positions(arguments, takes_value(options)):
        name = arguments[position].partition("=")[0]
        if re.match("-[^-]", name) and name not in options and "-" + name in options:
            raise typer.BadParameter(_no_option(name, options), ctx=context)


def takes_value(options: dict[str, Any]) -> dict[str, bool]:
    """Return for each option whether a value follows it."""
    return {name: not getattr(option, "is_flag", False) for name, option in options.items()}


def _message(error: typer.TyperException, arguments: list[str]) -> str:
    message: str = error.format_message()
    option, parameter = getattr(error, "option_name", None), getattr(error, "param", None)
    if option is not None and "does not take a value" in message:
        return f"{option} takes no value"
    if option is not None and "requires" in message:
        return f"{option} needs a value"
    if option is not None:
        return _no_option(_as_typed(option, arguments), options_of(getattr(error, "ctx", None)))
    if parameter is not None and message.startswith("Missing"):
        is_option = parameter.opts[0].startswith("-")
        return (
            f"{parameter.opts[0]} {parameter.metavar} is required" if is_option else f"{parameter.metavar} is missing"
        )
    if parameter is not None:
        return _bad_value(error, parameter, arguments) or message
    if found := EXTRA.match(message):
        return f"unexpected argument: {visible(found['arguments'])}"
    return message.removeprefix("Invalid value: ")


def _bad_value(error: Any, parameter: Any, arguments: list[str]) -> str:
    """Describe a number out of range, a value that is not a number, or an unknown choice; anything else is empty."""
    name = _typed_name(parameter, arguments)
    if found := NOT_A_CHOICE.search(error.message):
        choices = found["choices"].rstrip(".").replace("'", "").split(", ")
        listed = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
        return f"unknown {name} '{visible(found['value'])}'; choose {listed}"
    errors = getattr(error.__cause__, "errors", None)  # Typer checks values with Pydantic
    if errors is None:
        return ""
    problem = errors()[0]
    bounds = problem.get("ctx", {})
    given = visible(str(problem.get("input")))
    return {
        "greater_than_equal": f"{name} must be at least {number(bounds.get('ge', 0))}",
        "less_than_equal": f"{name} must be at most {number(bounds.get('le', 0))}",
        "int_parsing": f"{name} needs a whole number, not '{given}'",
        "int_from_float": f"{name} needs a whole number, not '{given}'",
        "float_parsing": f"{name} needs a number, not '{given}'",
    }.get(problem["type"], "")


def _no_option(name: str, options: dict[str, Any]) -> str:
    long = {option.lstrip("-"): option for option in options if option.startswith("--")}
    wanted = name.lstrip("-")
    close = get_close_matches(wanted.lower(), long, 1) if len(wanted) > 1 else []
    hint = f"; did you mean {long[close[0]]}?" if close else ""
    return f"there is no option {visible(name)}{hint}"


def _as_typed(option: str, arguments: list[str]) -> str:
    """Return the argument that Typer split into several short options: -size is -s -i -z -e."""
    if option.startswith("--"):
        return option
    typed = (argument.partition("=")[0] for argument in arguments if argument.startswith(option))
    return next(typed, option)


def _typed_name(parameter: Any, arguments: list[str]) -> str:
    """Return the name of an option as typed, or of an argument."""
    names = [name for name in parameter.opts if name.startswith("-")]
    typed = (name for name in names if any(argument.partition("=")[0] == name for argument in arguments))
    return next(typed, names[0] if names else parameter.get_error_hint().strip("'"))


def options_of(context: Any) -> dict[str, Any]:
    """Return the options of the context's command by name."""
    if context is None:
        return {}
    parameters = context.command.get_params(context)
    names = [(name, each) for each in parameters for name in (*each.opts, *each.secondary_opts)]
    return {name: each for name, each in names if name.startswith("-")}


def _command(error: typer.TyperException | None, arguments: list[str]) -> str:
    from neglm_cli.cli.app import SUBCOMMANDS

    context = getattr(error, "ctx", None)
    if context is not None:
        return str(context.command_path)
    named = arguments[0] if arguments and arguments[0] in [page.name for page in SUBCOMMANDS] else ""
    return f"neglm {named}".rstrip()
