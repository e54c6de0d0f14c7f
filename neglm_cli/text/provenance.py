"""Provenance: the corpus files recorded in a neglm file, and checks that they are unchanged."""

import os
import stat
from collections.abc import Sequence
from typing import Any

import xxhash

from neglm_cli.errors import NeglmError
from neglm_cli.store.container import is_safetensors, read_fields
from neglm_cli.store.output import STANDARD_STREAM
from neglm_cli.text.corpus import Corpus, open_corpus
from neglm_cli.text.fingerprint import combine
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.source import Chunk, Source

SAMPLES, SAMPLE_SIZE = 16, 1 << 12  # samples of a file, and bytes of each


def path_relative_to(recorded_in: str, path: str | None) -> str | None:
    """Return the path to store in the file `recorded_in`: relative to the directory of that file, if possible."""
    if path is None:
        return None
    try:
        absolute = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return os.path.relpath(absolute, _directory(recorded_in))
    except (ValueError, OSError):  # on another drive, or the current directory was deleted
        return path


def path_from(recorded_in: str, stored: str | None) -> str | None:
    """Return the path to open for one stored in `recorded_in`, relative to the current directory if possible."""
    if stored is None:
        return None
    try:
        return os.path.relpath(os.path.join(_directory(recorded_in), stored))
    except (ValueError, OSError):
        return os.path.join(os.path.dirname(recorded_in), stored)


def _directory(recorded_in: str) -> str:
    """Return the directory that paths stored in a file are relative to: its own, or the current one for a pipe."""
    if recorded_in == STANDARD_STREAM or (os.path.exists(recorded_in) and not os.path.isfile(recorded_in)):
        return os.getcwd()
    return os.path.dirname(os.path.realpath(recorded_in))


def reopen(files: Sequence[dict[str, Any]], recorded_in: str, threads: int, what: str = "corpus") -> Corpus:
    """Open the corpus that `recorded_in` (e.g. a vocabulary) was made from. Raise if it is missing or has changed."""
    if not files:
        raise NeglmError(f"{recorded_in} has no record of its {what}; name one")
    for file in files:
        if file["path"] is None:
            raise NeglmError(f"the {what} of {recorded_in} was a pipe, which cannot be read again; name a {what}")
        state = corpus_state(file)
        if state != "there":
            raise _changed_error(file["path"], state, recorded_in, what)
    corpus = open_corpus([file["path"] for file in files])
    for file, source in zip(files, corpus.sources, strict=True):
        if fingerprint(source, threads) != file["fingerprint"]:
            raise _changed_error(file["path"], "changed", recorded_in, what)
    return corpus


def recorded_paths(recorded_in: str) -> list[str]:
    """Return the paths of the texts that a file was made from or validated on; none if it is not a neglm file.

    Reads only the header, without verifying the file."""
    try:
        if not os.path.isfile(recorded_in) or not is_safetensors(recorded_in):
            return []
        fields = read_fields(recorded_in)
        stored = [file["path"] for name in ("corpus", "validation") for file in fields.get(name, [])]
        return [path for each in stored if (path := path_from(recorded_in, each))]
    except (NeglmError, OSError, TypeError, KeyError):
        return []


def corpus_state(file: dict[str, Any]) -> str:
    """Return `there`, `gone` or `changed`, judging by the file's size without reading it.

    Only regular files are `there`: reading a device or pipe named in an untrusted file might never return."""
    try:
        status = os.stat(file["path"])
        return "there" if stat.S_ISREG(status.st_mode) and status.st_size == file["size"] else "changed"
    except (OSError, ValueError):  # ValueError: not a valid path
        return "gone"


def _changed_error(path: str, state: str, recorded_in: str, what: str) -> NeglmError:
    fate = "is missing" if state == "gone" else "has changed"
    return NeglmError(f"{path}, the {what} of {recorded_in}, {fate}; name a {what}, or make {recorded_in} again")


def sample(source: Source) -> str:
    """Return a fingerprint of a few samples of a file, which is fast for any size."""
    digest = xxhash.xxh3_128()
    with open(source.path, "rb") as file:
        for part in range(SAMPLES):
            file.seek(max(0, source.size - SAMPLE_SIZE) * part // (SAMPLES - 1))
            digest.update(file.read(SAMPLE_SIZE))
    return digest.hexdigest()


def fingerprint(source: Source, threads: int) -> str:
    """Return the fingerprint of a file as it is on disk."""
    raw = Source(source.path, source.size, plain=True, label=source.label)  # hash the bytes on disk, compressed or not

    def digest(chunk: Chunk) -> bytes:
        return chunk.load().digests[0]

    return combine(ordered_map(digest, raw.chunks(), threads))
