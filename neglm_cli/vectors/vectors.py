"""Files of vectors: a matrix of words, one of contexts, and their words; and the tables of language models."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.store import container
from neglm_cli.store.container import Matrix
from neglm_cli.store.schema import NO_SUBWORDS
from neglm_cli.text.provenance import path_from, path_relative_to
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.quantization import QuantizedMatrix
from neglm_cli.vectors.subwords import SubwordRows, Subwords

KIND = "vectors"
UNKNOWN_OBJECTIVE = "unknown"
NO_CONTEXTS = WordIndex(np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.int64))
LANGUAGE_MODEL = "language model"
QUANTIZED = "quantized vectors"
WITH_VECTORS = (KIND, QUANTIZED, LANGUAGE_MODEL)  # kinds of files
TABLES = {"input": "embedding", "output": "output"}


class Training(NamedTuple):
    """Training of vectors; the fields are those of `Vectors`."""

    objective: str
    k: int
    noise_alpha: float
    arguments: dict[str, Any]
    files: list[dict[str, Any]]
    progress: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Vectors:
    """The contents of a file of vectors."""

    words: WordIndex  # V
    vectors: np.ndarray  # float32 (V, D); a `QuantizedMatrix` stands in for it in quantized files
    contexts: WordIndex  # C
    context_vectors: np.ndarray  # float32 (C, D)
    objective: str = UNKNOWN_OBJECTIVE  # "pmi", "cond", or "unknown"
    k: int = 0
    noise_alpha: float = 1.0
    arguments: dict[str, Any] = field(default_factory=dict)  # all options of the training
    files: list[dict[str, Any]] = field(default_factory=list)  # the corpus; paths from the current directory
    progress: dict[str, Any] = field(default_factory=lambda: {"done": 0, "total": 0})
    subwords: Subwords | None = None

    @property
    def size(self) -> int:
        """D."""
        return self.vectors.shape[1]

    def save(self, path: str) -> str:
        """Write the file. Return its checksum."""
        training = Training(
            self.objective, self.k, self.noise_alpha, self.arguments, self.files, self.progress
        )  # fmt: skip
        return write_vectors(
            path,
            self.words,
            np.asarray(self.vectors),
            self.contexts,
            self.context_vectors,
            training,
            self.subwords.rows if self.subwords else None,
        )

    @classmethod
    def load(cls, path: str) -> "Vectors":
        """Read and verify a file of vectors."""
        return cls.from_stored(container.read(path, KIND))

    @classmethod
    def from_stored(cls, stored: container.Stored) -> "Vectors":
        fields, tensors = stored.fields, stored.tensors
        words, contexts = WordIndex.from_stored(stored), WordIndex.from_stored(stored, "context_")
        files = [file | {"path": path_from(stored.path, file["path"])} for file in fields["corpus"]]
        return cls(
            words, tensors["vectors"], contexts, tensors["context_vectors"],
            fields["objective"], fields["k"], fields["noise_alpha"], fields["arguments"], files, fields["progress"],
            Subwords.from_stored(stored) if fields["buckets"] else None,
        )  # fmt: skip


def write_vectors(
    path: str,
    words: WordIndex,
    vectors: np.ndarray | Matrix,
    contexts: WordIndex,
    context_vectors: np.ndarray | Matrix,
    training: Training,
    subwords: SubwordRows | None = None,
) -> str:
    """Write a file of vectors. Return its checksum."""
    fields = {
        "arguments": training.arguments,
        "corpus": [file | {"path": path_relative_to(path, file["path"])} for file in training.files],
        "objective": training.objective,
        "k": training.k,
        "noise_alpha": training.noise_alpha,
        "progress": training.progress,
        "subwords": NO_SUBWORDS if subwords is None else subwords.lengths,
        "buckets": 0 if subwords is None else subwords.ngrams.shape[0],
        "hash_count": 0 if subwords is None else subwords.hash_count,
    }
    tensors = {
        "words": words.words,
        "offsets": words.offsets,
        "counts": words.counts,
        "vectors": vectors,
        "context_words": contexts.words,
        "context_offsets": contexts.offsets,
        "context_counts": contexts.counts,
        "context_vectors": context_vectors,
    }
    if subwords is not None:
        tensors["ngram_rows"] = subwords.ngrams
        if not subwords.hash_count:
            tensors["word_rows"] = subwords.words
    return container.write(path, KIND, fields, tensors)


def load_vectors(path: str, table: str | None = None) -> Vectors:
    """Read vectors from a file of vectors or a language model. table: see `vectors_of`."""
    return vectors_of(container.read(path, *WITH_VECTORS), table)


def vectors_of(stored: container.Stored, table: str | None = None) -> Vectors:
    """Return the vectors of a file. table: of a language model; the other one has the contexts, if it is as
    wide."""
    if stored.kind in (KIND, QUANTIZED):
        if table is not None:
            raise NeglmError(f"{stored.name} is a file of vectors, not a language model: leave out --table")
        return Vectors.from_stored(stored) if stored.kind == KIND else _quantized_vectors(stored)
    tensors = stored.tensors
    words = WordIndex.from_stored(stored)
    chosen = table or "input"
    other = "output" if chosen == "input" else "input"
    vectors, contexts = (tensors.get(TABLES[each], tensors["output"]) for each in (chosen, other))  # one, if tied
    if contexts.shape != vectors.shape:
        return Vectors(words, vectors, NO_CONTEXTS, np.empty((0, vectors.shape[1]), np.float32))
    return Vectors(words, vectors, words, contexts)


def _quantized_vectors(stored: container.Stored) -> Vectors:
    """Return vectors that are decoded when they are used."""
    fields, tensors = stored.fields, stored.tensors
    matrix = QuantizedMatrix(tensors["centroids"], tensors["codes"], tensors["scales"], fields["dsub"])
    files = [file | {"path": path_from(stored.path, file["path"])} for file in fields["corpus"]]
    return Vectors(
        WordIndex.from_stored(stored), cast(np.ndarray, matrix), NO_CONTEXTS,
        np.empty((0, matrix.shape[1]), np.float32), arguments=fields["arguments"], files=files,
        subwords=Subwords.from_quantized(stored) if fields["buckets"] else None,
    )  # fmt: skip


def write_quantized(path: str, vectors: Vectors, dsub: int) -> str:
    """Write vectors whose matrices are quantized. Return the file's checksum."""
    words, matrix, subwords = vectors.words, vectors.vectors, vectors.subwords
    assert isinstance(matrix, QuantizedMatrix)
    fields = {
        "arguments": vectors.arguments,
        "corpus": [file | {"path": path_relative_to(path, file["path"])} for file in vectors.files],
        "dsub": dsub,
        "subwords": NO_SUBWORDS if subwords is None else subwords.lengths,
        "buckets": 0 if subwords is None else len(subwords.ngrams),
        "hash_count": 0 if subwords is None else subwords.hash_count,
    }
    tensors = {"words": words.words, "offsets": words.offsets, "counts": words.counts} | _codes_of(matrix, "")
    if subwords is not None:
        assert isinstance(subwords.ngrams, QuantizedMatrix)
        tensors |= _codes_of(subwords.ngrams, "ngram_")
    return container.write(path, QUANTIZED, fields, tensors)


def _codes_of(matrix: QuantizedMatrix, prefix: str) -> dict[str, np.ndarray]:
    parts = {"centroids": matrix.centroids, "codes": matrix.codes, "scales": matrix.scales}
    return {prefix + name: array for name, array in parts.items()}
