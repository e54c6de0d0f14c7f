"""A corpus as a sequence of word ids that can be read from any place, however large it is.

The trainers see only `EncodedCorpus`: its length, and cursors that start anywhere and walk on. Ends of lines
are in the sequence as the id of `<eos>`, so a walk over it is a walk over sentences.

Behind it is a memory-mapped copy of the ids in a cache directory. It is made once and used again only for the
same corpus and the same vocabulary, after its checksum has been verified; a damaged one is made again. With no
cache directory a plain file is read as text, each cursor encoding what it needs; what cannot be read twice (a pipe)
or from the middle (a compressed file) goes to a temporary copy.
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

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import cache_home
from neglm_cli.store import container
from neglm_cli.text.alphabet import Alphabet
from neglm_cli.text.cache import LIMIT_VARIABLE, make_room, mark_used, size_limit
from neglm_cli.text.encode import Encoder
from neglm_cli.text.parallel import ordered_map
from neglm_cli.text.remembered import fingerprint, path_relative_to
from neglm_cli.text.source import Corpus, FilesRead, Range

KIND = "encoded corpus"
ID_SIZE = 4  # bytes
TEXT_RANGE = 64 << 10  # bytes of text that a cursor without a copy holds at a time

Announce = Callable[[str], None]


class Cursor(Protocol):
    def take(self, count: int) -> np.ndarray:
        """The next `count` ids, int32; fewer at the end of the corpus."""
        ...


class EncodedCorpus(Protocol):
    length: int  # words, with one end of sentence per line

    def cursor(self, position: int) -> Cursor:
        """A cursor at the word with this number."""
        ...


def default_cache() -> Path:
    """The directory for encoded copies: NEGLM_CACHE, or `neglm` in the user's cache directory."""
    return Path(os.environ.get("NEGLM_CACHE") or cache_home())


def open_encoded(
    corpus: Corpus, vocabulary: Alphabet, threads: int, cache: Path | None, announce: Announce
) -> EncodedCorpus:
    """The corpus as ids; `cache` None for no copy that stays. `announce` is told what is written or used."""
    encoder = Encoder(vocabulary)
    readable_again = all(source.size >= 0 for source in corpus.sources)
    if cache is not None and readable_again:
        return _cached(corpus, vocabulary, encoder, threads, cache, announce)
    if all(source.plain for source in corpus.sources):
        return TextCorpus(corpus, encoder, threads)
    return _temporary(corpus, vocabulary, encoder, threads, announce)


# --- a copy on disk -----------------------------------------------------------------------------------


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
        # The checksum tells damage, not mischief, and a kernel trusts every id.
        if len(ids) and (ids.min() < 0 or ids.max() >= self._vocabulary_size):
            raise NeglmError(f"{self._path} is damaged: it has ids that are no words; delete it, and it is made again")
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
    corpus: Corpus, vocabulary: Alphabet, encoder: Encoder, threads: int, cache: Path, announce: Announce
) -> MappedCorpus:
    path, limit = cache / _copy_name(corpus, vocabulary), size_limit()
    ids = _usable(path, corpus, vocabulary, threads, announce)
    if ids is None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NeglmError(
                f"cannot make the cache directory {cache}: {error.strerror}; name another, or use none"
            ) from error
        _write_copy(corpus, vocabulary, encoder, threads, path, announce)
        _, ids = container.map_tensor(path, KIND)
        if removed := make_room(cache, limit, keep=path):
            announce(
                f"removed {len(removed)} encoded copies that were not used for long, {sum(c.size for c in removed):,} "
                f"bytes: {LIMIT_VARIABLE} is {limit:,}"
            )
    mark_used(path)
    return MappedCorpus(path, ids, len(vocabulary))


def _usable(path: Path, corpus: Corpus, vocabulary: Alphabet, threads: int, announce: Announce) -> np.ndarray | None:
    """The ids of the copy at this path, if it is there, undamaged, and of this corpus."""
    if not path.exists():
        return None
    try:
        fields, ids = container.map_tensor(path, KIND)
    except NeglmError as error:
        announce(f"{str(error).removesuffix('; make it again')}: this encoded copy is made again")
        return None
    if not _made_from(fields, corpus, vocabulary, threads):
        announce("the corpus or the vocabulary has changed: its encoded copy is made again")
        return None
    announce(f"using the encoded copy {path} ({ids.nbytes:,} bytes)")
    return ids


def _temporary(
    corpus: Corpus, vocabulary: Alphabet, encoder: Encoder, threads: int, announce: Announce
) -> MappedCorpus:
    """A copy for this run only. Once mapped it needs no name, so that nothing is left however the run ends."""
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


def _copy_name(corpus: Corpus, vocabulary: Alphabet) -> str:
    """One name for one list of files and one vocabulary."""
    paths = [os.path.realpath(source.path) for source in corpus.sources]
    key = xxhash.xxh3_64_hexdigest("\0".join([vocabulary.identity, *paths]).encode())
    stem = Path(corpus.sources[0].path).name.removesuffix(".txt")[:40]
    return f"{stem}-{key}.ids"


def _made_from(fields: dict[str, Any], corpus: Corpus, vocabulary: Alphabet, threads: int) -> bool:
    """Whether a copy is of this corpus. Unchanged size and time of change are taken for an unchanged file,
    as make and git do; otherwise its contents decide."""
    if fields["vocabulary"] != vocabulary.identity or len(fields["corpus"]) != len(corpus.sources):
        return False
    if any(file["size"] != source.size for file, source in zip(fields["corpus"], corpus.sources, strict=True)):
        return False
    if fields["modified"] == _modified(corpus):
        return True
    return all(
        file["fingerprint"] == fingerprint(source, threads)
        for file, source in zip(fields["corpus"], corpus.sources, strict=True)
    )


def _modified(corpus: Corpus) -> list[int]:
    return [os.stat(source.path).st_mtime_ns if source.size >= 0 else 0 for source in corpus.sources]


def _write_copy(
    corpus: Corpus, vocabulary: Alphabet, encoder: Encoder, threads: int, path: Path, announce: Announce
) -> None:
    files = FilesRead(corpus)
    fields: dict[str, Any] = {
        "corpus": _stored_files(files, path),
        "vocabulary": vocabulary.identity,
        "lines": 0,
        "modified": _modified(corpus),
    }
    with container.write_growing(path, KIND, fields) as ids:
        for block, block_ids in encoder.encode_corpus(corpus, threads):
            if ids.length == 0:
                _announce_size(corpus, block.read, len(block_ids), path, announce)
            ids.append(block_ids)
            fields["lines"] += int(np.count_nonzero(block_ids == encoder.end_of_line))
            files.add(block)
        fields["corpus"] = _stored_files(files, path)


def _stored_files(files: FilesRead, copy: Path) -> list[dict[str, Any]]:
    return [file | {"path": path_relative_to(str(copy), file["path"])} for file in files.records()]


def _announce_size(corpus: Corpus, read: int, words: int, path: Path, announce: Announce) -> None:
    """Say how large the copy will be, going by the first block, and refuse if the disk cannot hold it."""
    if corpus.size is None or not read:
        announce(f"writing an encoded copy to {path.parent} ({ID_SIZE} bytes a word)")
        return
    estimate = int(corpus.size / read * words * ID_SIZE)
    free = shutil.disk_usage(path.parent).free
    if estimate > free:
        raise NeglmError(
            f"an encoded copy of the corpus takes about {estimate:,} bytes and {path.parent} has {free:,} left: "
            "name another cache directory, or use none"
        )
    announce(f"writing an encoded copy of about {estimate:,} bytes to {path.parent}")


# --- no copy ------------------------------------------------------------------------------------------


class TextCorpus:
    """Ids made from the text whenever they are read; only where in the text they are is remembered."""

    def __init__(self, corpus: Corpus, encoder: Encoder, threads: int) -> None:
        self._encoder = encoder
        self._pieces = [piece for source in corpus.sources for piece in source.ranges(TEXT_RANGE)]

        def words(piece: Range) -> int:
            return len(encoder.encode_piece(piece)[1])

        counts = np.fromiter(ordered_map(words, self._pieces, threads), np.int64, len(self._pieces))
        self._ends = np.cumsum(counts)  # words up to the end of each piece
        self.length = int(self._ends[-1])

    def cursor(self, position: int) -> "TextCursor":
        return TextCursor(self._ids_from(position))

    def _ids_from(self, position: int) -> Iterator[np.ndarray]:
        first = int(np.searchsorted(self._ends, position, side="right"))
        skipped = position - (int(self._ends[first - 1]) if first else 0)
        for piece in self._pieces[first:]:
            yield self._encoder.encode_piece(piece)[1][skipped:]
            skipped = 0


class TextCursor:
    def __init__(self, pieces: Iterator[np.ndarray]) -> None:
        self._pieces = pieces
        self._ahead = np.empty(0, np.int32)

    def take(self, count: int) -> np.ndarray:
        parts = []
        while count:
            part, self._ahead = self._ahead[:count], self._ahead[count:]
            parts.append(part)
            count -= len(part)
            if count:
                try:
                    self._ahead = next(self._pieces)
                except StopIteration:
                    break
        return np.concatenate(parts) if parts else self._ahead[:0]
