"""Other tools' file formats, and their names. Imports little, because the command line needs it."""

import os
from enum import StrEnum

GZIP_ENDING = ".gz"
WORDS_ENDING = ".words.txt"
METADATA_ENDING = ".metadata.tsv"


class Form(StrEnum):
    """A value of --format."""

    TEXT = "text"
    BINARY = "binary"
    NPY = "npy"
    TSV = "tsv"


class ImportForm(StrEnum):
    """The formats that can be imported."""

    TEXT = "text"
    BINARY = "binary"
    NPY = "npy"


ENDINGS = {".txt": Form.TEXT, ".vec": Form.TEXT, ".bin": Form.BINARY, ".npy": Form.NPY, ".tsv": Form.TSV}
OF_ONE_FILE = (Form.TEXT, Form.BINARY)  # can be compressed, and written to a pipe


def form_of(path: str) -> Form | None:
    """Return the format of a file by its suffix."""
    return ENDINGS.get(os.path.splitext(path.removesuffix(GZIP_ENDING))[1])


def companion_file(path: str, ending: str) -> str:
    """Return the name of a format's second file: that of the first with another suffix."""
    stem, found = os.path.splitext(path.removesuffix(GZIP_ENDING))
    return (stem if found in ENDINGS else path) + ending


def files_of(path: str, form: Form) -> list[str]:
    """Return the names of a format's files."""
    ending = {Form.NPY: WORDS_ENDING, Form.TSV: METADATA_ENDING}.get(form)
    return [path] if ending is None else [path, companion_file(path, ending)]
