"""Keyword arguments instead of options: checked against the declarations of settings, and named in errors."""

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from neglm_cli.errors import NeglmError
from neglm_cli.settings.declare import declared
from neglm_cli.settings.values import from_keywords

Path = str | os.PathLike[str]
Paths = Path | Iterable[Path]

Function = TypeVar("Function", bound=Callable[..., Any])

OPTION = re.compile(r"(?<![\w-])--([a-z][\w-]*)")


def path_of(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def paths_of(paths: Paths) -> list[str]:
    """Return one path or several as a list."""
    if isinstance(paths, str | os.PathLike):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]


def keywords_in_errors(function: Function) -> Function:
    """Name keywords, not options, in the errors of a function."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NeglmError as error:
            error.args = (OPTION.sub(lambda option: option[1].replace("-", "_"), str(error)),)
            raise

    return called  # type: ignore[return-value]


def with_settings(settings: type) -> Callable[[Function], Function]:
    """Check the **keywords of a function, which are declared settings, and add them to its signature and its
    documentation."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        names = [each.name for each in own]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            rest = {name: value for name, value in kwargs.items() if name not in names}
            checked = from_keywords(settings, rest, names)
            kept = {name: value for name, value in kwargs.items() if name in names}
            return function(*args, **kept, **checked)

        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=setting.kind | None)
            for name, setting in declared(settings).items()
        ]
        called.__signature__ = signature.replace(parameters=own + added)  # type: ignore[attr-defined]
        lines = [f"    {name}: {each.help} Default: {each.default_text}." for name, each in declared(settings).items()]
        called.__doc__ = "\n".join([f"{inspect.cleandoc(function.__doc__ or '')}\n\nSettings:", *lines])
        return called  # type: ignore[return-value]

    return decorate
