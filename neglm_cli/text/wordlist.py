"""Vocabularies as text: `word TAB count` lines, or word2vec's `word count` with `</s>` for line ends."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from neglm_cli.errors import NeglmError, empty
from neglm_cli.store import container
from neglm_cli.store.output import writing
from neglm_cli.text.count import Counts
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN, padded
from neglm_cli.text.vocabulary import MAX_TOTAL, Vocabulary
from neglm_cli.text.word_index import WordIndex

WORD2VEC_END_OF_LINE = b"</s>"


def lines(vocabulary: WordIndex, word2vec: bool = False) -> Iterator[bytes]:
    """Yield the vocabulary's lines. In word2vec's format `</s>` comes first, as in word2vec itself.

    In that format, line ends and a literal `</s>` are the same word.
    """
    pairs = zip(vocabulary, vocabulary.counts.tolist(), strict=True)
    if not word2vec:
        yield from (b"%b\t%d\n" % pair for pair in pairs)
        return
    ends = (END_OF_LINE, WORD2VEC_END_OF_LINE)
    others = []
    total = 0
    for word, count in pairs:
        if word in ends:
            total += count
        else:
            others.append(b"%b %d\n" % (word, count))
    yield b"%b %d\n" % (WORD2VEC_END_OF_LINE, total)
    yield from others


def save(vocabulary: Vocabulary, path: str, word2vec: bool = False) -> None:
    with writing(path, binary=False) as file:
        file.writelines(lines(vocabulary, word2vec))


def read_counts(path: str) -> Counts:
    """Read the counts of a vocabulary: a neglm file, or text in either format."""
    with container.open_seekable(path) as source:
        try:
            if container.is_safetensors(source.location):
                return Vocabulary.of_file(container.read_from(source, "vocabulary")).full_counts(source.name)
            with open(source.location, "rb") as file:
                return _parse(file, source.name)
        except OSError as error:
            raise NeglmError(f"cannot read {source.name}: {error.strerror or error}") from error


def _parse(file: BinaryIO, name: str) -> Counts:
    counts: dict[bytes, int] = {}
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        word, count = _parse_line(line, f"{name}, line {number}")
        if word in counts:
            raise NeglmError(f"{name}, line {number}: duplicate word; each may appear only once")
        counts[word] = count
    if not counts:
        raise NeglmError(empty(name))
    if sum(counts.values()) > MAX_TOTAL:
        raise NeglmError(f"{name}: the counts add up to more than {MAX_TOTAL:,}")
    line_ends = counts.pop(END_OF_LINE, 1)
    if counts.get(UNKNOWN, 1) == 1:
        counts[UNKNOWN] = 0  # every vocabulary has one, even if the text does not contain it
    tokens = sum(counts.values())
    counts[END_OF_LINE] = 0  # line ends are counted as lines
    offsets = np.cumsum([0, *map(len, counts)])
    word_bytes = padded(b"".join(counts))
    return Counts(offsets, np.array(list(counts.values())), word_bytes, False, line_ends, tokens, [])


def _parse_line(line: bytes, where: str) -> tuple[bytes, int]:
    match line.split():
        case [word, count] if count.isdigit() and len(count) <= 19 and 0 < int(count) <= MAX_TOTAL:
            return (END_OF_LINE if word == WORD2VEC_END_OF_LINE else word), int(count)
    raise NeglmError(f"{where}: expected a word, a tab or a blank, and a count of at least 1")
