"""The little of roff, the language of man pages, that ours need. Each function returns lines."""

import re

from neglm_cli import __version__


def escape(text: str) -> str:
    """Text as roff shows it; `code` becomes bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def bold(text: str) -> str:
    return f"\\fB{escape(text)}\\fR"


def italic(text: str) -> str:
    return f"\\fI{escape(text)}\\fR"


def title(name: str, number: int, summary: str) -> list[str]:
    return [
        f'.TH "{name.upper()}" "{number}" "" "neglm {__version__}" "neglm manual"',
        ".SH NAME",
        escape(f"{name} - {summary[0].lower()}{summary[1:].rstrip('.')}"),
    ]


def section(name: str, *paragraphs: str) -> list[str]:
    return [f".SH {name}", *(line for text in paragraphs for line in paragraph(text))]


def paragraph(text: str) -> list[str]:
    return [".PP", escape(text)]


def tagged(tag: str, text: str) -> list[str]:
    """A hanging paragraph; the tag is roff already."""
    return [".TP", tag, escape(text)]


ASCII = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}


def code(line: str) -> str:
    """A line of code that can be copied from the page: some systems replace bare quotes, carets and tildes."""
    text = "".join(ASCII.get(letter, letter) for letter in line)
    return f"\\&{text}" if text.startswith(".") else text


def verbatim(*lines: str) -> list[str]:
    return [".PP", ".RS 4", ".EX", *map(code, lines), ".EE", ".RE"]


def see_also(*pages: str) -> list[str]:
    """References to pages such as `neglm.1`."""
    references = (f"{bold(name)}({number})" for name, number in (page.split(".") for page in pages))
    return [".SH SEE ALSO", ", ".join(references)]
