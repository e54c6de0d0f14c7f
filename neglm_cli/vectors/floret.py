"""floret's tables, which spaCy reads: text with a header, and a line for each row with its number and its values.

buckets dimensions minn maxn hash_count seed < >
0 values
1 values
"""

import re
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.settings.embed import MOST_BUCKETS, MOST_HASHES
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors import matrix_text, two_files
from neglm_cli.vectors.ngrams import MURMUR_SEED
from neglm_cli.vectors.reading import MAX_SIZE, InputBuffer, TableBuilder, check_unique, open_input, validate
from neglm_cli.vectors.subwords import Subwords
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors
from neglm_cli.vectors.word2vec import SEPARATOR, write_rows

HEADER = re.compile(
    rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,9})[ \t]+(\d{1,9})[ \t]+(\d{1,9})[ \t]+(\d{1,18})[ \t]+(\S+)[ \t]+"
    rb"(\S+)[ \t]*\r?\n"
)
LONGEST = 99  # n-gram that neglm reads


def write_table(file: BinaryIO, subwords: Subwords, advance: Callable[[int], None]) -> None:
    """Write a table. subwords: of floret."""
    buckets, size = subwords.ngrams.shape
    minn, maxn = map(int, subwords.lengths.split("-"))
    file.write(b"%d %d %d %d %d %d < >\n" % (buckets, size, minn, maxn, subwords.hash_count, MURMUR_SEED))
    numbers = WordIndex.of(b"%d" % row for row in range(buckets))
    write_rows(file, numbers.words, numbers.offsets, subwords.ngrams, SEPARATOR, advance)


def read_table(source: InputBuffer, word_list: str | None) -> Vectors:
    """Read a table, and compose the vectors of the words in the file `word_list`."""
    header = HEADER.match(source.text, source.begin, source.end)
    if header is None:
        raise NeglmError(f"{source.name} is not a table of floret: leave out --format")
    buckets, size, minn, maxn, hash_count, seed = map(int, header.groups()[:6])
    if not 0 < size <= MAX_SIZE or not 0 < buckets <= MOST_BUCKETS:
        raise NeglmError(f"{source.name}, line 1: {buckets:,} rows of {size:,} dimensions is no table of floret")
    if not 0 < minn <= maxn <= LONGEST or not 0 < hash_count <= MOST_HASHES:
        raise NeglmError(
            f"{source.name}, line 1: n-grams of {minn:,} to {maxn:,} characters with {hash_count:,} hashes; neglm "
            f"reads 1 to {LONGEST} characters and 1 to {MOST_HASHES} hashes"
        )
    if seed != MURMUR_SEED or header.groups()[6:] != (b"<", b">"):
        raise NeglmError(
            f"{source.name}, line 1: neglm reads tables of floret with the seed {MURMUR_SEED} and words between < and >"
        )
    if word_list is None:
        raise NeglmError(f"{source.name} is a table of floret, which contains no words: name a list with --word-list")
    with open_input(word_list) as listed:
        words = two_files.lines_of(listed)
        check_unique(words, listed.name, lambda row: f"line {row + 1}")
    source.begin = header.end()
    builder = TableBuilder(size)
    matrix_text.read(source, builder, 2)
    table = validate(builder.finish(), source.name, lambda row: f"line {row + 2}", buckets)
    for row, number in enumerate(table.words):
        if number != b"%d" % row:
            raise NeglmError(f"{source.name}, line {row + 2}: expected row {row:,}")
    subwords = Subwords(f"{minn}-{maxn}", table.vectors[:0], table.vectors, hash_count)
    index = WordIndex.of(words, np.ones(len(words), np.int64))
    return Vectors(index, subwords.known(index), NO_CONTEXTS, np.empty((0, size), np.float32), subwords=subwords)
