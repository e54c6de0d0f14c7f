"""The vectors that --init-vectors names."""

from neglm_cli.errors import NeglmError, shown
from neglm_cli.vectors.vectors import Vectors, load_vectors


def load_init_vectors(path: str | None, size: int, option: str) -> Vectors | None:
    """Read vectors, or those of a language model. Raise unless they have this size, which `option` sets."""
    if path is None:
        return None
    vectors = load_vectors(path)
    if vectors.size != size:
        raise NeglmError(f"{shown(path)} has vectors of size {vectors.size}, not {size}: use {option} {vectors.size}")
    return vectors
