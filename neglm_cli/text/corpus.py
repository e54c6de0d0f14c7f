"""A corpus: one or more files read as one text, sharded over ranks, and their fingerprints."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any

from neglm_cli.errors import NeglmError, empty
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.store.output import STANDARD_STREAM
from neglm_cli.text.fingerprint import BLOCK, combine
from neglm_cli.text.source import Block, Chunk, Source, open_source


@dataclass(frozen=True)
class Corpus:
    """Files read in sequence as one text."""

    sources: tuple[Source, ...]

    @property
    def size(self) -> int | None:
        """Bytes on disk; None if a source is a pipe."""
        sizes = [source.size for source in self.sources]
        return None if -1 in sizes else sum(sizes)

    @property
    def name(self) -> str:
        """The name for messages."""
        first, *others = self.sources
        return first.name + (f" and {len(others)} more" if others else "")

    def chunks(self, ranks: Ranks = SINGLE_RANK) -> Iterator[Chunk]:
        """Yield the text in order; with several ranks, the shard of this one."""
        if ranks.size == 1:
            for source in self.sources:
                yield from source.chunks()
        else:
            yield from _shards(self.sources, ranks.size)[ranks.rank]


def _shards(sources: Sequence[Source], size: int) -> list[Iterator[Chunk]]:
    """Shard a corpus over ranks, balancing bytes.

    Compressed files are assigned whole, the largest first. Plain files are cut: the parts of a file are in the order
    of ranks."""
    loads = [0] * size
    shards: list[list[Iterator[Chunk]]] = [[] for _ in range(size)]
    for source in sorted((source for source in sources if not source.plain), key=lambda source: -source.size):
        least = loads.index(min(loads))
        shards[least].append(source.chunks())
        loads[least] += source.size
    ranges = [range_ for source in sources if source.plain for range_ in source.ranges(BLOCK)]
    fair = max((sum(loads) + sum(range_.stop - range_.start for range_ in ranges)) / size, *loads)
    rank = 0
    for range_ in ranges:
        while rank < size - 1 and loads[rank] + (range_.stop - range_.start) / 2 > fair:
            rank += 1
        shards[rank].append(iter((range_,)))
        loads[rank] += range_.stop - range_.start
    return [chain.from_iterable(shard) for shard in shards]


class FileFingerprints:
    """Sizes and fingerprints of a corpus's files, updated with each block read."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._sizes = dict.fromkeys(corpus.sources, 0)
        self._digests: dict[Source, list[bytes]] = {source: [] for source in corpus.sources}

    def add(self, block: Block) -> None:
        self._sizes[block.source] += block.read
        self._digests[block.source] += block.digests

    def allgather(self, ranks: Ranks) -> None:
        """Add the blocks that other ranks have read; the parts of a file are in the order of ranks."""
        sources = self._corpus.sources
        mine = [(self._sizes[source], self._digests[source]) for source in sources]
        for source, parts in zip(sources, zip(*ranks.allgather(mine), strict=True), strict=True):
            self._sizes[source] = sum(size for size, _ in parts)
            self._digests[source] = [digest for _, digests in parts for digest in digests]

    def records(self) -> list[dict[str, Any]]:
        """Return path, size and fingerprint of each file; the path is None for a pipe, which cannot be read again."""
        return [
            {
                "path": source.path if source.size >= 0 else None,
                "size": self._sizes[source],
                "fingerprint": combine(self._digests[source]),
            }
            for source in self._corpus.sources
        ]


def open_corpus(paths: Sequence[str], labels: Mapping[str, str] = MappingProxyType({})) -> Corpus:
    """Open files as a corpus, `-` being standard input. Raise if one is unreadable or all are empty.

    labels: names for messages, by path, of files that are temporary copies.
    """
    corpus = Corpus(tuple(open_source(os.fspath(path), labels.get(path, "")) for path in paths))
    if corpus.size == 0:
        raise NeglmError(empty(corpus.name))
    if sum(source.path == STANDARD_STREAM for source in corpus.sources) > 1:
        raise NeglmError("standard input (-) can be read only once; list it once")
    return corpus
