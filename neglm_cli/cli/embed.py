"""`neglm embed`: word vectors from text, or vectors for both sides of any table of pairs."""

from typing import Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.embed_run import as_text, full_batch_summary, summary_of
from neglm_cli.cli.host import ConsoleHost
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
from neglm_cli.runs.embed import Request, check, check_files, prepared
from neglm_cli.runs.loop import Loop
from neglm_cli.settings.embed import Settings


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
    ("neglm embed --resume", "Go on with a training that was interrupted."),
    ("neglm embed --deterministic --seed 7", "The same bytes at every run, on as many threads as you like."),
    ("neglm embed --pairs clicks.tsv --size 50", "Vectors for both sides of a table of pairs."),
    ("neglm embed --pairs small.tsv --exact --objective cond", "All of a small table, to convergence: log p(y|x)."),
    settings=Settings,
)
def embed(
    corpus: TrainingCorpus = None,
    vocab: VocabularyFile = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Train on a table of pairs instead of text: x TAB y, or x TAB y TAB count lines, plain or compressed; "
            "- is standard input. x and y have alphabets of their own.",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Start from the vectors of this file, where it has the word; the size must be the same.",
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
            help="Go on with the training of --output that was interrupted or killed. All its options are kept.",
            rich_help_panel=RUNTIME,
        ),
    ] = False,
    checkpoint: Annotated[
        float,
        typer.Option(
            min=0,
            help="Write the state for --resume every N seconds; less often if writing takes long.",
            metavar="N",
            rich_help_panel=RUNTIME,
        ),
    ] = 60,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train word vectors: skip-gram with negative sampling.

    Every word of the vocabulary gets two vectors, one as a word and one as a context; both are written, with the
    vocabulary and all options. Sentences end where lines end. Words out of the vocabulary, <unk> and <eos> get no
    vectors. The pairs of a window share their noise words, and each of these serves seven windows that lie apart: that
    is where the speed comes from, and it costs no quality.

    The text is read from disk in every epoch; memory holds the two matrices and little more. While it trains, the
    state is written to the output's name with .partial behind it, once a minute or so and when it is interrupted;
    it is a file of vectors like the finished one. A new training of that name is refused while it is there, and any
    second process while one is at work.

    Under mpirun, processes divide the text and average their vectors, those of frequent words more often. For that each
    keeps a second copy of the vectors. On SIGTERM all stop together and one state is written.

    Threads work without locks, so two runs differ a little. With --deterministic they do not: each thread has
    dimensions of its own.
    """
    request = Request(
        output=output,
        given=given,
        corpus=corpus or [],
        vocab=vocab,
        pairs=pairs,
        init_vectors=init,
        cache=cache,
        resume=resume,
        checkpoint=checkpoint,
    )
    check(request)
    check_files(request)
    one_blas_thread()
    console.announce_standard_input([*request.corpus, pairs or ""])
    console.announce_compiling()
    from neglm_cli.runs.full_batch import FullBatchTraining

    host = ConsoleHost()
    with prepared(request, host) as training:
        if isinstance(training, FullBatchTraining):
            summary = full_batch_summary(training, training.run(output), output)
        else:
            loop = Loop(training, output, checkpoint, host)
            loop.run()
            summary = summary_of(training, loop, output)
    console.summary(summary, as_text(summary), output, json)
