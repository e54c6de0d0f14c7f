"""What goes wrong in a way that the user can mend, and how text from files is shown in sentences and on terminals."""

from collections.abc import Callable

JOINERS = "\u200c\u200d"  # invisible, but part of the spelling of Persian and of Indic languages


class Escapes(dict[int, int | str]):
    """A table for `str.translate`: what a terminal obeys, or what hides or reorders text, becomes visible.

    That is all that Python calls unprintable: the control characters C0 and C1, bidi overrides, bytes that are no text.
    """

    def __init__(self, kept: str, escape: Callable[[str], str]) -> None:
        """kept: characters that are left as they are, though unprintable."""
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
    """Text for a terminal or a sentence, without control characters, newlines and tabs included."""
    return text.translate(_LINE)


def visible_lines(text: str) -> str:
    """The same for text of several lines: newlines and tabs stay."""
    return text.translate(_LINES)


def short(text: str, most: int) -> str:
    """Visible text of at most this many characters, and a mark if that is not all."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "…"


def shown(path: str) -> str:
    """A file's name for a sentence: quoted if it is empty, has a newline in it, or bytes that are no text."""
    return path if path and visible(path) == path else repr(path)


class NeglmError(Exception):
    """One sentence: what is wrong, where, and what to do. The command line prints it and exits with 1."""

    def __init__(self, sentence: str) -> None:
        super().__init__(visible(sentence))  # it may quote a file


class UsageError(NeglmError):
    """Options or arguments that do not fit together. The command line exits with 2."""


def count_of(number: int, noun: str) -> str:
    """A number with its noun: `1 word`, `2,000 words`, `2 processes`, `2 entries`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def empty(name: str) -> str:
    """The sentence for a text or a list without a byte in it."""
    what = "pipe a text into it" if name == "standard input" else "name a file with text in it"
    return f"{name} is empty: there are no words to read; {what}"
