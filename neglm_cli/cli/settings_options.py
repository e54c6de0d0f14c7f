"""Options of declared settings: a subcommand gets those that the user gave as one dictionary."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_type_hints

import typer

from neglm_cli.settings.declare import Setting, declared
from neglm_cli.settings.values import problem

GIVEN = "given"  # the parameter that the options of settings replace


def with_options(function: Callable[..., None], settings: type) -> Callable[..., None]:
    """Replace the parameter `given` of a subcommand, a dictionary of the settings that the user gave, by an option for
    each setting."""
    options = declared(settings)
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == GIVEN:
            parameters += [_parameter(setting) for setting in options.values()]
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))

    @functools.wraps(function)
    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in options}
        given = {name: value for name, value in given.items() if value is not None}
        check(given, settings)
        function(**values, **{GIVEN: given})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def check(given: dict[str, Any], settings: type) -> None:
    """Raise on values that Typer lets through: NaN, infinity, or a limit that a setting must exceed."""
    for name, value in given.items():
        setting = declared(settings)[name]
        if wrong := problem(setting, value, setting.option):
            raise typer.BadParameter(f"{wrong}.")


def _parameter(setting: Setting) -> inspect.Parameter:
    flag = setting.kind is bool
    names = setting.names or (setting.option,)
    if flag and setting.presets:  # a preset may set it, so there is a way to unset it
        names = (f"{setting.option}/--no-{setting.option[2:]}",)
    option = typer.Option(
        *names,
        min=setting.least,
        max=setting.most,
        help=setting.help,
        show_default=(not flag or bool(setting.presets)) and setting.default_text,
        metavar=None if flag else setting.metavar,
        rich_help_panel=setting.panel,
    )
    kind: Any = Literal[setting.choices] if setting.choices else setting.kind
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(setting.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)
