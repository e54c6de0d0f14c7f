"""Words as JSON: a vocabulary, and a word-level tokenizer for the package `tokenizers`."""

from collections.abc import Iterable
from typing import Any

from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN

WHITE_SPACE = r"[ \t\n\r\x0b\x0c]+"  # all that separates words; other packages split at Unicode's white space, too


def vocabulary(words: Iterable[bytes]) -> dict[str, int]:
    r"""Return the ids of words. Bytes that are not UTF-8 are written as \xNN."""
    found: dict[str, int] = {}
    for number, word in enumerate(words):
        spelled = word.decode(errors="backslashreplace")
        while spelled in found:  # a word that looks like an escaped one
            spelled += "\\"
        found[spelled] = number
    return found


def tokenizer(ids: dict[str, int], ends_of_line: bool) -> dict[str, Any]:
    """Return the contents of tokenizer.json. ends_of_line: read a newline as `<eos>`, as language models do."""
    newline = {"type": "Replace", "pattern": {"String": "\n"}, "content": f" {END_OF_LINE.decode()} "}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": newline if ends_of_line else None,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": WHITE_SPACE},
            "behavior": "Removed",
            "invert": False,
        },
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": UNKNOWN.decode()},
    }
