"""`neglm embed`: word vectors from text, or vectors for both sides of any table of pairs."""

from contextlib import ExitStack
from typing import Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.corpora import DEFAULT_VOCABULARY, PARTIAL, note_replacing, refuse_unfinished
from neglm_cli.cli.embed_jobs import (
    new_job,
    read_pairs,
    resumed_job,
    settings_of,
    start_from,
    vectors_to_start_from,
)
from neglm_cli.cli.embed_run import Run, as_text, train_exactly
from neglm_cli.cli.options import (
    INPUT,
    OUTPUT,
    RUNTIME,
    TRAINING,
    Cache,
    Debug,
    Json,
    Quiet,
    TrainingCorpus,
    VocabularyFile,
    one_blas_thread,
)
from neglm_cli.cli.overwriting import refuse_overwriting
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.embed import Settings
from neglm_cli.store.locking import exclusive
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM, check_writable


def _refuse_alpha(value: float | None) -> None:
    if value is not None:
        raise typer.BadParameter(
            "--alpha has two meanings: word2vec's -alpha is the learning rate, which is --lr here; the exponent that "
            "noise words are drawn by is --noise-alpha."
        )


@subcommand(
    "embed",
    ("neglm vocab corpus.txt && neglm embed", "Vectors for the words of a text, with word2vec's defaults."),
    ("neglm embed corpus.txt --size 300 --window 10 --iter 15", "Without a vocabulary, the text is counted first."),
    ("neglm embed --resume", "Resume an interrupted run."),
    ("neglm embed --deterministic --seed 7", "The same bytes at every run, with any number of threads."),
    ("neglm embed --pairs clicks.tsv --size 50", "Vectors for both sides of a table of pairs."),
    ("neglm embed --pairs small.tsv --full-batch --objective cond", "Without sampling, to convergence: log p(y|x)."),
    settings=Settings,
)
def embed(
    corpus: TrainingCorpus = None,
    vocab: VocabularyFile = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Train on a table of pairs instead of text: x TAB y, or x TAB y TAB count lines, plain or compressed; "
            "- is standard input. x and y have separate vocabularies.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    init_vectors: Annotated[
        str | None,
        typer.Option(
            help="Initialize from the vectors of this file, of the same size; words without a vector start at random.",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    cache: Cache = True,
    given: dict[str, Any] = {},  # noqa: B006  (options take its place)
    alpha: Annotated[
        float | None, typer.Option(hidden=True, callback=_refuse_alpha, help="Refused.", rich_help_panel=TRAINING)
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="File to write; - is standard output.", metavar="FILE", rich_help_panel=OUTPUT
        ),
    ] = "vectors.safetensors",
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Resume the interrupted run of --output. Its settings are kept.",
            rich_help_panel=RUNTIME,
        ),
    ] = False,
    checkpoint: Annotated[
        float,
        typer.Option(
            min=0,
            help="Write a checkpoint for --resume every N seconds; less often if writing is slow.",
            metavar="N",
            rich_help_panel=RUNTIME,
        ),
    ] = 60,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train word vectors: skip-gram with negative sampling.

    Every word of the vocabulary gets two vectors, as a word and as a context; both are written, with the vocabulary and
    all settings. Sentences end at line ends. Out-of-vocabulary words, <unk> and <eos> get no vectors. All pairs of a
    window share their noise words, as do seven windows far apart in the text: this makes training fast, at no cost in
    quality.

    The text is read from disk in every epoch; memory holds little more than the two matrices. A checkpoint, the
    output's name with .partial appended, is written about once a minute and on interruption; it is a file of vectors
    like the final one. While it exists, new trainings with the same output are refused, as is a second process while
    one is running.

    Under mpirun, ranks divide the text and average their vectors, those of frequent words more often, which takes a
    second copy of the vectors per rank. On SIGTERM all ranks stop and write one checkpoint.

    Threads update vectors without locks, so two runs differ slightly. With --deterministic they do not: each thread
    updates its own dimensions.
    """
    _check_usage(given, corpus or [], vocab, pairs, init_vectors, resume, output)
    check_writable(output)
    one_blas_thread()
    console.announce_compiling()
    with ExitStack() as copies:
        on_rank0(ranks(), lambda: copies.enter_context(exclusive(output)))
        if resume:
            summary = Run(resumed_job(output, given, corpus or [], pairs, cache), output, checkpoint).train()
        else:
            refuse_unfinished(output)
            settings = settings_of(given, pairs is not None)
            if settings.full_batch and ranks().size > 1:
                raise typer.BadParameter("--full-batch runs in a single process: start it without mpirun.")
            if settings.full_batch:
                note_replacing(output)
                summary = train_exactly(read_pairs(pairs or "", settings), settings, output)
            else:
                vectors = None if init_vectors is None else vectors_to_start_from(init_vectors, settings)
                job = new_job(corpus or [], vocab, pairs, settings, cache, copies)
                if init_vectors is not None and vectors is not None:
                    start_from(job, vectors, init_vectors)
                del vectors  # training needs the memory
                note_replacing(output)
                summary = Run(job, output, checkpoint).train()
    console.summary(summary, as_text(summary), output, json)


def _check_usage(
    given: dict[str, Any], corpus: list[str], vocab: str | None, pairs: str | None, init: str | None, resume: bool,
    output: str,
) -> None:  # fmt: skip
    if pairs is not None:
        for name in ("window", "sample"):
            if name in given:
                raise typer.BadParameter(f"--{name} is for text: a table of pairs has no windows.")
        if corpus:
            raise typer.BadParameter("train on a corpus or on --pairs: give one of them.")
        if vocab is not None:
            raise typer.BadParameter("--vocab is for text: a table of pairs has its own vocabularies.")
    elif "full_batch" in given and not resume:
        raise typer.BadParameter("--full-batch is for a table of pairs: name one with --pairs.")
    if "full_batch" in given:
        for name in ("epochs", "lr", "deterministic"):
            if name in given:
                raise typer.BadParameter(f"--{name} is for sampled training: --full-batch runs to convergence.")
        if init is not None:
            raise typer.BadParameter("--init-vectors is for sampled training: leave out --full-batch.")
    if resume and init is not None:
        raise typer.BadParameter("--resume has its vectors already: leave out --init-vectors.")
    if [*corpus, pairs].count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    if resume and vocab is not None:
        raise typer.BadParameter("--resume has its vocabulary already: leave out --vocab.")
    if resume and "full_batch" in given:
        raise typer.BadParameter("--full-batch has no checkpoints: leave out --resume.")
    if resume and output in STANDARD_OUTPUT:
        raise typer.BadParameter("--resume needs the output of the interrupted run: name it with --output.")
    implied = DEFAULT_VOCABULARY if vocab is None and pairs is None else None
    state = output + PARTIAL
    refuse_overwriting([output, state], [*corpus, vocab, implied, pairs, init], [state] if resume else [])
