"""Other tools' file formats, and their names. Imports little, because the command line needs it."""

import os
from enum import StrEnum

GZIP_ENDING = ".gz"
WORDS_ENDING = ".words.txt"
METADATA_ENDING = ".metadata.tsv"


class Format(StrEnum):
    """A value of --format."""

    TEXT = "text"
    BINARY = "binary"
    NPY = "npy"
    TSV = "tsv"
    FASTTEXT = "fasttext"
    FLORET = "floret"


class ImportFormat(StrEnum):
    """The formats that can be imported."""

    TEXT = "text"
    BINARY = "binary"
    NPY = "npy"
    FASTTEXT = "fasttext"
    FLORET = "floret"


ENDINGS = {
    ".txt": Format.TEXT, ".vec": Format.TEXT, ".bin": Format.BINARY, ".npy": Format.NPY, ".tsv": Format.TSV,
    ".floret": Format.FLORET,
}  # fmt: skip
OF_ONE_FILE = (Format.TEXT, Format.BINARY, Format.FASTTEXT, Format.FLORET)  # can be compressed, and written to a pipe


def format_of(path: str) -> Format | None:
    """Return the format of a file by its suffix."""
    return ENDINGS.get(os.path.splitext(path.removesuffix(GZIP_ENDING))[1])


def companion_file(path: str, ending: str) -> str:
    """Return the name of a format's second file: that of the first with another suffix."""
    stem, found = os.path.splitext(path.removesuffix(GZIP_ENDING))
    return (stem if found in ENDINGS else path) + ending


def files_of(path: str, format: Format) -> list[str]:
    """Return the names of a format's files."""
    ending = {Format.NPY: WORDS_ENDING, Format.TSV: METADATA_ENDING}.get(format)
    return [path] if ending is None else [path, companion_file(path, ending)]
