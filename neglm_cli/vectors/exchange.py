"""Import and export of vectors in other tools' formats."""

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO, cast

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM, writing, writing_both
from neglm_cli.store.wording import FASTTEXT_MAGIC
from neglm_cli.text.source import NEGLM_MARK, NEGLM_START
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import fasttext, floret, two_files, word2vec
from neglm_cli.vectors.formats import GZIP_ENDING, WORDS_ENDING, Format, ImportFormat, companion_file, files_of
from neglm_cli.vectors.reading import InputBuffer, Table, displayed, open_input
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors

FORBIDDEN = {
    Format.TEXT: word2vec.FORBIDDEN,
    Format.BINARY: word2vec.FORBIDDEN,
    Format.NPY: two_files.NPY_FORBIDDEN,
    Format.TSV: two_files.TSV_FORBIDDEN,
    Format.FASTTEXT: fasttext.FORBIDDEN,
    Format.FLORET: b"",  # it has no words
}
SUBSTITUTE = b"_"
COMPRESSION_LEVEL = 1  # digits hardly compress: level 6 saves 10% and takes six times as long
ZIP_MAGIC = b"PK\x03\x04"  # of GloVe downloads, and of .npz


def most_frequent(words: WordIndex, vectors: np.ndarray, top: int | None) -> tuple[WordIndex, np.ndarray]:
    """Return the `top` most frequent words and their vectors, the most frequent first; all, unsorted, if None."""
    if top is None:
        return words, vectors
    order = np.argsort(-words.counts, kind="stable")[:top]
    return WordIndex.of((words[i] for i in order), words.counts[order]), vectors[order]


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to unit length; zero vectors stay zero."""
    norms = np.sqrt(np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64))  # V
    norms[norms == 0] = 1
    return np.divide(vectors, norms[:, None], out=np.empty_like(vectors), casting="same_kind")


def replace_white_space(words: WordIndex, format: Format) -> tuple[WordIndex, int]:
    """Replace whitespace that the format cannot represent by `_`. Return the words, and how many changed."""
    before = words.words.tobytes()
    after = before.translate(bytes.maketrans(FORBIDDEN[format], SUBSTITUTE * len(FORBIDDEN[format])))
    word_bytes = np.frombuffer(after, np.uint8)
    changes = np.flatnonzero(word_bytes != words.words)
    if not len(changes):
        return words, 0
    changed = WordIndex(word_bytes, words.offsets, words.counts)
    _check_distinct(words, changed)
    return changed, len(np.unique(np.searchsorted(words.offsets, changes, side="right")))


def _check_distinct(words: WordIndex, changed: WordIndex) -> None:
    first: dict[bytes, bytes] = {}
    for word, written in zip(words, changed, strict=True):
        if first.setdefault(written, word) != word:
            raise NeglmError(
                f"the words `{displayed(first[written])}` and `{displayed(word)}` would both be written as "
                f"`{displayed(written)}`, because this format cannot represent whitespace; choose another with --format"
            )


def write(
    words: WordIndex,
    vectors: np.ndarray,
    path: str,
    format: Format,
    advance: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """Write the one or two files of a format. Return their names. advance: called with the number of rows written."""
    vectors = np.ascontiguousarray(vectors, np.float32)
    if format in (Format.TEXT, Format.BINARY):
        write_format = word2vec.write_text if format is Format.TEXT else word2vec.write_binary
        return _write_one(path, format is Format.BINARY, lambda file: write_format(file, words, vectors, advance))
    _, other = files_of(path, format)
    if os.path.exists(path) and not os.path.isfile(path):
        raise NeglmError(f"cannot write {shown(path)}: this format has two files; name a regular file")
    with writing_both(path, other) as (matrix, spelled):
        if format is Format.NPY:
            two_files.write_npy_words(spelled, words)
            two_files.write_npy(matrix, vectors, advance)
        else:
            two_files.write_tsv_metadata(spelled, words)
            two_files.write_tsv(matrix, vectors, advance)
    return [path, other]


def write_fasttext(
    vectors: Vectors, path: str, advance: Callable[[int], None] = lambda count: None
) -> list[str]:  # fmt: skip
    """Write a fastText model, with subwords if there are any. Return its name. advance: see `write`."""
    if vectors.subwords is not None and vectors.subwords.hash_count:
        raise NeglmError("fastText's models have no tables of floret: use --format floret, or text for the words alone")
    return _write_one(path, True, lambda file: fasttext.write_model(file, vectors, advance))


def write_floret(
    vectors: Vectors, path: str, advance: Callable[[int], None] = lambda count: None
) -> list[str]:  # fmt: skip
    """Write the table of floret. Return its name. advance: see `write`."""
    subwords = vectors.subwords
    if subwords is None or not subwords.hash_count:
        raise NeglmError("there is no table of floret: train one with `neglm embed --subwords 3-6 --floret`")
    return _write_one(path, False, lambda file: floret.write_table(file, subwords, advance))


def _write_one(path: str, binary: bool, write_to: Callable[[BinaryIO], None]) -> list[str]:
    compressed = path.endswith(GZIP_ENDING)
    with writing(path, binary=compressed or binary) as file:
        if compressed:
            with gzip.GzipFile("", "wb", COMPRESSION_LEVEL, file, mtime=0) as smaller:
                write_to(cast(BinaryIO, smaller))
        else:
            write_to(file)
    return [path]


def subset(vectors: Vectors, top: int | None) -> Vectors:
    """Return the `top` most frequent words, the most frequent first, with their rows; all, unsorted, if None."""
    if top is None:
        return vectors
    words, matrix = most_frequent(vectors.words, vectors.vectors, top)
    subwords = vectors.subwords
    if subwords is not None:
        subwords = replace(subwords, words=most_frequent(vectors.words, subwords.words, top)[1])
    return replace(vectors, words=words, vectors=matrix, subwords=subwords)


def read(
    path: str, format: ImportFormat | None, words: str | None, advance: Callable[[int], None] = lambda count: None
) -> tuple[Table, ImportFormat]:
    """Read a file of any format. words: the word list of an .npy file; by default the one next to it."""
    with open_input(path, advance) as source:
        found = format or detect_format(source)
        return _read_table(source, found, words, path), found


def _read_table(source: InputBuffer, format: ImportFormat, words: str | None, path: str) -> Table:
    if format is ImportFormat.NPY:
        return two_files.read_npy(source, words or _words_next_to(path))
    if words is not None:
        raise NeglmError(f"{source.name} has the format `{format}`, which includes its words: leave out --word-list")
    if format in (ImportFormat.FASTTEXT, ImportFormat.FLORET):
        what = "a fastText model" if format is ImportFormat.FASTTEXT else "a table of floret"
        raise NeglmError(f"{source.name} is {what}, which has no context vectors of its own: leave it out")
    return (word2vec.read_text if format is ImportFormat.TEXT else word2vec.read_binary)(source)


def import_vectors(
    path: str, format: ImportFormat | None, words: str | None, contexts: str | None,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[Vectors, ImportFormat]:  # fmt: skip
    """Read a file of any format, and one with its contexts, if any."""
    with open_input(path, advance) as source:
        found = format or detect_format(source)
        if found is ImportFormat.FASTTEXT:
            return _fasttext_model(source, words, contexts), found
        if found is ImportFormat.FLORET:
            if contexts is not None:
                raise NeglmError(f"{source.name} is a table of floret, which has no contexts: leave out --context-file")
            return floret.read_table(source, words), found
        table = _read_table(source, found, words, path)
    others = None if contexts is None else read(contexts, format, None, advance)[0]
    return assemble(table, others), found


def _fasttext_model(source: InputBuffer, words: str | None, contexts: str | None) -> Vectors:
    for given, option in ((words, "--word-list"), (contexts, "--context-file")):
        if given is not None:
            raise NeglmError(f"{source.name} is a fastText model, which includes these: leave out {option}")
    if bytes(source.text[source.begin : source.begin + 4]) != FASTTEXT_MAGIC:
        raise NeglmError(f"{source.name} is not a fastText model: leave out --format")
    return fasttext.read_model(source)


def detect_format(source: InputBuffer) -> ImportFormat:
    """Detect the format from the first bytes."""
    start = bytes(source.text[source.begin : source.begin + 64])
    if start.startswith(two_files.NPY_MAGIC):
        return ImportFormat.NPY
    if start[NEGLM_START:].startswith(NEGLM_MARK):
        raise NeglmError(f"{source.name} is already a neglm file; `neglm info` shows its contents")
    if start.startswith(FASTTEXT_MAGIC):
        return ImportFormat.FASTTEXT
    if start.startswith(ZIP_MAGIC):
        raise NeglmError(f"{source.name} is a zip archive; unpack it first")
    if floret.HEADER.match(source.text, source.begin, source.end):
        return ImportFormat.FLORET
    if word2vec.looks_like_text(source):
        return ImportFormat.TEXT
    if word2vec.HEADER.match(source.text, source.begin, source.end):
        return ImportFormat.BINARY
    raise NeglmError(
        f"{source.name} has an unknown format; supported are word2vec text, word2vec binary, fastText models, floret "
        "tables and .npy"
    )


def assemble(words: Table, contexts: Table | None) -> Vectors:
    """Combine words and contexts. The formats have no counts, so every word gets 1."""
    size = words.vectors.shape[1]
    if contexts is None:
        return Vectors(_word_index(words), words.vectors, NO_CONTEXTS, np.empty((0, size), np.float32))
    if contexts.vectors.shape[1] != size:
        raise NeglmError(
            f"the word vectors have {size:,} dimensions, but the context vectors {contexts.vectors.shape[1]:,}: "
            "they do not belong together"
        )
    return Vectors(_word_index(words), words.vectors, _word_index(contexts), contexts.vectors)


def _word_index(table: Table) -> WordIndex:
    return WordIndex.of(table.words, np.ones(len(table.words), np.int64))


def _words_next_to(path: str) -> str:
    found = companion_file(path, WORDS_ENDING)
    if path == STANDARD_STREAM or not os.path.exists(found):
        expected = "" if path == STANDARD_STREAM else f", and {shown(found)} does not exist"
        raise NeglmError(f"an .npy file contains no words{expected}: name a word list with --word-list")
    return found
