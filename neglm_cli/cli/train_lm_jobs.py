"""What `neglm train-lm` trains: a new model, or one whose training has stopped."""

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.corpora import (
    PARTIAL,
    Named,
    check_texts,
    find_vocabulary,
    has_vocabulary,
    nothing_to_resume,
    open_named_or_remembered,
    refuse_changes,
)
from neglm_cli.cli.options import thread_count
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import ranks

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu
    from neglm_cli.lm.job import Job, Texts
    from neglm_cli.settings.train_lm import Settings
    from neglm_cli.text.corpus import Corpus
    from neglm_cli.text.encoded import EncodedCorpus
    from neglm_cli.text.word_index import WordIndex
    from neglm_cli.vectors.vectors import Vectors


def settings_of(preset: str, given: dict[str, Any]) -> "Settings":
    from neglm_cli.objective.losses import first_log_z
    from neglm_cli.settings.train_lm import PRESETS, RATES, Settings
    from neglm_cli.text.parallel import usable_cores

    chosen = PRESETS[preset] | given
    if "hidden" in given and "embedding" not in given:
        chosen["embedding"] = given["hidden"]
    if "optimizer" in given and "lr" not in given:
        chosen["lr"] = RATES[given["optimizer"]]
    if "log_z" not in given:
        chosen["log_z"] = first_log_z(chosen.get("loss", Settings.loss), chosen.get("k", Settings.k))
    threads = thread_count(given.get("threads"))
    if threads > usable_cores():
        console.note(
            f"{threads} threads wait for each other on {count_of(usable_cores(), 'core')}: fewer would be faster"
        )
    return Settings(**chosen | {"threads": threads})


def new_texts(
    corpus: list[str], vocab: str | None, valid: list[str], settings: "Settings", words: dict[str, Any], cache: bool,
    copies: ExitStack,
) -> "Texts":  # fmt: skip
    """`words`: min_count and max_vocab, for a text without a vocabulary."""
    from neglm_cli.lm.job import Texts, check_batch, check_known
    from neglm_cli.text.corpus import open_corpus

    threads = settings.threads
    if valid:
        open_corpus(valid)  # before the long work on the corpus: one that cannot be read is refused
    named = Named(corpus, copies)
    counted = not has_vocabulary(vocab)
    vocabulary, files = find_vocabulary(named.readable, vocab, words["min_count"], words["max_vocab"], threads)
    opened = open_named_or_remembered(named.readable, files, vocab, threads)
    check_texts(opened)
    encoded = _encoded(opened, vocabulary, settings, cache and not named.any_pipe)
    if not counted:
        check_known(encoded, vocabulary, opened.name)
    check_batch(encoded, settings, ranks())
    encoded_valid, valid_files = _valid(Named(valid, copies), vocabulary, settings, cache)
    texts = Texts(vocabulary, encoded, named.records(opened, threads), encoded_valid, valid_files)
    _check_same(texts)
    return texts


def _check_same(texts: "Texts") -> None:
    """That all processes train on the same: vocabulary, text and validation text."""
    files = [file["fingerprint"] for file in [*texts.files, *texts.valid_files]]
    check_same(ranks(), "vocabulary", texts.words.identity, "all machines must see the same files")
    check_same(ranks(), "texts", files, "all machines must see the same files")


def new_job(texts: "Texts", settings: "Settings", gpu: "Gpu | None", vectors: "Vectors | None") -> "Job":
    from neglm_cli.lm.job import Job, new_device
    from neglm_cli.lm.model import Progress

    device = new_device(texts.words, settings, gpu, console.note, vectors=vectors, ranks=ranks())
    return Job(texts, settings, device, Progress(), ranks())


def vectors_to_start_from(path: str | None, settings: "Settings") -> "Vectors | None":
    from neglm_cli.vectors.vectors import load_vectors

    if path is None:
        return None
    vectors = load_vectors(path)
    if vectors.size != settings.embedding:
        raise NeglmError(
            f"{shown(path)} has vectors of size {vectors.size}, and this model's have size {settings.embedding}: use "
            f"--embedding {vectors.size}"
        )
    return vectors


def resumed_job(
    output: str, given: dict[str, Any], corpus: list[str], valid: list[str], cache: bool, gpu: "Gpu | None",
    copies: ExitStack,
) -> "Job":  # fmt: skip
    from dataclasses import replace

    from neglm_cli.lm.job import Job, Texts, check_batch, new_device
    from neglm_cli.lm.model import STATE, LanguageModel
    from neglm_cli.settings.declare import declared
    from neglm_cli.settings.train_lm import Settings
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.provenance import reopen

    path = output + PARTIAL
    if not os.path.exists(path):
        raise nothing_to_resume(output, "--init-vectors")
    state = LanguageModel.load(path, STATE)
    check_same(ranks(), "state", state.checksum, "all machines must see the same files")
    may_change = [setting.name for setting in declared(Settings).values() if setting.resumable]
    refuse_changes(state.settings, given, may_change)
    settings = replace(state.settings, **{name: given[name] for name in may_change if name in given})
    if settings.epochs <= state.progress.epoch:
        raise NeglmError(
            f"{state.progress.epoch} epochs are done already, and --epochs {settings.epochs} leaves nothing to train: "
            "give a larger --epochs"
        )
    named, named_valid = Named(corpus, copies), Named(valid, copies)
    opened = open_corpus(named.readable) if corpus else reopen(state.files, path, settings.threads)
    files = named.records(opened, settings.threads)
    if [file["fingerprint"] for file in files] != [file["fingerprint"] for file in state.files]:
        raise NeglmError(f"{shown(path)} was training on another text: name that one, or start again without --resume")
    if valid or not state.validation:
        encoded_valid, valid_files = _valid(named_valid, state.words, settings, cache)
    else:
        opened_valid = reopen(state.validation, path, settings.threads, "validation text")
        encoded_valid, valid_files = _encoded(opened_valid, state.words, settings, cache), state.validation
    if [file["fingerprint"] for file in valid_files] != [file["fingerprint"] for file in state.validation]:
        raise NeglmError(f"{shown(path)} was validated on another text: leave out --valid, or start again")
    encoded = _encoded(opened, state.words, settings, cache and not named.any_pipe)
    texts = Texts(state.words, encoded, files, encoded_valid, valid_files)
    check_batch(encoded, settings, ranks())
    _check_same(texts)
    device = new_device(state.words, settings, gpu, console.note, empty=True, ranks=ranks())
    device.restore(state.tensors)
    progress = state.progress
    console.note(f"going on with {shown(path)}: epoch {progress.epoch + 1}, {progress.words:,} words are done")
    return Job(texts, settings, device, progress, ranks())


def _valid(
    named: Named, words: "WordIndex", settings: "Settings", cache: bool
) -> "tuple[EncodedCorpus | None, list[dict[str, Any]]]":
    from neglm_cli.lm.job import check_known
    from neglm_cli.text.corpus import open_corpus

    if not named.readable:
        return None, []
    opened = open_corpus(named.readable)
    encoded = _encoded(opened, words, settings, cache and not named.any_pipe)
    check_known(encoded, words, opened.name)
    return encoded, named.records(opened, settings.threads)


def _encoded(corpus: "Corpus", words: "WordIndex", settings: "Settings", cache: bool) -> "EncodedCorpus":
    from neglm_cli.text.encoded import default_cache, open_encoded

    directory = default_cache() if cache else None
    return ranks().run_staggered(lambda: open_encoded(corpus, words, settings.threads, directory, console.note))
