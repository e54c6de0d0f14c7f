"""Values of options are converted without Pydantic, whose import takes longer than most commands."""

from typing import Any

import typer

from neglm_cli.cli.app import app
from neglm_cli.cli.values import converted


def test_no_default_needs_pydantic() -> None:
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    defaults = {
        (name, parameter.name): (parameter.get_default(context), parameter.type_descriptor)
        for name, command in group.commands.items()
        for parameter in command.params
    }
    assert defaults["embed", "checkpoint"][0] == 60
    for value, described in defaults.values():
        if value is not None:
            assert converted(value, described.annotation, described.parameter_info) == value
