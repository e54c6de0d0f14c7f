"""What goes wrong in a way that the user can mend."""


class NeglmError(Exception):
    """One sentence: what is wrong, where, and what to do. The command line prints it and exits with 1."""


def empty(name: str) -> str:
    """The sentence for a text or a list without a byte in it."""
    what = "pipe a text into it" if name == "standard input" else "name a file with text in it"
    return f"{name} is empty: there are no words to read; {what}"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def shown(path: str) -> str:
    """A file's name for a sentence: quoted if it is empty, has a newline in it, or bytes that are no text."""
    return path if path and path.isprintable() else repr(path)
