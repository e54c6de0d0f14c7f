"""Files of a corpus, and standard input: plain or compressed, as blocks of whole words.

A plain file is split into byte ranges that any thread can read. A compressed file, or a pipe, is read by a background
thread. Both yield blocks in text order, split between words, with a newline at the end of every line, including the
last.
"""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import numpy as np
import xxhash

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM
from neglm_cli.store.wording import missing
from neglm_cli.text.bits import PADDING
from neglm_cli.text.compression import BROKEN, WINDOW, compression_of, exceeds_memory_limit
from neglm_cli.text.fingerprint import BLOCK
from neglm_cli.text.parallel import read_ahead
from neglm_cli.text.streams import NEWLINE, Advance, RawReader, decompressing, no_progress, open_raw, read_all
from neglm_cli.text.tokens import SPACE, first_space, last_space

READ_AHEAD = 1 << 10  # bytes read past the end of a range, to complete its last word
FIRST_READ = 1 << 12  # bytes of the first read for a longer word; each further read doubles
QUEUED_BLOCKS = 4  # blocks that a background reader may be ahead

LINE_BUFFER = 1 << 18  # bytes
NEGLM_START, NEGLM_MARK = 8, b'{"__metadata__":{"checksum":"'  # offset and bytes by which neglm files are recognized


@dataclass
class Block:
    """Whole words of one file, text[:length], followed by PADDING bytes."""

    source: "Source"
    text: np.ndarray
    length: int
    read: int  # bytes of the file on disk
    digests: list[bytes] = field(default_factory=list)  # of the file's blocks on disk, see `fingerprint`
    completed: bool = False  # the final newline was added: the file's last line has none

    def load(self) -> "Block":
        return self


@dataclass(frozen=True)
class ByteRange:
    """An unread block of a plain file: the words that begin in bytes start to stop."""

    source: "Source"
    start: int
    stop: int

    def load(self) -> Block:
        before = min(self.start, 1)  # one byte before the range tells if a word extends into it
        length = before + self.stop - self.start
        ahead = min(READ_AHEAD, self.source.size - self.stop)  # nearly always enough to complete the last word
        text = np.empty(length + ahead + 1 + PADDING, np.uint8)
        try:
            with open(self.source.path, "rb", buffering=0) as file:
                file.seek(self.start - before)
                if read_all(file, text[: length + ahead].data) < length + ahead:
                    raise NeglmError(f"{self.source.name} was truncated while being read; wait until it is complete")
                digest = xxhash.xxh3_128_digest(text[before:length].data)
                last_byte = text[length - 1]
                begin = before
                if before and not SPACE[text[0]]:
                    begin = first_space(text, 1, length)
                if begin < length and not SPACE[last_byte]:
                    end = first_space(text, length, length + ahead)
                    if end == length + ahead and self.stop + ahead < self.source.size:
                        text, end = _complete_word(file, text[:end])
                    length = end
        except OSError as error:
            raise self.source.read_error(error) from error
        completed = bool(self.stop == self.source.size and last_byte != NEWLINE)
        if completed:
            text[length] = NEWLINE
            length += 1
        return Block(self.source, text[begin:], length - begin, self.stop - self.start, [digest], completed)


Chunk = Block | ByteRange  # either has `load`, called by the thread that processes it


@dataclass(frozen=True, eq=False)
class Source:
    """One file of a corpus, or standard input. A file listed twice gives two sources."""

    path: str
    size: int  # bytes on disk; -1 for a pipe
    plain: bool  # an uncompressed regular file: seekable
    label: str = ""  # the name for messages, if the file is a temporary copy

    @property
    def name(self) -> str:
        return self.label or ("standard input" if self.path == STANDARD_STREAM else shown(self.path))

    def read_error(self, error: OSError) -> NeglmError:
        return NeglmError(f"cannot read {self.name}: {error.strerror or error}")

    def chunks(self) -> Iterator[Chunk]:
        """Yield the file's text in order, as chunks to `load`."""
        return self.ranges(BLOCK) if self.plain else read_ahead(self._stream(), QUEUED_BLOCKS)

    def ranges(self, size: int) -> Iterator[ByteRange]:
        """Yield the byte ranges of a plain file, each of this size."""
        return (ByteRange(self, start, min(start + size, self.size)) for start in range(0, self.size, size))

    def _stream(self) -> Iterator[Block]:
        """Read, decompress and cut into blocks of whole words."""
        with self._decompressed(no_progress) as (text, raw):
            yield from self._cut(text, raw)

    def lines(self, advance: Advance = no_progress) -> Iterator[list[bytes]]:
        """Yield lists of lines without their newlines, as soon as they are available: the program at the other end of a
        pipe may wait for an answer before it writes the next one.

        advance: called with the bytes on disk of lines that the caller has consumed."""
        buffer = bytearray(LINE_BUFFER)
        rest = bytearray()  # an incomplete line, extended in place: long lines take linear time
        used = 0
        with self._decompressed(no_progress) as (text, raw):
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
    def reading(self, advance: Advance = no_progress) -> Iterator[BinaryIO]:
        """Open the file for reading its decompressed bytes. Errors while reading are raised as NeglmError.

        advance: called with the number of bytes read on disk."""
        with self._decompressed(advance) as (text, _):
            yield text

    @contextmanager
    def _decompressed(self, advance: Advance) -> Iterator[tuple[BinaryIO, RawReader]]:
        try:
            with open_raw(self.path) as file:
                raw = RawReader(file, advance)
                kind, text = decompressing(raw)
                try:
                    yield text, raw
                except EOFError as error:
                    raise NeglmError(f"{self.name} is cut short: its {kind} data ends early") from error
                except BROKEN as error:
                    if exceeds_memory_limit(error):
                        raise NeglmError(
                            f"{self.name} needs more than {WINDOW >> 20} MB of memory to decompress: decompress it "
                            f"first, or recompress it with a smaller window (for example {kind} -9)"
                        ) from error
                    raise NeglmError(f"{self.name} is damaged: {kind} says: {error}") from error
                except OSError as error:
                    if error.errno is not None:
                        raise
                    raise NeglmError(f"{self.name} is damaged: {kind} says: {error}") from error  # as bz2 does
        except FileNotFoundError as error:
            raise NeglmError(missing(self.path, self.name)) from error
        except OSError as error:
            raise self.read_error(error) from error

    def _cut(self, text: BinaryIO, raw: RawReader) -> Iterator[Block]:
        rest = bytearray()  # an incomplete word, extended in place
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
        """Return a block that shares the memory of its text."""
        length = len(text)
        text += bytes(PADDING)
        return Block(self, np.frombuffer(text, np.uint8), length, read, digests, completed)


def open_source(path: str, label: str = "") -> Source:
    """Inspect a file without keeping it open. Raise if it is unreadable or not text."""
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
                f"{label or shown(path)} is a neglm file, not text (to merge vocabularies, use `neglm vocab --merge`)"
            )
        return Source(path, status.st_size, compression_of(start) is None, label)
    except FileNotFoundError as error:
        raise NeglmError(missing(path)) from error
    except OSError as error:
        raise NeglmError(f"cannot read {shown(path)}: {error.strerror or error}") from error


def _complete_word(file: BinaryIO, text: np.ndarray) -> tuple[np.ndarray, int]:
    """Read the rest of the word that `text` ends in, of any length: first to find its end, then to append it, so that
    only one copy is in memory. Return the text and its length."""
    begin = file.tell()
    buffer = np.empty(FIRST_READ, np.uint8)
    more = 0
    while True:
        length = read_all(file, buffer.data)
        end = first_space(buffer, 0, length)
        more += end
        if end < length or length < len(buffer):
            break
        if len(buffer) < BLOCK:
            buffer = np.empty(min(2 * len(buffer), BLOCK), np.uint8)
    whole = np.empty(len(text) + more + 1 + PADDING, np.uint8)
    whole[: len(text)] = text
    file.seek(begin)
    return whole, len(text) + read_all(file, whole[len(text) : len(text) + more].data)
