"""What goes wrong in a way that the user can mend."""


class NeglmError(Exception):
    """One sentence: what is wrong, where, and what to do. The command line prints it and exits with 1."""


def shown(path: str) -> str:
    """A file's name for a sentence: quoted if it is empty, has a newline in it, or bytes that are no text."""
    return path if path and path.isprintable() else repr(path)


def count_of(number: int, noun: str) -> str:
    """A number with its noun: `1 word`, `2,000 words`, `2 processes`, `2 entries`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"
