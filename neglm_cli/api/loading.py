"""Opening neglm files."""

import os
from typing import Literal, TypeVar

from neglm_cli.api.files import Vocabulary, WordFile, WordVectors
from neglm_cli.api.keywords import Path, keywords_in_errors
from neglm_cli.api.language_model import LanguageModel
from neglm_cli.errors import UsageError
from neglm_cli.lm.model import CHECKPOINT, MODEL
from neglm_cli.store import container
from neglm_cli.vectors.vectors import KIND as VECTORS
from neglm_cli.vectors.vectors import QUANTIZED

VOCABULARY = "vocabulary"


Loaded = TypeVar("Loaded", bound=WordFile)


@keywords_in_errors
def load(
    path: Path,
    table: Literal["input", "output"] | None = None,
    device: str = "cpu",
    threads: int | None = None,
    subwords: bool = True,
) -> Vocabulary | WordVectors | LanguageModel:
    """Load a vocabulary, word vectors, or a language model, finished or not. A folder of `neglm export --hub` stands
    for the file in it.

    For a language model: table selects its vectors, "input" (the default) or "output"; device runs it, "cpu", "cuda",
    "cuda:1" or "auto"; threads, on the CPU, by default one for each core.

    For vectors: subwords=False gives no vectors to words that are not in the vocabulary."""
    stored = container.read(os.fspath(path), VOCABULARY, VECTORS, QUANTIZED, MODEL, CHECKPOINT)
    if stored.kind == VOCABULARY:
        if table is not None:
            raise UsageError(f"{stored.name} is a vocabulary, not a language model: leave out --table")
        return Vocabulary(stored)
    if stored.kind in (VECTORS, QUANTIZED):
        return WordVectors(stored, table, subwords)
    return LanguageModel(stored, table, device, threads)


def load_as(kind: type[Loaded], path: str) -> Loaded:
    """Load a file that is known to be of this class."""
    loaded = load(path)
    assert isinstance(loaded, kind)
    return loaded
