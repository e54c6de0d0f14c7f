"""Validation rules for metadata: types, limits and nested values.

A rule names the encoding of its field in a file (`stored_as`), and checks values. An invalid value raises `SchemaError`
with the value and what was expected.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

MAX_INTEGER = 2**63 - 1
MAX_NUMBER = sys.float_info.max
MAX_SHOWN = 40  # characters of an invalid value in messages


class SchemaError(ValueError):
    """An invalid value; the text is a part of a sentence."""


class UnknownNameError(SchemaError):
    """An unknown name in an object, perhaps of a newer neglm."""


class Rule(Protocol):
    @property
    def stored_as(self) -> str:
        """`text`, `integer` or `JSON`."""
        ...

    def check(self, value: Any, where: str) -> None:
        """Raise `SchemaError` if the value is invalid. where: its name, for the message."""
        ...


def invalid(value: Any, where: str, expected: str) -> SchemaError:
    shown = json.dumps(value)
    if len(shown) > MAX_SHOWN:
        shown = f"{shown[:MAX_SHOWN]}…"
    return SchemaError(f"`{where}` is {shown}, not {expected}")


def quoted(name: str) -> str:
    """Quote a name from a file, for messages."""
    return f"`{json.dumps(name)[1:-1][:MAX_SHOWN]}`"


@dataclass(frozen=True)
class Integer:
    least: int = 0
    most: int = MAX_INTEGER
    stored_as: ClassVar[str] = "integer"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not int or not self.least <= value <= self.most:
            raise invalid(value, where, f"an integer from {self.least:,} to {self.most:,}")


@dataclass(frozen=True)
class Number:
    """A finite number."""

    least: float = -MAX_NUMBER
    most: float = MAX_NUMBER
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if type(value) not in (int, float) or not self.least <= value <= self.most:  # false for NaN
            raise invalid(value, where, f"a number from {self.least:g} to {self.most:g}")


@dataclass(frozen=True)
class Flag:
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not bool:
            raise invalid(value, where, "true or false")


@dataclass(frozen=True)
class Text:
    pattern: str = "(?s:.*)"
    meaning: str = "text"
    stored_as: ClassVar[str] = "text"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not str or not re.fullmatch(self.pattern, value) or not _is_unicode(value):
            raise invalid(value, where, self.meaning)


@dataclass(frozen=True)
class Choice:
    options: tuple[str, ...]
    stored_as: ClassVar[str] = "text"

    def check(self, value: Any, where: str) -> None:
        if value not in self.options:
            raise invalid(value, where, f"one of {', '.join(self.options)}")


@dataclass(frozen=True)
class FilePath:
    """A file name: any bytes except NUL, decoded by os.fsdecode."""

    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        try:
            if b"\0" not in os.fsencode(value):
                return
        except (TypeError, UnicodeError):
            pass
        raise invalid(value, where, "the name of a file")


@dataclass(frozen=True)
class OrNull:
    rule: Rule
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if value is not None:
            self.rule.check(value, where)


@dataclass(frozen=True)
class Items:
    """A list."""

    rule: Rule
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not list:
            raise invalid(value, where, "a list")
        for number, item in enumerate(value):
            self.rule.check(item, f"{where}[{number}]")


@dataclass(frozen=True)
class Object:
    """An object with these names. complete: none may be missing. formerly: old names, each with the current one."""

    rules: Mapping[str, Rule]
    complete: bool = True
    formerly: Mapping[str, str] = field(default_factory=dict)
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not dict:
            raise invalid(value, where, "an object")
        for name, item in value.items():
            if name not in self.rules:
                raise UnknownNameError(f"`{where}` has {quoted(name)}, which this neglm does not know")
            self.rules[name].check(item, f"{where}.{name}")
        missing = [name for name in self.rules if name not in value]
        if missing and self.complete:
            raise SchemaError(f"`{where}` lacks `{missing[0]}`")

    def with_current_names(self, value: Any) -> Any:
        """Rename the fields of an older file. If both an old and its new name occur, `check` refuses the old one."""
        if type(value) is not dict:
            return value
        return {
            name if self.formerly.get(name, name) in value else self.formerly.get(name, name): item
            for name, item in value.items()
        }


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
