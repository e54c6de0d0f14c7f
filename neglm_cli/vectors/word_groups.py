"""Lists of words in groups, one word per line."""

from neglm_cli.errors import NeglmError
from neglm_cli.vectors.lexicon import BYTE_ORDER_MARK
from neglm_cli.vectors.reading import open_input


def read_word_groups(path: str, most: int) -> dict[bytes, int]:
    """Read at most `most` words, in the order of the file, each with the number of its group. Empty lines separate
    groups. A word that appears twice belongs to its first group."""
    with open_input(path) as source:
        while source.more():
            pass
        lines = bytes(source.text[source.begin : source.end]).removeprefix(BYTE_ORDER_MARK).split(b"\n")
        name = source.name
    found: dict[bytes, int] = {}
    group, in_group = 0, False
    for line in lines:
        word = line.strip()
        if not word:
            group += in_group
            in_group = False
            continue
        found.setdefault(word, group)
        in_group = True
    if not found:
        raise NeglmError(f"{name} contains no words: write one per line")
    if len(found) > most:
        raise NeglmError(f"{name} has {len(found):,} words: choose at most {most:,}")
    return found
