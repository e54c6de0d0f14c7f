"""What `neglm embed` trains on: a text or a table of pairs, from the start or from where another run has stopped."""

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.corpora import (
    PARTIAL,
    Named,
    check_texts,
    find_vocabulary,
    nothing_to_resume,
    open_named_or_remembered,
    refuse_changes,
)
from neglm_cli.cli.options import thread_count
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import ranks

if TYPE_CHECKING:
    from neglm_cli.settings.embed import Settings
    from neglm_cli.sgns.job import Job
    from neglm_cli.text.corpus import Corpus
    from neglm_cli.text.pairs import Pairs
    from neglm_cli.text.word_index import WordIndex
    from neglm_cli.vectors.vectors import Vectors


def settings_of(given: dict[str, Any], pairs: bool) -> "Settings":
    from neglm_cli.settings.embed import PAIRS_DEFAULTS, Settings

    return Settings(**({**PAIRS_DEFAULTS} if pairs else {}) | given | {"threads": thread_count(given.get("threads"))})


def new_job(
    corpus: list[str], vocab: str | None, pairs: str | None, settings: "Settings", cache: bool, copies: ExitStack
) -> "Job":
    from neglm_cli.sgns.job import pairs_job
    from neglm_cli.sgns.textsource import words_with_vectors
    from neglm_cli.text.vocabulary import ALWAYS_KEPT

    if pairs is not None:
        return _checked(pairs_job(read_pairs(pairs, settings), settings, ranks()))
    named = Named(corpus, copies)
    vocabulary, files = find_vocabulary(named.readable, vocab, settings.min_count, None, settings.threads)
    words = words_with_vectors(vocabulary, settings.min_count)
    rare = len(vocabulary) - ALWAYS_KEPT - len(words)
    if rare:
        console.note(f"leaving out {count_of(rare, 'word')} below --min-count {settings.min_count}")
    opened = open_named_or_remembered(named.readable, files, vocab, settings.threads)
    return _text_job(words, opened, named.records(opened, settings.threads), settings, cache and not named.any_pipe)


def _text_job(
    words: "WordIndex", corpus: "Corpus", files: list[dict[str, Any]], settings: "Settings", cache: bool
) -> "Job":
    from neglm_cli.sgns.job import text_job
    from neglm_cli.text.encoded import default_cache

    check_texts(corpus)
    directory = default_cache() if cache else None
    return _checked(text_job(words, corpus, files, settings, directory, console.note, ranks()))


def _checked(job: "Job") -> "Job":
    """A job that all processes have in common."""
    files = [file["fingerprint"] for file in job.files]
    check_same(ranks(), "vocabulary", job.words.identity, "all machines must see the same files")
    check_same(ranks(), "texts", files, "all machines must see the same files")
    return job


def read_pairs(path: str, settings: "Settings") -> "Pairs":
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.pair_lines import pairs_of

    console.announce_standard_input([path])
    source = open_corpus([path])
    check_texts(source)
    with Progress("reading pairs", source.size) as progress:
        return pairs_of(source, progress.advance).cut(settings.min_count)


def vectors_to_start_from(path: str, settings: "Settings") -> "Vectors":
    from neglm_cli.vectors.vectors import Vectors

    given = Vectors.load(path)
    if given.size != settings.size:
        raise NeglmError(
            f"{shown(path)} has vectors of size {given.size}, and these have size {settings.size}: "
            f"use --size {given.size}"
        )
    return given


def start_from(job: "Job", given: "Vectors", path: str) -> None:
    known = job.tables.initialize_from(given, job.words, job.contexts)
    console.note(f"{known:,} of {len(job.words):,} words start from {shown(path)}")


def resumed_job(output: str, given: dict[str, Any], corpus: list[str], pairs: str | None, cache: bool) -> "Job":
    from neglm_cli.settings.embed import Settings
    from neglm_cli.sgns.job import pairs_job, resume
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.provenance import reopen
    from neglm_cli.vectors.vectors import UNKNOWN_OBJECTIVE, Vectors

    path = output + PARTIAL
    if not os.path.exists(path):
        raise nothing_to_resume(output, "--init-vectors")
    partial = Vectors.load(path)
    check_same(ranks(), "state", partial.progress, "all machines must see the same files")
    known = "pairs" in partial.arguments and partial.k and partial.objective != UNKNOWN_OBJECTIVE
    if not known or partial.progress["done"] >= partial.progress["total"]:
        raise NeglmError(f"{shown(path)} is not the state of a training: start again without --resume")
    if bool(pairs if not partial.arguments["pairs"] else corpus):
        what = "a table of pairs, not on text" if partial.arguments["pairs"] else "text, not on a table of pairs"
        raise NeglmError(f"{shown(path)} was training on {what}: name nothing, or what it was training on")
    stored = {name: value for name, value in partial.arguments.items() if name != "pairs"} | {
        "size": partial.size, "k": partial.k, "noise_alpha": partial.noise_alpha, "objective": partial.objective,
    }  # fmt: skip
    settings = Settings(**stored)
    refuse_changes(settings, given, () if settings.deterministic else ("threads",))
    if "threads" in given and not settings.deterministic:
        settings = Settings(**stored | {"threads": given["threads"]})
    if partial.arguments["pairs"]:
        source = open_corpus([pairs]) if pairs else reopen(partial.files, path, settings.threads)
        job = _checked(pairs_job(read_pairs(source.sources[0].path, settings), settings, ranks()))
    else:
        opened = open_corpus(corpus) if corpus else reopen(partial.files, path, settings.threads)
        files = Named([], ExitStack()).records(opened, settings.threads)
        job = _text_job(partial.words, opened, files, settings, cache)
    if [file["fingerprint"] for file in job.files] != [file["fingerprint"] for file in partial.files]:
        raise NeglmError(f"{shown(path)} was training on another text: name that one, or start again without --resume")
    resume(job, partial, shown(path))
    unit = "pairs" if job.pairs else "words"
    console.note(f"going on with {shown(path)}: {job.done:,} of {job.total:,} {unit} are done")
    return job
