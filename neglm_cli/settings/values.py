"""Checks of given values against the declarations of settings, with the same sentences everywhere."""

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from neglm_cli.errors import UsageError, visible
from neglm_cli.settings.declare import Setting, declared, former_names


def problem(setting: Setting, value: Any, name: str) -> str:
    """Say what is wrong with a value; empty if nothing is. name: of the setting, as the user gave it."""
    shown = f"'{visible(str(value))}'"
    if setting.kind is bool:
        return "" if isinstance(value, bool) else f"{name} must be True or False, not {shown}"
    if setting.choices:
        listed = " or ".join(filter(None, (", ".join(setting.choices[:-1]), setting.choices[-1])))
        return "" if value in setting.choices else f"unknown {name} {shown}; choose {listed}"
    if setting.kind is str:
        return "" if isinstance(value, str) else f"{name} needs a string, not {shown}"
    if setting.kind is int and (not isinstance(value, Integral) or isinstance(value, bool)):
        return f"{name} needs a whole number, not {shown}"
    if setting.kind is float and (not isinstance(value, Real) or isinstance(value, bool)):
        return f"{name} needs a number, not {shown}"
    if setting.above is not None and not setting.above < value < math.inf:
        return f"{name} {value:g} must be a finite number above {setting.above:g}"
    if not math.isfinite(value):
        return f"{name} must be a finite number"
    if setting.least is not None and value < setting.least:
        return f"{name} must be at least {number(setting.least)}"
    if setting.most is not None and value > setting.most:
        return f"{name} must be at most {number(setting.most)}"
    return ""


def number(value: float) -> str:
    """Format a limit: all digits of whole numbers."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def from_keywords(settings: type, given: Mapping[str, Any], others: Iterable[str] = ()) -> dict[str, Any]:
    """Check keyword arguments and convert them to the types of the settings. None, and False for a flag that is False
    by default, count as not given. others: further keywords, which are not settings."""
    known, former = declared(settings), former_names(settings)
    values = {}
    for name, value in given.items():
        if name in former:
            raise UsageError(f"{name} is now {former[name]}")
        if name not in known:
            close = get_close_matches(name, [*known, *others], 1)
            raise UsageError(f"there is no keyword {name}" + (f"; did you mean {close[0]}?" if close else ""))
        setting = known[name]
        if value is None or (setting.kind is bool and value is False and not setting.default):
            continue
        if wrong := problem(setting, value, name):
            raise UsageError(wrong)
        values[name] = setting.kind(value)
    return values
