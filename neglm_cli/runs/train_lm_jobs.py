"""Jobs of `train-lm`: a new model, or one that resumes from a checkpoint."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.kernels.compilers import usable_cores
from neglm_cli.lm.job import Job, Texts, check_batch, check_known, new_device
from neglm_cli.lm.model import CHECKPOINT, LanguageModel
from neglm_cli.objective.losses import initial_log_z
from neglm_cli.runs.checkpoints import checkpoint_to_resume, refuse_changes
from neglm_cli.runs.corpora import (
    SAME_FILES,
    InputFiles,
    check_same_inputs,
    check_texts,
    find_vocabulary,
    fingerprints,
    has_vocabulary,
    open_named_or_recorded,
)
from neglm_cli.runs.host import Host
from neglm_cli.runs.init_vectors import load_init_vectors
from neglm_cli.runs.resources import thread_count
from neglm_cli.runs.train_lm import Request
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.declare import declared
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import PRESETS, RATES, Settings
from neglm_cli.text.corpus import Corpus, open_corpus
from neglm_cli.text.encoded import EncodedCorpus, default_cache, open_encoded
from neglm_cli.text.provenance import reopen
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu


@dataclass
class Inputs:
    """The inputs of a new training."""

    settings: Settings
    vectors: Vectors | None  # that initialize the embedding
    texts: Texts


def read_inputs(request: Request, host: Host, resources: ExitStack) -> Inputs:
    settings = settings_of(request, host)
    # May fail: before the long work on the texts.
    vectors = load_init_vectors(request.init_vectors, settings.embedding, "--embedding")
    return Inputs(settings, vectors, _Encoding(settings, request.cache, host, resources).new_texts(request))


def new_job(inputs: Inputs, gpu: "Gpu | None", host: Host) -> Job:
    settings, texts = inputs.settings, inputs.texts
    device = new_device(texts.words, settings, gpu, host.note, vectors=inputs.vectors, ranks=ranks())
    return Job(texts, settings, device, Progress(), ranks())


def settings_of(request: Request, host: Host) -> Settings:
    """Return the settings of a new training: those given, then the preset's, then defaults that follow from others."""
    given = request.given
    chosen = PRESETS[request.preset] | given
    if "hidden" in given and "embedding" not in given:
        chosen["embedding"] = given["hidden"]
    if "optimizer" in given and "lr" not in given:
        chosen["lr"] = RATES[given["optimizer"]]
    if "log_z" not in given:
        chosen["log_z"] = initial_log_z(chosen.get("loss", Settings.loss), chosen.get("k", Settings.k))
    threads = thread_count(given.get("threads"))
    if threads > usable_cores():
        host.note(f"{threads} threads wait for each other on {count_of(usable_cores(), 'core')}: fewer would be faster")
    return Settings(**chosen | {"threads": threads})


def resumed_job(request: Request, gpu: "Gpu | None", host: Host, resources: ExitStack) -> Job:
    path = checkpoint_to_resume(request.output)
    checkpoint = LanguageModel.load(path, CHECKPOINT)
    check_same(ranks(), "checkpoint", checkpoint.checksum, SAME_FILES)
    settings = _resumed_settings(checkpoint, request.given)
    texts = _Encoding(settings, request.cache, host, resources).recorded_texts(request, checkpoint, path)
    device = new_device(checkpoint.words, settings, gpu, host.note, empty=True, ranks=ranks())
    device.restore(checkpoint.tensors)
    progress = checkpoint.progress
    host.note(f"resuming from {shown(path)} at epoch {progress.epoch + 1} ({progress.words:,} words trained)")
    return Job(texts, settings, device, progress, ranks())


def _resumed_settings(checkpoint: LanguageModel, given: dict[str, Any]) -> Settings:
    resumable = [setting.name for setting in declared(Settings).values() if setting.resumable]
    refuse_changes(checkpoint.settings, given, resumable)
    settings = replace(checkpoint.settings, **{name: given[name] for name in resumable if name in given})
    if settings.epochs <= checkpoint.progress.epoch:
        raise NeglmError(
            f"{count_of(checkpoint.progress.epoch, 'epoch')} of --epochs {settings.epochs} already trained: give a "
            "larger --epochs"
        )
    return settings


class _Encoding:
    """Opens texts and encodes them, with the settings of one run."""

    def __init__(self, settings: Settings, cache: bool, host: Host, resources: ExitStack) -> None:
        self._settings = settings
        self._threads = settings.threads
        self._cache = cache
        self._host = host
        self._resources = resources

    def new_texts(self, request: Request) -> Texts:
        if request.valid:
            open_corpus(request.valid)  # raise before the long work on the corpus
        inputs, counted = self._inputs(request.corpus), not has_vocabulary(request.vocab)
        vocabulary, files = find_vocabulary(inputs, request.vocab, request.limits, self._threads, self._host)
        opened = open_named_or_recorded(inputs, files, request.vocab, self._threads, self._host)
        check_texts(opened)
        encoded = self._encoded(opened, vocabulary, inputs)
        if not counted:
            check_known(encoded, vocabulary, opened.name)
        check_batch(encoded, self._settings, ranks())
        valid, valid_files = self._valid(self._inputs(request.valid), vocabulary)
        texts = Texts(vocabulary, encoded, inputs.records(opened, self._threads), valid, valid_files)
        check_same_inputs(texts.words, [*texts.files, *texts.valid_files])
        return texts

    def recorded_texts(self, request: Request, checkpoint: LanguageModel, path: str) -> Texts:
        """Open the texts of a checkpoint, or named copies of them. path: of the checkpoint."""
        inputs, valid_inputs = self._inputs(request.corpus), self._inputs(request.valid)
        opened = inputs.open() if inputs else reopen(checkpoint.files, path, self._threads)
        files = inputs.records(opened, self._threads)
        if fingerprints(files) != fingerprints(checkpoint.files):
            raise NeglmError(
                f"{shown(path)} was training on another text: name that one, or start again without --resume"
            )
        if request.valid or not checkpoint.validation:
            valid, valid_files = self._valid(valid_inputs, checkpoint.words)
        else:
            opened_valid = reopen(checkpoint.validation, path, self._threads, "validation text")
            valid, valid_files = self._encoded(opened_valid, checkpoint.words), checkpoint.validation
        if fingerprints(valid_files) != fingerprints(checkpoint.validation):
            raise NeglmError(f"{shown(path)} was validated on another text: leave out --valid, or start again")
        encoded = self._encoded(opened, checkpoint.words, inputs)
        texts = Texts(checkpoint.words, encoded, files, valid, valid_files)
        check_batch(encoded, self._settings, ranks())
        check_same_inputs(texts.words, [*texts.files, *texts.valid_files])
        return texts

    def _inputs(self, paths: list[str]) -> InputFiles:
        return InputFiles(paths, self._resources)

    def _valid(self, inputs: InputFiles, words: WordIndex) -> tuple[EncodedCorpus | None, list[dict[str, Any]]]:
        if not inputs:
            return None, []
        opened = inputs.open()
        encoded = self._encoded(opened, words, inputs)
        check_known(encoded, words, opened.name)
        return encoded, inputs.records(opened, self._threads)

    def _encoded(self, corpus: Corpus, words: WordIndex, inputs: InputFiles | None = None) -> EncodedCorpus:
        """Encode a text. inputs: its files; copies of pipes are not cached."""
        cached = self._cache and not (inputs and inputs.any_pipe)
        directory = default_cache() if cached else None
        return ranks().run_staggered(lambda: open_encoded(corpus, words, self._threads, directory, self._host.note))
