"""A training as a whole: what it learns vectors for, from what, and how far it is; and its file on the way."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.pairsource import PairSource
from neglm_cli.sgns.source import Source
from neglm_cli.sgns.tables import Tables
from neglm_cli.sgns.textsource import TextSource, encoding
from neglm_cli.sgns.trainer import Trainer
from neglm_cli.text.corpus import Corpus
from neglm_cli.text.encoded import Announce, open_encoded
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors, write_vectors


@dataclass(eq=False)
class Job:
    words: WordIndex
    contexts: WordIndex
    source: Source
    settings: Settings
    files: list[dict[str, Any]]
    pairs: bool  # whether it is a table of pairs, not text
    tables: Tables
    done: int = 0  # words or pairs that lie behind, over all epochs
    ranks: Ranks = SINGLE_RANK

    @property
    def total(self) -> int:
        return self.source.length * self.settings.epochs

    def trainer(self) -> Trainer:
        return Trainer(self.source, self.tables, self.contexts.counts, self.settings, self.done, self.ranks)

    def save(self, path: str) -> None:
        """Write the vectors as they are. Those that are not numbers are not worth it."""
        if not self.tables.finite():
            raise NeglmError(
                f"some of the vectors are no longer numbers: a learning rate of {self.settings.lr:g} is too high; "
                "use a smaller --lr"
            )
        on_rank0(self.ranks, lambda: self._write(path))  # all wait: who leaves alone ends the job, and the writing

    def _write(self, path: str) -> None:
        write_vectors(
            path,
            self.words,
            self.tables.inputs,
            self.contexts,
            self.tables.outputs,
            self.settings.objective,
            self.settings.k,
            self.settings.noise_alpha,
            self.settings.stored() | {"pairs": self.pairs},
            self.files,
            {"done": self.done, "total": self.total},
        )


def text_job(
    words: WordIndex,
    corpus: Corpus,
    files: list[dict[str, Any]],
    settings: Settings,
    cache: Any,
    announce: Announce,
    ranks: Ranks = SINGLE_RANK,
) -> Job:
    """Training on text; `cache` is the directory for its encoded copy, None for no copy that stays."""
    alphabet, row_of = encoding(words)
    encoded = ranks.run_staggered(lambda: open_encoded(corpus, alphabet, settings.threads, cache, announce))
    source = TextSource(encoded, row_of, words.counts, settings)
    return Job(words, words, source, settings, files, False, _started(words, words, settings), 0, ranks)


def pairs_job(pairs: Pairs, settings: Settings, ranks: Ranks = SINGLE_RANK) -> Job:
    """Training on a table of pairs."""
    source = PairSource(pairs.rows, pairs.columns, pairs.counts, settings.seed)
    tables = _started(pairs.words, pairs.contexts, settings)
    return Job(pairs.words, pairs.contexts, source, settings, pairs.files, True, tables, 0, ranks)


def _started(words: WordIndex, contexts: WordIndex, settings: Settings) -> Tables:
    parts = settings.threads if settings.deterministic else 1
    tables = Tables(len(words), len(contexts), settings.size, parts)
    tables.start(settings.seed)
    return tables


def go_on(job: Job, partial: Vectors, name: str) -> None:
    """Let a job that was just made go on where another one, with the same settings and data, has stopped."""
    same = partial.words.identity == job.words.identity and partial.contexts.identity == job.contexts.identity
    if not same or partial.progress["total"] != job.total:
        raise NeglmError(f"{name} does not belong to this corpus: start again without --resume")
    job.done = partial.progress["done"]
    job.tables.inputs[np.arange(len(job.words))] = partial.vectors
    job.tables.outputs[np.arange(len(job.contexts))] = partial.context_vectors
