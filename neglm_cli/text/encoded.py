"""Encoded corpora: sequences of word ids with random access, of any size.

Trainers see only `EncodedCorpus`: its length, and cursors that start at any position. Lines end with the id of `<eos>`.

The ids are usually a memory-mapped copy in a cache directory. It is reused only for the same corpus and vocabulary,
after its checksum was verified; a damaged copy is rebuilt. Without a cache directory, plain files are encoded on
the fly by each cursor; pipes and compressed files, which are not seekable, get a temporary copy.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xxhash

from neglm_cli.errors import NeglmError, count_of
from neglm_cli.kernels.cache import cache_home
from neglm_cli.store import container
from neglm_cli.text.cache import LIMIT_VARIABLE, evict, mark_used, size_limit
from neglm_cli.text.corpus import Corpus, FileFingerprints
from neglm_cli.text.encode import Encoder
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.provenance import fingerprint, path_relative_to
from neglm_cli.text.source import ByteRange
from neglm_cli.text.word_index import WordIndex

KIND = "encoded corpus"
ID_SIZE = 4  # bytes
TEXT_RANGE = 64 << 10  # bytes a text cursor encodes at a time

Announce = Callable[[str], None]  # prints a message


class Cursor(Protocol):
    def take(self, count: int) -> np.ndarray:
        """Return the next `count` ids, int32; fewer at the end of the corpus."""
        ...


class EncodedCorpus(Protocol):
    length: int  # ids, including one `<eos>` per line

    def cursor(self, position: int) -> Cursor:
        """Return a cursor at this position."""
        ...


def default_cache() -> Path:
    """Return the directory for encoded copies: NEGLM_CACHE, or `neglm` in the user's cache directory."""
    try:
        return Path(os.environ.get("NEGLM_CACHE") or cache_home())
    except RuntimeError as error:
        raise NeglmError("there is no home directory for the cache: name a directory with NEGLM_CACHE") from error


def open_encoded(
    corpus: Corpus, vocabulary: WordIndex, threads: int, cache: Path | None, announce: Announce
) -> EncodedCorpus:
    """Encode a corpus, or open its copy in the cache directory. cache: None keeps no copy after the run."""
    encoder = Encoder(vocabulary)
    rereadable = all(source.size >= 0 for source in corpus.sources)
    if cache is not None and rereadable:
        return _cached(corpus, vocabulary, encoder, threads, cache, announce)
    if all(source.plain for source in corpus.sources):
        return TextCorpus(corpus, encoder, threads)
    return _temporary(corpus, vocabulary, encoder, threads, announce)


# --- in memory ----------------------------------------------------------------------------------------


class InMemoryCorpus:
    """Ids in an array."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids.astype(np.int32)
        self.length = len(ids)

    def cursor(self, position: int) -> "InMemoryCursor":
        return InMemoryCursor(self.ids, position)


class InMemoryCursor:
    def __init__(self, ids: np.ndarray, position: int) -> None:
        self._ids = ids
        self._position = position

    def take(self, count: int) -> np.ndarray:
        taken = self._ids[self._position : self._position + count]
        self._position += len(taken)
        return taken


# --- memory-mapped copies -----------------------------------------------------------------------------------


class MappedCorpus:
    """Ids in a memory-mapped file."""

    def __init__(self, path: Path, ids: np.ndarray, vocabulary_size: int) -> None:
        self._ids = ids
        self._path = path
        self._vocabulary_size = vocabulary_size
        self.length = len(self._ids)

    def cursor(self, position: int) -> "MappedCursor":
        return MappedCursor(self, position)

    def read(self, start: int, stop: int) -> np.ndarray:
        ids = np.array(self._ids[start:stop])
        # The checksum detects damage, not malice, and kernels don't check ids.
        if len(ids) and (ids.min() < 0 or ids.max() >= self._vocabulary_size):
            raise NeglmError(f"{self._path} is damaged: it contains invalid word ids; delete it to rebuild it")
        return ids


class MappedCursor:
    def __init__(self, corpus: MappedCorpus, position: int) -> None:
        self._corpus = corpus
        self._position = position

    def take(self, count: int) -> np.ndarray:
        ids = self._corpus.read(self._position, self._position + count)
        self._position += len(ids)
        return ids


def _cached(
    corpus: Corpus, vocabulary: WordIndex, encoder: Encoder, threads: int, cache: Path, announce: Announce
) -> MappedCorpus:
    path, limit = cache / _copy_name(corpus, vocabulary), size_limit()
    ids = _open_copy(path, corpus, vocabulary, threads, announce)
    if ids is None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NeglmError(
                f"cannot create the cache directory {cache}: {error.strerror}; use another one, or none"
            ) from error
        _write_copy(corpus, vocabulary, encoder, threads, path, announce)
        _, ids = container.map_tensor(path, KIND)
        if removed := evict(cache, limit, keep=path):
            announce(
                f"removed {count_of(len(removed), 'least recently used encoded copy')}, "
                f"{sum(c.size for c in removed):,} bytes: {LIMIT_VARIABLE} is {limit:,}"
            )
    mark_used(path)
    return MappedCorpus(path, ids, len(vocabulary))


def _open_copy(
    path: Path, corpus: Corpus, vocabulary: WordIndex, threads: int, announce: Announce
) -> np.ndarray | None:
    """Map the ids of the copy at this path. Return None if it is missing, damaged, or of another corpus."""
    if not path.exists():
        return None
    try:
        fields, ids = container.map_tensor(path, KIND)
    except NeglmError as error:
        announce(f"{str(error).removesuffix('; make it again')}; rebuilding this encoded copy")
        return None
    if not _is_up_to_date(fields, corpus, vocabulary, threads):
        announce("the corpus or the vocabulary has changed; rebuilding the encoded copy")
        return None
    announce(f"using the encoded copy {path} ({ids.nbytes:,} bytes)")
    return ids


def _temporary(
    corpus: Corpus, vocabulary: WordIndex, encoder: Encoder, threads: int, announce: Announce
) -> MappedCorpus:
    """Write a copy for this run only. It is unlinked once mapped, so that no crash can leave it on disk."""
    directory = Path(tempfile.mkdtemp(prefix="neglm-"))
    path = directory / "corpus.ids"
    try:
        _write_copy(corpus, vocabulary, encoder, threads, path, announce)
        return MappedCorpus(path, container.map_tensor(path, KIND)[1], len(vocabulary))
    finally:
        with suppress(OSError):
            os.unlink(path)
        with suppress(OSError):
            os.rmdir(directory)


def _copy_name(corpus: Corpus, vocabulary: WordIndex) -> str:
    """Return a file name unique to this list of files and this vocabulary."""
    paths = [os.path.realpath(source.path) for source in corpus.sources]
    key = xxhash.xxh3_64_hexdigest("\0".join([vocabulary.identity, *paths]).encode())
    stem = Path(corpus.sources[0].path).name.removesuffix(".txt")[:40]
    return f"{stem}-{key}.ids"


def _is_up_to_date(fields: dict[str, Any], corpus: Corpus, vocabulary: WordIndex, threads: int) -> bool:
    """Return True if a copy is of this corpus and vocabulary. Files with the same size and modification time count as
    unchanged, as in make and git; otherwise their fingerprints decide."""
    if fields["vocabulary"] != vocabulary.identity or len(fields["corpus"]) != len(corpus.sources):
        return False
    if any(file["size"] != source.size for file, source in zip(fields["corpus"], corpus.sources, strict=True)):
        return False
    if fields["mtimes_ns"] == _mtimes_ns(corpus):
        return True
    return all(
        file["fingerprint"] == fingerprint(source, threads)
        for file, source in zip(fields["corpus"], corpus.sources, strict=True)
    )


def _mtimes_ns(corpus: Corpus) -> list[int]:
    return [os.stat(source.path).st_mtime_ns if source.size >= 0 else 0 for source in corpus.sources]


def _write_copy(
    corpus: Corpus, vocabulary: WordIndex, encoder: Encoder, threads: int, path: Path, announce: Announce
) -> None:
    files = FileFingerprints(corpus)
    fields: dict[str, Any] = {
        "corpus": _stored_files(files, path),
        "vocabulary": vocabulary.identity,
        "lines": 0,
        "mtimes_ns": _mtimes_ns(corpus),
    }
    with container.write_streaming(path, KIND, fields) as ids:
        for block, block_ids in encoder.encode_corpus(corpus, threads):
            if ids.length == 0:
                _announce_size(corpus, block.read, len(block_ids), path, announce)
            ids.append(block_ids)
            fields["lines"] += int(np.count_nonzero(block_ids == encoder.end_of_line))
            files.add(block)
        fields["corpus"] = _stored_files(files, path)


def _stored_files(files: FileFingerprints, copy: Path) -> list[dict[str, Any]]:
    return [file | {"path": path_relative_to(str(copy), file["path"])} for file in files.records()]


def _announce_size(corpus: Corpus, read: int, words: int, path: Path, announce: Announce) -> None:
    """Announce the size of the copy, estimated from the first block. Raise if the disk is too small."""
    if corpus.size is None or not read:
        announce(f"writing an encoded copy to {path.parent} ({ID_SIZE} bytes per word)")
        return
    estimate = int(corpus.size / read * words * ID_SIZE)
    free = shutil.disk_usage(path.parent).free
    if estimate > free:
        raise NeglmError(
            f"an encoded copy of the corpus takes about {estimate:,} bytes, but {path.parent} has {free:,} free; "
            "use another cache directory, or none"
        )
    announce(f"writing an encoded copy of about {estimate:,} bytes to {path.parent}")


# --- text encoded on the fly --------------------------------------------------------------------------


class TextCorpus:
    """Ids encoded from text on each read; only the number of ids in each range is stored."""

    def __init__(self, corpus: Corpus, encoder: Encoder, threads: int) -> None:
        self._encoder = encoder
        self._chunks = [range_ for source in corpus.sources for range_ in source.ranges(TEXT_RANGE)]

        def count(chunk: ByteRange) -> int:
            return len(encoder.encode_chunk(chunk)[1])

        counts = np.fromiter(ordered_map(count, self._chunks, threads), np.int64, len(self._chunks))
        self._ends = np.cumsum(counts)  # ids up to the end of each range
        self.length = int(self._ends[-1])

    def cursor(self, position: int) -> "TextCursor":
        return TextCursor(self._ids_from(position))

    def _ids_from(self, position: int) -> Iterator[np.ndarray]:
        first = int(np.searchsorted(self._ends, position, side="right"))
        skipped = position - (int(self._ends[first - 1]) if first else 0)
        for chunk in self._chunks[first:]:
            yield self._encoder.encode_chunk(chunk)[1][skipped:]
            skipped = 0


class TextCursor:
    def __init__(self, chunks: Iterator[np.ndarray]) -> None:
        self._chunks = chunks
        self._buffered = np.empty(0, np.int32)

    def take(self, count: int) -> np.ndarray:
        parts = []
        while count:
            part, self._buffered = self._buffered[:count], self._buffered[count:]
            parts.append(part)
            count -= len(part)
            if count:
                try:
                    self._buffered = next(self._chunks)
                except StopIteration:
                    break
        return np.concatenate(parts) if parts else self._buffered[:0]
