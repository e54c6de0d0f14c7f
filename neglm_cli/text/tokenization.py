"""Tokenization of raw sentences, for `--tokenize`: punctuation apart from words, as in tokenized training text.

A token is one of

    a word      letters, which may have an apostrophe or a hyphen between them: don't, d’outre-mer
    a number    digits, which may have a point or a comma between them: 1,200.5
    a symbol    any other single character

A combining mark or a joiner belongs to the letter before it, as does a byte that is not UTF-8. Case is kept. Text
tokenized this way stays as it is; other tokenizations (`mr.` and `'s` of the Penn Treebank) are split.
"""

import re
import unicodedata
from functools import cache

from neglm_cli.errors import JOINERS

LAST_WITH_MARKS = 0x1F000  # code points above it are no combining marks, except for variation selectors
VARIATION_SELECTORS = "\U000e0100-\U000e01ef"
NOT_UTF8 = "\udc80-\udcff"  # bytes decoded by `surrogateescape`


def tokenize(line: bytes) -> bytes:
    """Split a line into tokens, separated by single spaces."""
    tokens = _pattern().findall(line.decode(errors="surrogateescape"))
    return " ".join(tokens).encode(errors="surrogateescape")


@cache
def _pattern() -> re.Pattern[str]:
    letter = rf"(?:[^\W\d_]|[{NOT_UTF8}])"
    letters = rf"{letter}(?:{letter}|[{_marks()}])*"
    return re.compile(rf"<unk>|{letters}(?:['’-]{letters})*|\d+(?:[.,]\d+)*|\S[{_marks()}]*")


def _marks() -> str:
    """Return the combining marks and joiners, as ranges of a character class."""
    codes = [code for code in range(LAST_WITH_MARKS) if unicodedata.category(chr(code)).startswith("M")]
    ends = [i for i in range(len(codes)) if i + 1 == len(codes) or codes[i + 1] != codes[i] + 1]
    starts = [0, *(i + 1 for i in ends[:-1])]
    ranges = (f"{chr(codes[i])}-{chr(codes[j])}" for i, j in zip(starts, ends, strict=True))
    return "".join(ranges) + VARIATION_SELECTORS + JOINERS
