"""Errors for users, and text from files made safe for messages and terminals."""

from collections.abc import Callable

JOINERS = "\u200c\u200d"  # invisible, but part of the spelling of Persian and of Indic languages


class Escapes(dict[int, int | str]):
    """A table for `str.translate` that escapes everything Python calls unprintable: C0 and C1 control characters, bidi
    overrides, undecodable bytes. A terminal would obey, hide or reorder it."""

    def __init__(self, kept: str, escape: Callable[[str], str]) -> None:
        """kept: unprintable characters that are not escaped."""
        super().__init__()
        self._kept = kept + JOINERS
        self._escape = escape

    def __missing__(self, code: int) -> int | str:
        char = chr(code)
        self[code] = code if char.isprintable() or char in self._kept else self._escape(char)
        return self[code]


def _as_python(char: str) -> str:
    return repr(char)[1:-1]


_LINE, _LINES = Escapes("", _as_python), Escapes("\n\t", _as_python)


def visible(text: str) -> str:
    """Escape text for a terminal or a message, including newlines and tabs."""
    return text.translate(_LINE)


def visible_lines(text: str) -> str:
    """Escape text of several lines: newlines and tabs stay."""
    return text.translate(_LINES)


def short(text: str, most: int) -> str:
    """Escape text and truncate it to `most` characters, with an ellipsis."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "…"


def shown(path: str) -> str:
    """Format a file name for a message: quoted if it is empty or has unprintable characters."""
    return path if path and visible(path) == path else repr(path)


class NeglmError(Exception):
    """One sentence: what is wrong, where, and what to do. The command line prints it and exits with 1."""

    def __init__(self, sentence: str) -> None:
        super().__init__(visible(sentence))  # it may quote a file


class UsageError(NeglmError):
    """Options or arguments that do not fit together. The command line exits with 2."""


def count_of(number: int, noun: str) -> str:
    """Format a number with its noun: `1 word`, `2,000 words`, `2 processes`, `2 entries`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def empty(name: str) -> str:
    """Return the error message for an empty text or list."""
    what = "pipe text into it" if name == "standard input" else "name a file that contains text"
    return f"{name} is empty: there are no words to read; {what}"
