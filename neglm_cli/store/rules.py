"""Rules for metadata: the type of a value, its limits, and what is inside it.

A rule has the name of the encoding that a field with it has in a file (`stored_as`), and checks one value. A value that
breaks its rule raises `SchemaError`, whose text says which value it is and what it should be.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

LARGEST_INTEGER = 2**63 - 1
LARGEST_NUMBER = sys.float_info.max
LONGEST_SHOWN = 40  # characters of a wrong value


class SchemaError(ValueError):
    """What is wrong with a value, as the middle of a sentence."""


class UnknownNameError(SchemaError):
    """A name in an object that only a newer neglm may know."""


class Rule(Protocol):
    @property
    def stored_as(self) -> str:
        """`text`, `integer` or `JSON`."""
        ...

    def check(self, value: Any, where: str) -> None:
        """Raise `SchemaError` if the value called `where` isn't as it should be."""
        ...


def broken(value: Any, where: str, expected: str) -> SchemaError:
    shown = json.dumps(value)
    if len(shown) > LONGEST_SHOWN:
        shown = f"{shown[:LONGEST_SHOWN]}…"
    return SchemaError(f"`{where}` is {shown}, not {expected}")


def quoted(name: str) -> str:
    """A name from a file, for a sentence."""
    return f"`{json.dumps(name)[1:-1][:LONGEST_SHOWN]}`"


@dataclass(frozen=True)
class Integer:
    least: int = 0
    most: int = LARGEST_INTEGER
    stored_as: ClassVar[str] = "integer"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not int or not self.least <= value <= self.most:
            raise broken(value, where, f"an integer from {self.least:,} to {self.most:,}")


@dataclass(frozen=True)
class Number:
    """A finite number."""

    least: float = -LARGEST_NUMBER
    most: float = LARGEST_NUMBER
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if type(value) not in (int, float) or not self.least <= value <= self.most:  # NaN is never between
            raise broken(value, where, f"a number from {self.least:g} to {self.most:g}")


@dataclass(frozen=True)
class Flag:
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not bool:
            raise broken(value, where, "true or false")


@dataclass(frozen=True)
class Text:
    pattern: str = "(?s:.*)"
    meaning: str = "text"
    stored_as: ClassVar[str] = "text"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not str or not re.fullmatch(self.pattern, value) or not _is_unicode(value):
            raise broken(value, where, self.meaning)


@dataclass(frozen=True)
class Choice:
    options: tuple[str, ...]
    stored_as: ClassVar[str] = "text"

    def check(self, value: Any, where: str) -> None:
        if value not in self.options:
            raise broken(value, where, f"one of {', '.join(self.options)}")


@dataclass(frozen=True)
class FilePath:
    """The name of a file: any bytes but NUL, those that aren't UTF-8 as Python decodes them."""

    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        try:
            if b"\0" not in os.fsencode(value):
                return
        except (TypeError, UnicodeError):
            pass
        raise broken(value, where, "the name of a file")


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
            raise broken(value, where, "a list")
        for number, item in enumerate(value):
            self.rule.check(item, f"{where}[{number}]")


@dataclass(frozen=True)
class Object:
    """Names with values; `complete` if none may be missing."""

    rules: Mapping[str, Rule]
    complete: bool = True
    stored_as: ClassVar[str] = "JSON"

    def check(self, value: Any, where: str) -> None:
        if type(value) is not dict:
            raise broken(value, where, "an object")
        for name, item in value.items():
            if name not in self.rules:
                raise UnknownNameError(f"`{where}` has {quoted(name)}, which this neglm does not know")
            self.rules[name].check(item, f"{where}.{name}")
        missing = [name for name in self.rules if name not in value]
        if missing and self.complete:
            raise SchemaError(f"`{where}` lacks `{missing[0]}`")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
