"""Values of options, converted without Pydantic, which Typer imports for the first of them: it takes 0.1 s.

Whatever is not plainly right goes to Typer, whose messages say what is wrong.
"""

import re
from typing import Any, Literal, get_args, get_origin

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class _UnsureError(Exception):
    pass


class DirectValues:
    """Takes the place of a parameter's converter in Typer."""

    def __init__(self, parameter: Any) -> None:
        self._described = parameter.type_descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        try:
            return converted(value, self._described.annotation, self._described.parameter_info)
        except _UnsureError:
            from typer._coercion import build_runtime_param

            return build_runtime_param(self._described).coerce(value, param=param, ctx=ctx)


def converted(value: Any, kind: Any, limits: Any) -> Any:
    if kind in (str, bool) and type(value) is kind:
        return value
    if kind is int and _matches(value, int, INTEGER):
        return _within(int(value), limits)
    if kind is float and (type(value) is int or _matches(value, float, NUMBER)):  # a default may be an int
        return _within(float(value), limits)
    if kind == list[str] and isinstance(value, list | tuple) and all(type(each) is str for each in value):
        return list(value)
    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    raise _UnsureError


def _matches(value: Any, kind: type, pattern: re.Pattern[str]) -> bool:
    return type(value) is kind or (isinstance(value, str) and pattern.fullmatch(value) is not None)


def _within(number: float, limits: Any) -> float:
    if (limits.min is not None and not limits.min <= number) or (limits.max is not None and not number <= limits.max):
        raise _UnsureError
    return number
