"""Runs of `vocab`: count a text and write its vocabulary."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neglm_cli.errors import count_of
from neglm_cli.runs.corpora import check_texts
from neglm_cli.runs.host import Host
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.launch import ranks

if TYPE_CHECKING:
    from neglm_cli.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Request:
    """The arguments of `vocab`."""

    corpus: list[str]
    min_count: int
    max_vocab: int | None
    threads: int
    memory: int  # bytes


def count(request: Request, host: Host, write: "Callable[[Vocabulary], None]") -> None:
    """Count a text. Rank 0 writes the vocabulary, while the counts, which may be on disk, are still there."""
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.count import counting
    from neglm_cli.text.vocabulary import build, gather_counts, load_kernels

    corpus, limits = open_corpus(request.corpus), (request.min_count, request.max_vocab)
    check_texts(corpus)
    with (
        host.track("counting words", corpus.size) as tracker,
        counting(corpus, request.threads, request.memory, tracker.advance, load_kernels, ranks()) as counts,
    ):
        if counts.runs:
            host.note(f"the word table exceeds --memory: {count_of(counts.runs, 'sorted run')} spilled to disk")
        gathered = gather_counts(counts, *limits, ranks())
        on_rank0(ranks(), lambda: write(build(gathered, *limits)))
