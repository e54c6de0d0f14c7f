"""Opening corpora: files and standard input, plain or compressed, as blocks of whole words.

A plain file is cut into byte ranges that any thread can read; a compressed one, or a pipe, is read by a
thread of its own, beside those that work on what it has read. Either way what comes out is the same: blocks
in the order of the text, cut between words, and a newline at the end of every line, the last one too.
"""

import io
import os
import queue
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import numpy as np
import xxhash

from neglm_cli.errors import NeglmError, empty, shown
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.store.output import STANDARD_STREAM
from neglm_cli.store.wording import missing
from neglm_cli.text.bits import PADDING
from neglm_cli.text.compression import BROKEN, WINDOW, asks_for_memory, compression_of
from neglm_cli.text.fingerprint import BLOCK, BlockDigests, combine
from neglm_cli.text.tokens import SPACE, first_space, last_space

NEWLINE = ord("\n")
READ_AHEAD = 1 << 10  # bytes behind a range that are read with it
FIRST_PIECE = 1 << 12  # bytes that are read of a word that goes on behind them; the next piece has twice as many
QUEUED_BLOCKS = 4  # how far a decompressing thread may be ahead

LINES = 1 << 16  # bytes of lines that are looked at together
MAGIC_SIZE = 10
NEGLM_START, NEGLM_MARK = 8, b'{"__metadata__":{"checksum":"'  # how our own files begin, and where

Advance = Callable[[int], None]  # told how many bytes were read since the last call


def _unwatched(count: int) -> None:
    pass


@dataclass
class Block:
    """text[:length] holds whole words of one file; PADDING bytes follow."""

    source: "Source"
    text: np.ndarray
    length: int
    read: int  # bytes of the file on disk that were read for it
    digests: list[bytes] = field(default_factory=list)  # of blocks of the file on disk, see `fingerprint`
    completed: bool = False  # the newline at its end is not in the file, whose last line has none

    def load(self) -> "Block":
        return self


@dataclass(frozen=True)
class Range:
    """A block of a plain file that is still to be read: the words that start in bytes start to stop."""

    source: "Source"
    start: int
    stop: int

    def load(self) -> Block:
        before = min(self.start, 1)  # the byte before tells whether a word reaches into this range
        length = before + self.stop - self.start
        ahead = min(READ_AHEAD, self.source.size - self.stop)  # nearly always enough to finish the last word
        text = np.empty(length + ahead + 1 + PADDING, np.uint8)
        try:
            with open(self.source.path, "rb", buffering=0) as file:
                file.seek(self.start - before)
                if read_all(file, text[: length + ahead].data) < length + ahead:
                    raise NeglmError(f"{self.source.name} became shorter while it was read: wait until it is complete")
                digest = xxhash.xxh3_128_digest(text[before:length].data)
                last_byte = text[length - 1]
                begin = before
                if before and not SPACE[text[0]]:
                    begin = first_space(text, 1, length)
                if begin < length and not SPACE[last_byte]:
                    end = first_space(text, length, length + ahead)
                    if end == length + ahead and self.stop + ahead < self.source.size:
                        text, end = _finish_word(file, text[:end])
                    length = end
        except OSError as error:
            raise self.source.unreadable(error) from error
        completed = bool(self.stop == self.source.size and last_byte != NEWLINE)
        if completed:
            text[length] = NEWLINE
            length += 1
        return Block(self.source, text[begin:], length - begin, self.stop - self.start, [digest], completed)


@dataclass(frozen=True, eq=False)
class Source:
    """One file of a corpus, or standard input. The same file named twice makes two."""

    path: str
    size: int  # bytes on disk; -1 if only reading to the end tells
    plain: bool  # a regular file that is not compressed: can be read from any place
    label: str = ""  # what to call it in a sentence, if it is the copy of something else

    @property
    def name(self) -> str:
        return self.label or ("standard input" if self.path == STANDARD_STREAM else shown(self.path))

    def unreadable(self, error: OSError) -> NeglmError:
        return NeglmError(f"cannot read {self.name}: {error.strerror or error}")

    def pieces(self) -> Iterator[Block | Range]:
        """The file's text in order, each piece to be `load`ed by the thread that needs it."""
        return self.ranges(BLOCK) if self.plain else _read_beside(self._stream())

    def ranges(self, size: int) -> Iterator[Range]:
        """A plain file in ranges of this size."""
        return (Range(self, start, min(start + size, self.size)) for start in range(0, self.size, size))

    def _stream(self) -> Iterator[Block]:
        """Read, decompress and cut into blocks between words."""
        with self._decompressed() as (text, raw):
            yield from self._cut(text, raw)

    def lines(self, advance: Advance = _unwatched) -> Iterator[list[bytes]]:
        """The lines that are there at once, without their ends; the next ones when these have been used. One that has
        been written is not waited behind: a program at the other end of a pipe may want an answer to it first.

        `advance` is told the bytes on disk of lines that have been used."""
        buffer = bytearray(LINES)
        rest = bytearray()  # the beginning of a line that has not ended: grows in place, which keeps long lines linear
        used = 0
        with self._decompressed() as (text, raw):
            while length := cast(io.RawIOBase, text).readinto(buffer):
                first, *others = buffer[:length].split(b"\n")
                rest += first
                if others:
                    *lines, last = others
                    yield [bytes(rest), *map(bytes, lines)]
                    rest = last
                advance(raw.count - used)
                used = raw.count
        if rest:
            yield [bytes(rest)]

    @contextmanager
    def reading(self, advance: Advance = _unwatched) -> Iterator[BinaryIO]:
        """The file's bytes, decompressed; whatever is wrong with them becomes a sentence. `advance` is told how many
        bytes on disk were read."""
        with self._decompressed(advance) as (text, _):
            yield text

    @contextmanager
    def _decompressed(self, advance: Advance = _unwatched) -> Iterator[tuple[BinaryIO, "_Raw"]]:
        try:
            with _open_raw(self.path) as file:
                raw = _Raw(file, advance)
                kind, text = _decompressed(raw)
                try:
                    yield text, raw
                except EOFError as error:
                    raise NeglmError(f"{self.name} is cut short: its {kind} data end too early") from error
                except BROKEN as error:
                    if asks_for_memory(error):
                        raise NeglmError(
                            f"{self.name} takes more than {WINDOW >> 20} MB of memory to decompress: decompress it "
                            f"beforehand, or compress it again with a smaller window (for example {kind} -9)"
                        ) from error
                    raise NeglmError(f"{self.name} is damaged: {kind} says: {error}") from error
                except OSError as error:
                    if error.errno is not None:
                        raise
                    raise NeglmError(f"{self.name} is damaged: {kind} says: {error}") from error  # as bz2 does
        except FileNotFoundError as error:
            raise NeglmError(missing(self.path, self.name)) from error
        except OSError as error:
            raise self.unreadable(error) from error

    def _cut(self, text: BinaryIO, raw: "_Raw") -> Iterator[Block]:
        rest = bytearray()  # an unfinished word: grows in place, however long it is
        last_byte = NEWLINE
        read = 0
        while True:
            buffer = np.empty(BLOCK, np.uint8)
            length = read_all(text, buffer.data)
            if length == 0:
                break
            last_byte = int(buffer[length - 1])
            end = last_space(buffer, 0, length)
            rest += buffer[: end or length].data
            if end:
                yield self._block(rest, raw.count - read, [])
                read = raw.count
                rest = bytearray(buffer[end:length].data)
        completed = last_byte != NEWLINE
        if completed:
            rest.append(NEWLINE)
        yield self._block(rest, raw.count - read, raw.digests.finish(), completed)

    def _block(self, text: bytearray, read: int, digests: list[bytes], completed: bool = False) -> Block:
        """A block that takes over the memory of its text."""
        length = len(text)
        text += bytes(PADDING)
        return Block(self, np.frombuffer(text, np.uint8), length, read, digests, completed)


@dataclass(frozen=True)
class Corpus:
    """Files that are read one after the other as one text."""

    sources: tuple[Source, ...]

    @property
    def size(self) -> int | None:
        """Bytes on disk, if they are known."""
        sizes = [source.size for source in self.sources]
        return None if -1 in sizes else sum(sizes)

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        first, *others = self.sources
        return first.name + (f" and {len(others)} more" if others else "")

    def pieces(self, ranks: Ranks = SINGLE_RANK) -> Iterator[Block | Range]:
        """The text in order; with several processes, the part of this one."""
        if ranks.size == 1:
            for source in self.sources:
                yield from source.pieces()
        else:
            yield from _dealt(self.sources, ranks.size)[ranks.rank]


def _dealt(sources: Sequence[Source], parts: int) -> list[Iterator[Block | Range]]:
    """Who reads what: files that can only be read from their start are dealt out whole, the largest first; the others
    are cut, so that all parts have the same size, and the parts of a file are in its order."""
    loads = [0] * parts
    dealt: list[list[Iterator[Block | Range]]] = [[] for _ in range(parts)]
    for source in sorted((source for source in sources if not source.plain), key=lambda source: -source.size):
        least = loads.index(min(loads))
        dealt[least].append(source.pieces())
        loads[least] += source.size
    ranges = [piece for source in sources if source.plain for piece in source.ranges(BLOCK)]
    fair = max((sum(loads) + sum(piece.stop - piece.start for piece in ranges)) / parts, *loads)
    part = 0
    for piece in ranges:
        while part < parts - 1 and loads[part] + (piece.stop - piece.start) / 2 > fair:
            part += 1
        dealt[part].append(iter((piece,)))
        loads[part] += piece.stop - piece.start
    return [chain.from_iterable(part) for part in dealt]


class FilesRead:
    """What was read of each file of a corpus, as its blocks go by in order."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._sizes = dict.fromkeys(corpus.sources, 0)
        self._digests: dict[Source, list[bytes]] = {source: [] for source in corpus.sources}

    def add(self, block: Block) -> None:
        self._sizes[block.source] += block.read
        self._digests[block.source] += block.digests

    def add_others(self, ranks: Ranks) -> None:
        """What other processes have read: each a stretch of a file, in the order of ranks, or none of it."""
        sources = self._corpus.sources
        mine = [(self._sizes[source], self._digests[source]) for source in sources]
        for source, parts in zip(sources, zip(*ranks.allgather(mine), strict=True), strict=True):
            self._sizes[source] = sum(size for size, _ in parts)
            self._digests[source] = [digest for _, digests in parts for digest in digests]

    def records(self) -> list[dict[str, Any]]:
        """Path, size and fingerprint of each file; the path is None for a pipe, which cannot be read again."""
        return [
            {
                "path": source.path if source.size >= 0 else None,
                "size": self._sizes[source],
                "fingerprint": combine(self._digests[source]),
            }
            for source in self._corpus.sources
        ]


def open_corpus(paths: Sequence[str], labels: Mapping[str, str] = MappingProxyType({})) -> Corpus:
    """The corpus of these files, `-` being standard input; refused if one cannot be read or all are empty.

    `labels`: what to call those that are copies.
    """
    corpus = Corpus(tuple(open_source(os.fspath(path), labels.get(path, "")) for path in paths))
    if corpus.size == 0:
        raise NeglmError(empty(corpus.name))
    if sum(source.path == STANDARD_STREAM for source in corpus.sources) > 1:
        raise NeglmError("standard input (-) can be read only once: name it once")
    return corpus


def open_source(path: str, label: str = "") -> Source:
    """A file, looked at but not opened yet; refused if it cannot be read."""
    if path == STANDARD_STREAM:
        return Source(path, -1, plain=False)
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            some = shown(os.path.join(path, "*"))
            raise NeglmError(f"{shown(path)} is a directory: name the files in it, for example {some}")
        if not stat.S_ISREG(status.st_mode):
            return Source(path, -1, plain=False)
        with open(path, "rb") as file:
            start = file.read(NEGLM_START + len(NEGLM_MARK))
        if start[NEGLM_START:] == NEGLM_MARK:
            raise NeglmError(
                f"{label or shown(path)} is a file of neglm's, not a text "
                "(vocabularies are read by `neglm vocab --merge`)"
            )
        return Source(path, status.st_size, compression_of(start) is None, label)
    except FileNotFoundError as error:
        raise NeglmError(missing(path)) from error
    except OSError as error:
        raise NeglmError(f"cannot read {shown(path)}: {error.strerror or error}") from error


def _open_raw(path: str) -> BinaryIO:
    """Unbuffered: a thread that waits in a read must not hold a lock that the end of the program needs."""
    if path == STANDARD_STREAM:
        return open(0, "rb", buffering=0, closefd=False)
    return open(path, "rb", buffering=0)


class _Raw(io.RawIOBase):
    """A file that counts and hashes what is read of it. Its first bytes can be looked at without being used up. Once
    it has ended it is not read again: at a terminal somebody would have to type another Ctrl-D."""

    def __init__(self, file: BinaryIO, advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self._ended = False
        self.count = 0
        self.digests = BlockDigests()
        self.magic = _first_bytes(file)
        self._ahead = self.magic

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._ahead:
            length = min(len(view), len(self._ahead))
            view[:length] = self._ahead[:length]
            self._ahead = self._ahead[length:]
        elif self._ended:
            return 0
        else:
            length = cast(io.RawIOBase, self._file).readinto(view) or 0
            self._ended = not length and bool(view)
        self.count += length
        self._advance(length)
        self.digests.update(view[:length])
        return length


def _first_bytes(file: BinaryIO) -> bytes:
    """Enough to know a compression by, and no more than the first line: its writer may be waiting for an answer."""
    start = b""
    while len(start) < MAGIC_SIZE and NEWLINE not in start:
        piece = file.read(MAGIC_SIZE - len(start))
        if not piece:
            break
        start += piece
    return start


def _decompressed(raw: _Raw) -> tuple[str, BinaryIO]:
    found = compression_of(raw.magic)
    if found is None:
        return "plain", cast(BinaryIO, raw)
    return found.name, found.open(io.BufferedReader(raw, 1 << 18))


def read_all(file: Any, buffer: memoryview) -> int:
    """Fill the buffer, in as many reads as it takes; returns how much there was."""
    length = 0
    while length < len(buffer):
        count = file.readinto(buffer[length:])
        if not count:
            break
        length += count
    return length


def _finish_word(file: BinaryIO, text: np.ndarray) -> tuple[np.ndarray, int]:
    """Read on to the end of the word that `text` breaks off in, however long it is: first to see where that is, so that
    the word is in memory only once."""
    begin = file.tell()
    piece = np.empty(FIRST_PIECE, np.uint8)
    more = 0
    while True:
        length = read_all(file, piece.data)
        end = first_space(piece, 0, length)
        more += end
        if end < length or length < len(piece):
            break
        if len(piece) < BLOCK:
            piece = np.empty(min(2 * len(piece), BLOCK), np.uint8)
    whole = np.empty(len(text) + more + 1 + PADDING, np.uint8)
    whole[: len(text)] = text
    file.seek(begin)
    return whole, len(text) + read_all(file, whole[len(text) : len(text) + more].data)


def _read_beside(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks, made by a thread of their own that runs ahead."""
    ready: queue.Queue[Block | BaseException | None] = queue.Queue(QUEUED_BLOCKS)
    abandoned = threading.Event()

    def put(item: Block | BaseException | None) -> None:
        while not abandoned.is_set():
            with suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for block in blocks:
                put(block)
                if abandoned.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        abandoned.set()
