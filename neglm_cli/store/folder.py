"""Folders in place of files: a folder stands for the neglm file in it, as `neglm export --hub` writes it."""

import os

FILE = "model.safetensors"


def file_of(path: str) -> str:
    """Return the file to read: the one in a folder that has it, or else the path itself."""
    inside = os.path.join(path, FILE)
    return inside if os.path.isdir(path) and os.path.isfile(inside) else path
