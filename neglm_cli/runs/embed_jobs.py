"""Jobs of `embed`: on text or on a table of pairs, new or resumed from a checkpoint."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.runs.checkpoints import checkpoint_to_resume, refuse_changes
from neglm_cli.runs.corpora import (
    SAME_FILES,
    InputFiles,
    check_same_inputs,
    check_texts,
    find_vocabulary,
    fingerprints,
    open_named_or_recorded,
)
from neglm_cli.runs.embed import Request
from neglm_cli.runs.host import Host
from neglm_cli.runs.init_vectors import load_init_vectors
from neglm_cli.runs.resources import thread_count
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.embed import CBOW_DEFAULTS, PAIRS_DEFAULTS, Settings
from neglm_cli.sgns.averaging import bytes_of_copies
from neglm_cli.sgns.job import Job, pairs_job, resume, text_job
from neglm_cli.sgns.textsource import words_with_vectors
from neglm_cli.text.corpus import Corpus, open_corpus
from neglm_cli.text.encoded import default_cache
from neglm_cli.text.pair_lines import pairs_of
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.provenance import reopen
from neglm_cli.text.vocabulary import ALWAYS_KEPT
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import UNKNOWN_OBJECTIVE, Vectors


def settings_of(request: Request) -> Settings:
    """Return the settings of a new training."""
    defaults = PAIRS_DEFAULTS if request.pairs is not None else {}
    if request.given.get("cbow"):
        defaults = CBOW_DEFAULTS
    return Settings(**defaults | request.given | {"threads": thread_count(request.given.get("threads"))})


def new_job(request: Request, settings: Settings, host: Host, resources: ExitStack) -> Job:
    vectors = load_init_vectors(
        request.init_vectors, settings.size, "--size"
    )  # may fail: before the long work on the text
    settings = _with_same_ngrams(settings, vectors)
    if request.pairs is not None:
        job = _checked(pairs_job(read_pairs(request.pairs, settings, host), settings, ranks()))
    else:
        job = _new_text_job(request, settings, host, resources)
    _note_memory(job, host)
    if vectors is not None:
        if vectors.subwords is not None and not _same_ngrams(vectors, job.settings):
            vectors = replace(vectors, subwords=None)
        known = job.tables.initialize_from(vectors, job.words, job.contexts)
        host.note(f"{known:,} of {len(job.words):,} words start from {shown(request.init_vectors or '')}")
    return job


def _with_same_ngrams(settings: Settings, vectors: Vectors | None) -> Settings:
    """Return the settings with as many buckets as the vectors to start from have, unless the number is given. Vectors
    with n-grams of other lengths are used without them."""
    if vectors is None or vectors.subwords is None or not _same_ngrams(vectors, settings):
        return settings
    return replace(settings, buckets=settings.buckets or len(vectors.subwords.ngrams))


def _same_ngrams(vectors: Vectors, settings: Settings) -> bool:
    """Return True if vectors have n-grams like those of the settings."""
    return vectors.subwords is not None and vectors.subwords.has_ngrams_of(settings.subwords, settings.hashes)


def _note_memory(job: Job, host: Host) -> None:
    """With subwords, tell the number of n-grams, and the memory that the tables need."""
    if job.tables.ngrams is None:
        return
    used = len(np.unique(job.tables.ngrams.ngrams.ids))
    several = ranks().size > 1
    need = job.tables.bytes + (bytes_of_copies(job.tables, used) if several else 0)
    host.note(
        f"n-grams of {job.settings.subwords} characters use {used:,} of {job.settings.buckets:,} buckets; all tables "
        f"need {need / 1e6:,.0f} MB of memory{' on each rank' if several else ''}"
    )


def _new_text_job(request: Request, settings: Settings, host: Host, resources: ExitStack) -> Job:
    inputs, threads = InputFiles(request.corpus, resources), settings.threads
    limits = settings.min_count, None
    vocabulary, files = find_vocabulary(inputs, request.vocab, limits, threads, host)
    words = words_with_vectors(vocabulary, settings.min_count)
    rare = len(vocabulary) - ALWAYS_KEPT - len(words)
    if rare:
        host.note(f"leaving out {count_of(rare, 'word')} below --min-count {settings.min_count}")
    opened = open_named_or_recorded(inputs, files, request.vocab, threads, host)
    cache = request.cache and not inputs.any_pipe
    return _text_job(words, opened, inputs.records(opened, threads), settings, cache, host)


def _text_job(
    words: WordIndex, corpus: Corpus, files: list[dict[str, Any]], settings: Settings, cache: bool, host: Host
) -> Job:
    check_texts(corpus)
    directory = default_cache() if cache else None
    return _checked(text_job(words, corpus, files, settings, directory, host.note, ranks()))


def _checked(job: Job) -> Job:
    """Raise unless all ranks have the same vocabulary and text."""
    check_same_inputs(job.words, job.files)
    return job


def read_pairs(path: str, settings: Settings, host: Host) -> Pairs:
    source = open_corpus([path])
    check_texts(source)
    with host.track("reading pairs", source.size) as tracker:
        return pairs_of(source, tracker.advance).cut(settings.min_count)


def resumed_job(request: Request, host: Host, resources: ExitStack) -> Job:
    path = checkpoint_to_resume(request.output)
    checkpoint = Vectors.load(path)
    check_same(ranks(), "checkpoint", checkpoint.progress, SAME_FILES)
    known = "pairs" in checkpoint.arguments and checkpoint.k and checkpoint.objective != UNKNOWN_OBJECTIVE
    if not known or checkpoint.progress["done"] >= checkpoint.progress["total"]:
        raise NeglmError(f"{shown(path)} is not a checkpoint of `neglm embed`: start again without --resume")
    on_pairs = checkpoint.arguments["pairs"]
    if request.corpus if on_pairs else request.pairs:
        what = "a table of pairs, not on text" if on_pairs else "text, not on a table of pairs"
        raise NeglmError(f"{shown(path)} was training on {what}: name nothing, or what it was training on")
    settings = _resumed_settings(checkpoint, request.given)
    if on_pairs:
        pairs = request.pairs or reopen(checkpoint.files, path, settings.threads).sources[0].path
        job = _checked(pairs_job(read_pairs(pairs, settings, host), settings, ranks()))
    else:
        inputs = InputFiles(request.corpus, resources)
        opened = inputs.open() if inputs else reopen(checkpoint.files, path, settings.threads)
        cache = request.cache and not inputs.any_pipe
        job = _text_job(checkpoint.words, opened, inputs.records(opened, settings.threads), settings, cache, host)
    if fingerprints(job.files) != fingerprints(checkpoint.files):
        raise NeglmError(f"{shown(path)} was training on another text: name that one, or start again without --resume")
    _note_memory(job, host)
    resume(job, checkpoint, shown(path))
    epoch, unit = job.done // job.source.length + 1, "pairs" if job.pairs else "words"
    host.note(f"resuming from {shown(path)} at epoch {epoch} ({job.done:,} of {job.total:,} {unit} trained)")
    return job


def _resumed_settings(checkpoint: Vectors, given: dict[str, Any]) -> Settings:
    stored = {name: value for name, value in checkpoint.arguments.items() if name != "pairs"} | {
        name: getattr(checkpoint, name) for name in ("size", "k", "noise_alpha", "objective")
    }
    if checkpoint.subwords is not None:
        stored |= {"subwords": checkpoint.subwords.lengths, "buckets": len(checkpoint.subwords.ngrams)}
        if checkpoint.subwords.hash_count:
            stored |= {"floret": True, "hash_count": checkpoint.subwords.hash_count}
    settings = Settings(**stored)
    refuse_changes(settings, given, () if settings.deterministic else ("threads",))
    if "threads" in given and not settings.deterministic:
        settings = Settings(**stored | {"threads": given["threads"]})
    return settings
