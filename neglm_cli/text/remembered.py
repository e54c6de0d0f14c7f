"""The corpus that a file remembers: where it is, and whether it is still the same."""

import os
import stat
from collections.abc import Sequence
from typing import Any

import xxhash

from neglm_cli.errors import NeglmError
from neglm_cli.store.container import is_stored, read_fields
from neglm_cli.store.output import STANDARD_STREAM
from neglm_cli.text.fingerprint import combine
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.source import Block, Corpus, Range, Source, open_corpus

SAMPLES, SAMPLE = 16, 1 << 12  # stretches of a file, and their bytes


def path_relative_to(home: str, path: str | None) -> str | None:
    """The path as stored in the file `home`: relative to the directory of that file, where there is such a path."""
    if path is None:
        return None
    try:
        absolute = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return os.path.relpath(absolute, _directory(home))
    except (ValueError, OSError):  # on another drive, or the current directory has gone
        return path


def path_from(home: str, stored: str | None) -> str | None:
    """The path to open, from the one stored in the file `home`: short, if it lies below the current directory."""
    if stored is None:
        return None
    try:
        return os.path.relpath(os.path.join(_directory(home), stored))
    except (ValueError, OSError):
        return os.path.join(os.path.dirname(home), stored)


def _directory(home: str) -> str:
    """Where paths in this file start: its own directory, or the current one for a pipe."""
    if home == STANDARD_STREAM or (os.path.exists(home) and not os.path.isfile(home)):
        return os.getcwd()
    return os.path.dirname(os.path.realpath(home))


def reopen(files: Sequence[dict[str, Any]], home: str, threads: int, what: str = "corpus") -> Corpus:
    """The corpus that `home` (a vocabulary, say) was made from; refused if it has gone or changed."""
    if not files:
        raise NeglmError(f"{home} remembers no {what}: name one")
    for file in files:
        if file["path"] is None:
            raise NeglmError(f"the {what} of {home} was a pipe, which cannot be read again: name a {what}")
        state = corpus_state(file)
        if state != "there":
            raise _not_the_same(file["path"], state, home, what)
    corpus = open_corpus([file["path"] for file in files])
    for file, source in zip(files, corpus.sources, strict=True):
        if fingerprint(source, threads) != file["fingerprint"]:
            raise _not_the_same(file["path"], "changed", home, what)
    return corpus


def remembered_paths(home: str) -> list[str]:
    """The texts that the file `home` was made from or validated on; none if it is no file of neglm's.

    A look at its header: whether the file is sound will show when it is read."""
    try:
        if not os.path.isfile(home) or not is_stored(home):
            return []
        fields = read_fields(home)
        stored = [file["path"] for name in ("corpus", "validation") for file in fields.get(name, [])]
        return [path for each in stored if (path := path_from(home, each))]
    except (NeglmError, OSError, TypeError, KeyError):
        return []


def corpus_state(file: dict[str, Any]) -> str:
    """`there`, `gone` or `changed`, as far as a look at the file's size can tell; nothing is read.

    Only a regular file is there: reading a device or a pipe that a stranger's file names might never end."""
    try:
        status = os.stat(file["path"])
        return "there" if stat.S_ISREG(status.st_mode) and status.st_size == file["size"] else "changed"
    except (OSError, ValueError):  # or it is no path at all
        return "gone"


def _not_the_same(path: str, state: str, home: str, what: str) -> NeglmError:
    return NeglmError(f"{path}, the {what} of {home}, has {state}: name a {what}, or make {home} again")


def sample(source: Source) -> str:
    """A fingerprint of some stretches of a file only, which takes no time."""
    digest = xxhash.xxh3_128()
    with open(source.path, "rb") as file:
        for part in range(SAMPLES):
            file.seek(max(0, source.size - SAMPLE) * part // (SAMPLES - 1))
            digest.update(file.read(SAMPLE))
    return digest.hexdigest()


def fingerprint(source: Source, threads: int) -> str:
    """The fingerprint of a file as it is on disk."""
    raw = Source(source.path, source.size, plain=True)  # compressed or not: its own bytes count

    def digest(piece: Block | Range) -> bytes:
        return piece.load().digests[0]

    return combine(ordered_map(digest, raw.pieces(), threads))
