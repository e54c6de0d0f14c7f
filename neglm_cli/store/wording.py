"""Error messages about missing files and files of the wrong kind, with advice."""

import os
import re
from difflib import get_close_matches
from itertools import islice

from neglm_cli.errors import shown

MAKERS = {"language model": "neglm train-lm", "vectors": "neglm embed", "vocabulary": "neglm vocab"}
DEFAULT_FILES = {  # input files that commands read by default
    "model.safetensors": f"train one with `{MAKERS['language model']}`",
    "vectors.safetensors": f"train some with `{MAKERS['vectors']}`",
    "vocab.safetensors": f"make one with `{MAKERS['vocabulary']}`",
}
CONTENTS = {
    "checkpoint": "a checkpoint of an unfinished training",
    "encoded corpus": "an encoded corpus",
    "language model": "a language model",
    "quantized vectors": "quantized word vectors",
    "vectors": "word vectors",
    "vocabulary": "a vocabulary",
}
MOST_NEIGHBORS = 10_000  # files in a directory compared with a possibly misspelled name

WORD2VEC_HEADER = re.compile(rb"[ \t]*\d+[ \t]+\d+[ \t]*\r?\n")
WORD_AND_NUMBERS = re.compile(rb"\S+([ \t]+[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?){2,}[ \t]*\r?\n", re.IGNORECASE)
NUMPY_MAGIC = b"\x93NUMPY"
FASTTEXT_MAGIC = b"\xba\x16\x4f\x2f"  # of .bin and .ftz
SNIFFED = 1 << 16  # bytes: more than a line of 3,000 numbers has


def missing(path: str, name: str = "") -> str:
    """Return the message for a file that does not exist."""
    if path in DEFAULT_FILES:
        return f"no {path} here; {DEFAULT_FILES[path]}, or name another file"
    similar = _similar(path)
    return f"{name or shown(path)} does not exist" + (f"; did you mean {shown(similar)}?" if similar else "")


def not_ours(name: str, start: bytes) -> str:
    """Return the message for a file not written by neglm, which starts with these bytes."""
    return f"{name} is not a neglm file" + ("; convert it with `neglm import`" if _has_vectors(start) else "")


def wrong_kind(name: str, found: str, wanted: tuple[str, ...]) -> str:
    """Return the message for a file of the wrong kind."""
    makers = [CONTENTS[kind] + f" ({MAKERS[kind]})" for kind in wanted if kind in MAKERS]
    expected = " or ".join(makers) or CONTENTS[wanted[0]]
    return f"{name} contains {CONTENTS.get(found, shown(found))}; expected {expected}"


def _has_vectors(start: bytes) -> bool:
    is_binary = start.startswith((NUMPY_MAGIC, FASTTEXT_MAGIC))
    return bool(is_binary or WORD2VEC_HEADER.match(start) or WORD_AND_NUMBERS.match(start))


def _similar(path: str) -> str:
    """Return the path of a file in the same directory with a similar name, or an empty string."""
    directory, base = os.path.split(path)
    try:
        with os.scandir(directory or ".") as entries:
            names = [entry.name for entry in islice(entries, MOST_NEIGHBORS)]
    except (OSError, ValueError):
        return ""
    found = get_close_matches(base, names, 1, cutoff=0.8)
    return os.path.join(directory, found[0]) if found else ""
