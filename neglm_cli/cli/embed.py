"""`neglm embed`: word vectors from text, or vectors for both sides of any table of pairs."""

from contextlib import ExitStack
from typing import Annotated, Any, Literal

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
    MODEL,
    OUTPUT,
    RUNTIME,
    TRAINING,
    Cache,
    Debug,
    Json,
    Quiet,
    Threads,
    TrainingCorpus,
    VocabularyFile,
    noise_alpha_option,
    one_blas_thread,
)
from neglm_cli.cli.overwriting import refuse_overwriting
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.launch import ranks
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
    ("neglm embed --resume", "Go on with a training that was interrupted."),
    ("neglm embed --deterministic --seed 7", "The same bytes at every run, on as many threads as you like."),
    ("neglm embed --pairs clicks.tsv --size 50", "Vectors for both sides of a table of pairs."),
    ("neglm embed --pairs small.tsv --exact --objective cond", "All of a small table, to convergence: log p(y|x)."),
)
def embed(
    corpus: TrainingCorpus = None,
    vocab: VocabularyFile = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Leave out words that occur fewer than N times.",
            show_default="5; with --pairs 1",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
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
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Dimensions of a vector.", show_default="100", metavar="N", rich_help_panel=MODEL),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Words to either side of a word that are its contexts, at most; each window draws its own reach "
            "from 1 to this.",
            show_default="5",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            "--negative",
            min=1,
            max=1000,
            help="Noise words per pair; 2 to 20 are useful.",
            show_default="5",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = None,
    sample: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Thin out words whose share of the text is above T; 0 for none. Useful: 1e-5 to 1e-3.",
            show_default="0.001",
            metavar="T",
            rich_help_panel=MODEL,
        ),
    ] = None,
    noise_alpha: Annotated[
        float | None,
        noise_alpha_option(
            "Draw noise words in proportion to count^ALPHA: 1 as frequent as they are, 0 all alike.",
            "0.75; with --pairs 1",
        ),
    ] = None,
    objective: Annotated[
        Literal["pmi", "cond"] | None,
        typer.Option(
            help="What the product of two vectors approximates: pmi, the shifted PMI, as in word2vec; or cond, "
            "log p(y|x).",
            show_default="pmi",
            metavar="NAME",
            rich_help_panel=MODEL,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            "--iter",
            min=1,
            help="How often to go through the text.",
            show_default="5",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Learning rate at the start; it falls linearly to a ten-thousandth. (word2vec's -alpha.)",
            show_default="0.025",
            metavar="RATE",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="With --pairs: maximise the whole objective, without sampling, to convergence. For tables of up to "
            "25 million cells.",
            rich_help_panel=TRAINING,
        ),
    ] = False,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="The same bytes at every run with the same --seed and --threads.",
            rich_help_panel=TRAINING,
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**63 - 1,
            help="Of all random numbers.",
            show_default="1",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
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
    threads: Threads = None,
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
    given = {
        "size": size, "window": window, "k": k, "sample": sample, "noise_alpha": noise_alpha, "min_count": min_count,
        "epochs": epochs, "lr": lr, "objective": objective, "seed": seed, "exact": exact or None,
        "deterministic": deterministic or None, "threads": threads,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    _check_usage(given, corpus or [], vocab, pairs, init, resume, output)
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
            if settings.exact and ranks().size > 1:
                raise typer.BadParameter("--exact is the work of one process: start it without mpirun.")
            if settings.exact:
                note_replacing(output)
                summary = train_exactly(read_pairs(pairs or "", settings), settings, output)
            else:
                vectors = None if init is None else vectors_to_start_from(init, settings)
                job = new_job(corpus or [], vocab, pairs, settings, cache, copies)
                if init is not None and vectors is not None:
                    start_from(job, vectors, init)
                del vectors  # training needs the memory
                note_replacing(output)
                summary = Run(job, output, checkpoint).train()
    console.summary(summary, as_text(summary), output, json)


def _check_usage(
    given: dict[str, Any], corpus: list[str], vocab: str | None, pairs: str | None, init: str | None, resume: bool,
    output: str,
) -> None:  # fmt: skip
    if "lr" in given and not 0 < given["lr"] < float("inf"):
        raise typer.BadParameter(f"--lr {given['lr']:g} is not a learning rate: it must be more than 0.")
    if not given.get("sample", 0) < float("inf"):
        raise typer.BadParameter("--sample must be a finite number.")
    if pairs is not None:
        for name in ("window", "sample"):
            if name in given:
                raise typer.BadParameter(f"--{name} is for text: a table of pairs has no windows.")
        if corpus:
            raise typer.BadParameter("train on a corpus or on --pairs: give one of them.")
        if vocab is not None:
            raise typer.BadParameter("--vocab is for text: a table of pairs has alphabets of its own.")
    elif "exact" in given and not resume:
        raise typer.BadParameter("--exact is for a table of pairs: give it with --pairs.")
    if "exact" in given:
        for name in ("epochs", "lr", "deterministic"):
            if name in given:
                raise typer.BadParameter(f"--{name} is for sampled training: --exact goes on to convergence.")
        if init is not None:
            raise typer.BadParameter("--init is for sampled training: --exact finds its own start.")
    if resume and init is not None:
        raise typer.BadParameter("--resume goes on from its own state: leave out --init.")
    if [*corpus, pairs].count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    if resume and vocab is not None:
        raise typer.BadParameter("--resume has its words already: leave out --vocab.")
    if resume and "exact" in given:
        raise typer.BadParameter("--exact leaves nothing behind to go on with: leave out --resume.")
    if resume and output in STANDARD_OUTPUT:
        raise typer.BadParameter("--resume needs the name of the output that was being made: give it with --output.")
    implied = DEFAULT_VOCABULARY if vocab is None and pairs is None else None
    state = output + PARTIAL
    refuse_overwriting([output, state], [*corpus, vocab, implied, pairs, init], [state] if resume else [])
