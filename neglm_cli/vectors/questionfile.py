"""Reading the lines of test sets, which people and many tools have written."""

from collections.abc import Iterator

from neglm_cli.errors import NeglmError
from neglm_cli.store import container

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def numbered_lines(path: str) -> Iterator[tuple[str, bytes]]:
    """The lines of a text that have something in them, and what to call each in a sentence. `-` is standard input."""
    with container.open_seekable(path) as source:
        try:
            if container.is_safetensors(source.location):
                raise NeglmError(
                    f"{source.name} is a file of neglm's, not a test set; VECTORS comes before the options"
                )
            empty = True
            with open(source.location, "rb") as file:
                for number, line in enumerate(file, 1):
                    line = line.removeprefix(BYTE_ORDER_MARK).strip()
                    if line:
                        empty = False
                        yield f"{source.name}, line {number}", line
        except OSError as error:
            raise NeglmError(f"cannot read {source.name}: {error.strerror or error}") from error
        if empty:
            raise NeglmError(f"{source.name} is empty: there is nothing to evaluate")
