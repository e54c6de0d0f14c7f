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
    InitVectors,
    Json,
    Quiet,
    TrainingCorpus,
    VocabularyFile,
    one_blas_thread,
)
from neglm_cli.runs.checkpoints import CHECKPOINT_INTERVAL
from neglm_cli.runs.embed import Request, check, check_files, open_training
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
    ("neglm embed --resume", "Resume an interrupted run."),
    ("neglm embed --deterministic --seed 7", "Bit-identical runs, for a given --seed and --threads."),
    ("neglm embed --subwords 3-6", "Vectors for all words, also unknown ones, from character n-grams."),
    ("neglm embed --subwords 3-6 --floret", "All of them in one small table, which spaCy reads, too."),
    ("neglm embed --cbow", "word2vec's CBOW."),
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
    init_vectors: InitVectors = None,
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
    ] = CHECKPOINT_INTERVAL,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train word vectors: skip-gram, or CBOW, with negative sampling.

    Every word of the vocabulary gets two vectors, as a word and as a context; both are written, with the vocabulary and
    all settings. Sentences end at line ends. Out-of-vocabulary words, <unk> and <eos> get no vectors. All pairs of a
    window share their noise words, as do seven windows far apart in the text: this makes training fast, at no cost in
    quality.

    With --subwords, the vector of a word is the mean of a row of its own and the rows of its n-grams, which are those
    of fastText; commands that use the vectors compose those of unknown words from their n-grams. neglm-format(5) has
    the details. A note tells the memory of all tables before training. With --floret, too, words have no rows of their
    own: words and n-grams have --hash-count rows each of one table of --buckets rows, as in floret, and the vector of a
    word, known or not, is the mean of these. Vectors to start from need the same kind of table.

    With --cbow, the mean of the vectors in a window predicts its word, and each gets the whole update, as in word2vec.
    Vectors start at random in ±0.5/size, as in word2vec, but with --cbow in ±5/size, which makes them better.
    Hierarchical softmax is not offered.

    The text is read from disk in every epoch; memory holds little more than the two matrices. A checkpoint, the
    output's name with .partial appended, is written about once a minute and on interruption; it is a file of vectors
    like the final one. While it exists, new trainings with the same output are refused, as is a second process while
    one is running.

    Under mpirun, ranks divide the text and average their vectors, those of frequent words more often, which takes a
    second copy of the vectors per rank. On SIGTERM all ranks stop and write one checkpoint.

    Threads update vectors without locks, so two runs differ slightly. With --deterministic they do not: each thread
    updates its own dimensions.
    """
    request = Request(
        output=output,
        given=given,
        corpus=corpus or [],
        vocab=vocab,
        pairs=pairs,
        init_vectors=init_vectors,
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
    with open_training(request, host) as training:
        if isinstance(training, FullBatchTraining):
            summary = full_batch_summary(training, training.run(output), output)
        else:
            loop = Loop(training, output, checkpoint, host)
            loop.run()
            summary = summary_of(training, loop, output)
    console.summary(summary, as_text(summary), output, json)
