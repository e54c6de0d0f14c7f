"""The forms in which other tools keep vectors, and how their files are called. Light: the command line needs it."""

import os
from enum import StrEnum

GZIP_ENDING = ".gz"
WORDS_ENDING = ".words.txt"
METADATA_ENDING = ".metadata.tsv"


class Form(StrEnum):
    """What --form names."""

    TEXT = "text"
    BINARY = "binary"
    NPY = "npy"
    TSV = "tsv"


class ImportForm(StrEnum):
    """Those that hold the words and can be read."""

    TEXT = "text"
    BINARY = "binary"
    NPY = "npy"


ENDINGS = {".txt": Form.TEXT, ".vec": Form.TEXT, ".bin": Form.BINARY, ".npy": Form.NPY, ".tsv": Form.TSV}
OF_ONE_FILE = (Form.TEXT, Form.BINARY)  # these can be compressed, and go to a pipe


def form_of(path: str) -> Form | None:
    """The form that a file of this name has."""
    return ENDINGS.get(os.path.splitext(path.removesuffix(GZIP_ENDING))[1])


def beside(path: str, ending: str) -> str:
    """The second file of a form that has two: the name of the first with another ending."""
    stem, found = os.path.splitext(path.removesuffix(GZIP_ENDING))
    return (stem if found in ENDINGS else path) + ending


def files_of(path: str, form: Form) -> list[str]:
    """The files that this form is written to."""
    ending = {Form.NPY: WORDS_ENDING, Form.TSV: METADATA_ENDING}.get(form)
    return [path] if ending is None else [path, beside(path, ending)]
