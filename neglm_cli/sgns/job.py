"""A training run: its data, settings, tables and progress, and its checkpoints."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.embed import Settings, ngram_range
from neglm_cli.sgns.pairsource import PairSource
from neglm_cli.sgns.source import Source
from neglm_cli.sgns.tables import Tables
from neglm_cli.sgns.textsource import TextSource, encoding
from neglm_cli.sgns.trainer import Trainer
from neglm_cli.text.corpus import Corpus
from neglm_cli.text.encoded import Announce, open_encoded
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.ngrams import in_buckets, ngram_hashes, suitable_buckets
from neglm_cli.vectors.subwords import SubwordRows
from neglm_cli.vectors.vectors import Training, Vectors, write_vectors

# Input vectors start in ±limit/size: word2vec's limit, and the one for means of vectors, which need larger ones to
# learn as much (compared with 0.5, 1, 2.5, 10 and 20).
LIMIT, CBOW_LIMIT = 0.5, 5.0


@dataclass(eq=False)
class Job:
    """State of a training run."""

    words: WordIndex
    contexts: WordIndex
    source: Source
    settings: Settings
    files: list[dict[str, Any]]
    pairs: bool  # True if the source is a table of pairs, not text
    tables: Tables
    done: int = 0  # words or pairs trained on, over all epochs
    ranks: Ranks = SINGLE_RANK

    @property
    def total(self) -> int:
        return self.source.length * self.settings.epochs

    def trainer(self) -> Trainer:
        return Trainer(self.source, self.tables, self.contexts.counts, self.settings, self.done, self.ranks)

    def save(self, path: str) -> None:
        """Write the current vectors; raise if they contain NaN or infinite values."""
        if not self.tables.is_finite():
            raise NeglmError(
                f"the vectors contain NaN or infinite values: a learning rate of {self.settings.lr:g} is too high; "
                "use a smaller --lr"
            )
        on_rank0(self.ranks, lambda: self._write(path))  # all wait: a rank that exits early aborts the job mid-write

    def _write(self, path: str) -> None:
        settings = self.settings
        training = Training(
            settings.objective, settings.k, settings.noise_alpha, settings.stored() | {"pairs": self.pairs}, self.files,
            {"done": self.done, "total": self.total},
        )  # fmt: skip
        tables = self.tables
        subwords = None
        if tables.ngrams is not None:
            subwords = SubwordRows(str(settings.subwords), tables.inputs, tables.ngrams, settings.hashes)
        write_vectors(path, self.words, tables.vectors, self.contexts, tables.outputs, training, subwords)


def text_job(
    words: WordIndex,
    corpus: Corpus,
    files: list[dict[str, Any]],
    settings: Settings,
    cache: Any,
    announce: Announce,
    ranks: Ranks = SINGLE_RANK,
) -> Job:
    """Set up a run on text. cache: directory of its encoded copy; None for a temporary copy."""
    index, row_of = encoding(words)
    encoded = ranks.run_staggered(lambda: open_encoded(corpus, index, settings.threads, cache, announce))
    source = TextSource(encoded, row_of, words.counts, settings)
    tables, settings = _initial_tables(words, words, settings)
    return Job(words, words, source, settings, files, False, tables, 0, ranks)


def pairs_job(pairs: Pairs, settings: Settings, ranks: Ranks = SINGLE_RANK) -> Job:
    """Set up a run on a table of pairs."""
    source = PairSource(pairs.rows, pairs.columns, pairs.counts, settings.seed)
    tables, settings = _initial_tables(pairs.words, pairs.contexts, settings)
    return Job(pairs.words, pairs.contexts, source, settings, pairs.files, True, tables, 0, ranks)


def _initial_tables(words: WordIndex, contexts: WordIndex, settings: Settings) -> tuple[Tables, Settings]:
    """Return tables, and the settings with the number of buckets that suits the words, unless it is given."""
    parts = settings.threads if settings.deterministic else 1
    ngrams = None
    if settings.subwords is not None:
        hashes = ngram_hashes(words, *ngram_range(settings.subwords), settings.hashes)
        if settings.buckets is None:
            settings = replace(settings, buckets=suitable_buckets(hashes, settings.floret))
        if settings.floret:
            settings = replace(settings, hash_count=settings.hashes)
        ngrams = in_buckets(hashes, settings.buckets or 0)
    rows = 0 if settings.floret else len(words)
    tables = Tables(rows, len(contexts), settings.size, parts, ngrams, settings.buckets or 0)
    tables.initialize(settings.seed, CBOW_LIMIT if settings.cbow else LIMIT)
    return tables, settings


def resume(job: Job, checkpoint: Vectors, name: str) -> None:
    """Restore the checkpoint of a run with the same settings and data into a new job."""
    same = checkpoint.words.identity == job.words.identity and checkpoint.contexts.identity == job.contexts.identity
    if not same or checkpoint.progress["total"] != job.total:
        raise NeglmError(f"{name} does not belong to this corpus; start again without --resume")
    job.done = checkpoint.progress["done"]
    rows, ngrams = checkpoint.vectors, job.tables.ngrams
    if checkpoint.subwords is not None and ngrams is not None:
        rows = checkpoint.subwords.words
        ngrams[np.arange(ngrams.shape[0])] = checkpoint.subwords.ngrams
    job.tables.inputs[np.arange(len(rows))] = rows
    job.tables.outputs[np.arange(len(job.contexts))] = checkpoint.context_vectors
