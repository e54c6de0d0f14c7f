"""Training from Python: the runs of `neglm vocab`, `embed` and `train-lm`."""

import time
from typing import Any

from neglm_cli.api.files import Vocabulary, WordVectors
from neglm_cli.api.host import Progress, PythonHost
from neglm_cli.api.keywords import Path, Paths, keywords_in_errors, path_of, paths_of, with_settings
from neglm_cli.api.language_model import LanguageModel
from neglm_cli.api.loading import load_as
from neglm_cli.errors import UsageError
from neglm_cli.runs import embed as embed_runs
from neglm_cli.runs import train_lm as train_lm_runs
from neglm_cli.runs import vocab as vocab_runs
from neglm_cli.runs.checkpoints import CHECKPOINT_INTERVAL
from neglm_cli.runs.full_batch import FullBatchTraining
from neglm_cli.runs.host import Report
from neglm_cli.runs.loop import Loop
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.resources import machine_memory, thread_count
from neglm_cli.settings import embed as embed_settings
from neglm_cli.settings import train_lm as train_lm_settings
from neglm_cli.settings import vocab as vocab_settings
from neglm_cli.settings.declare import declared
from neglm_cli.settings.values import from_keywords, problem
from neglm_cli.store.output import is_regular_output
from neglm_cli.text import vocabulary


@keywords_in_errors
@with_settings(vocab_settings.Settings)
def vocab(
    corpus: Paths,
    output: Path = "vocab.safetensors",
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Vocabulary:
    """Count the words of text files, plain or compressed, and write their vocabulary.

    threads: by default one for each core. progress: called with a `Report` every second, and at the end."""
    if threads is not None and (wrong := problem(declared(embed_settings.Settings)["threads"], threads, "threads")):
        raise UsageError(wrong)
    paths, path, host = paths_of(corpus), _output(output), PythonHost(progress)
    refuse_overwriting([path], paths)
    chosen = vocab_settings.Settings(**settings)
    started = time.monotonic()
    request = vocab_runs.Request(
        paths, chosen.min_count, chosen.max_vocab, thread_count(threads), machine_memory() // 2
    )

    def write(counted: vocabulary.Vocabulary) -> None:
        counted.save(path)

    vocab_runs.count(request, host, write)
    made = load_as(Vocabulary, path)
    seconds, size = time.monotonic() - started, made.tokens
    host.report(Report("end", size, size, "words", seconds, size / max(seconds, 1e-9)))
    return made


@keywords_in_errors
@with_settings(embed_settings.Settings)
def embed(
    corpus: Paths = (),
    output: Path = "vectors.safetensors",
    *,
    vocab: Path | None = None,
    pairs: Path | None = None,
    init_vectors: Path | None = None,
    resume: bool = False,
    checkpoint: float = CHECKPOINT_INTERVAL,
    cache: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> WordVectors:
    """Train word vectors on text files, or on a table of pairs, and write them.

    corpus: by default, that of the vocabulary.
    vocab: a vocabulary; by default vocab.safetensors, if it exists, or else the words of the corpus.
    pairs: a table with lines x TAB y or x TAB y TAB count, instead of a corpus.
    init_vectors: vectors to start from.
    resume: continue the run of `output` that was interrupted, with its settings.
    checkpoint: seconds between checkpoints for `resume`.
    cache: keep an encoded copy of the text, as `neglm embed` does.
    progress: called with a `Report` every ten seconds, after each epoch and at the end, on another thread. If it
    raises, training stops, writes a checkpoint, and raises the same exception."""
    request = embed_runs.Request(
        output=_output(output),
        given=settings,
        corpus=paths_of(corpus),
        vocab=path_of(vocab),
        pairs=path_of(pairs),
        init_vectors=path_of(init_vectors),
        cache=cache,
        resume=resume,
        checkpoint=_seconds(checkpoint),
    )
    host = PythonHost(progress)
    embed_runs.check(request)
    embed_runs.check_files(request)
    with embed_runs.open_training(request, host) as training:
        if isinstance(training, FullBatchTraining):
            training.run(request.output)
        else:
            Loop(training, request.output, request.checkpoint, host).run()
    return load_as(WordVectors, request.output)


@keywords_in_errors
@with_settings(train_lm_settings.Settings)
def train_lm(
    corpus: Paths = (),
    output: Path = "model.safetensors",
    *,
    valid: Paths = (),
    vocab: Path | None = None,
    min_count: int | None = None,
    max_vocab: int | None = None,
    init_vectors: Path | None = None,
    preset: str = "ptb",
    device: str = "auto",
    resume: bool = False,
    checkpoint: float = CHECKPOINT_INTERVAL,
    cache: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> LanguageModel:
    """Train a language model on text files and write it.

    corpus: by default, that of the vocabulary.
    valid: validation text, scored after each epoch. Keeps the model from the best epoch.
    vocab: a vocabulary; by default vocab.safetensors, if it exists, or else the words of the corpus.
    min_count, max_vocab: limits of a vocabulary that is made from the corpus.
    init_vectors: vectors or a language model whose word vectors initialize the embedding.
    preset: defaults of the settings, "ptb", "modern", "large" or "1b".
    device: "cpu", "cuda", "cuda:1", or "auto", which is a GPU if there is one that works. Several GPUs need the command
    line: `neglm train-lm --device cuda:all`.
    resume: continue the run of `output` that was interrupted, with its settings.
    checkpoint: seconds between checkpoints for `resume`; another is written after each epoch.
    cache: keep an encoded copy of the text, as `neglm train-lm` does.
    progress: called with a `Report` every ten seconds, after each epoch and at the end, on another thread. If it
    raises, training stops, writes a checkpoint, and raises the same exception."""
    if preset not in train_lm_settings.PRESETS:
        raise UsageError(f"unknown preset '{preset}'; choose one of {', '.join(train_lm_settings.PRESETS)}")
    limits = from_keywords(vocab_settings.Settings, {"min_count": min_count, "max_vocab": max_vocab})
    request = train_lm_runs.Request(
        output=_output(output),
        given=settings,
        preset=preset,
        corpus=paths_of(corpus),
        vocab=path_of(vocab),
        min_count=limits.get("min_count"),
        max_vocab=limits.get("max_vocab"),
        valid=paths_of(valid),
        init_vectors=path_of(init_vectors),
        cache=cache,
        device=device,
        resume=resume,
        checkpoint=_seconds(checkpoint),
    )
    host = PythonHost(progress)
    train_lm_runs.check(request)
    train_lm_runs.check_files(request)
    with train_lm_runs.open_training(request, host) as training:
        Loop(training, request.output, request.checkpoint, host).run()
    return load_as(LanguageModel, request.output)


def _output(path: Path) -> str:
    name = path_of(path) or ""
    if not is_regular_output(name):
        raise UsageError(f"output must be the name of a file, not '{name}'")
    return name


def _seconds(checkpoint: float) -> float:
    if not checkpoint >= 0:
        raise UsageError("checkpoint must be at least 0")
    return float(checkpoint)
