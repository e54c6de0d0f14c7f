"""`neglm train-lm`: a language model from text."""

from contextlib import ExitStack
from typing import Annotated, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    FLAG,
    INPUT,
    MODEL,
    OUTPUT,
    RUNTIME,
    TRAINING,
    Cache,
    Debug,
    DeviceName,
    Json,
    Quiet,
    Threads,
    TrainingCorpus,
    VocabularyFile,
    find_gpu,
    one_blas_thread,
)
from neglm_cli.cli.train_lm_dry import estimate, estimate_as_text
from neglm_cli.cli.train_lm_jobs import (
    new_job,
    new_texts,
    resumed_job,
    settings_of,
    vectors_to_start_from,
)
from neglm_cli.cli.train_lm_run import Log, Run, as_text
from neglm_cli.cli.train_lm_usage import check_usage, keep_inputs
from neglm_cli.scale.launch import ranks
from neglm_cli.store.output import check_writable

WORDS_OF_1B = 64_000


@subcommand(
    "train-lm",
    ("neglm vocab corpus.txt && neglm train-lm --loss neglm --k 100", "The paper's model of a text."),
    ("neglm train-lm train.txt --valid valid.txt --log train.log", "Keep the model that predicts another text best."),
    ("neglm train-lm --resume", "Go on with a training that was interrupted."),
    ("neglm train-lm --dry-run --preset 1b news.txt", "What a large model would take, before it is trained."),
    ("mpirun -n 2 neglm train-lm --noise batch", "In two processes, which may be on two machines."),
    ("zstdcat c.zst | neglm train-lm - --hidden 100 --epochs 5", "From a pipe: a small model, quickly."),
    spread=("--valid",),
)
def train_lm(
    corpus: TrainingCorpus = None,
    vocab: VocabularyFile = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Where CORPUS is counted: words that occur fewer than N times become <unk>.",
            show_default="1",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    max_size: Annotated[
        int | None,
        typer.Option(
            min=3,
            help="Where CORPUS is counted: keep at most N words.",
            show_default="no limit; 64,000 with --preset 1b, as in the paper",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(
            help="Text to validate on after each epoch: the model of the epoch with the lowest perplexity is kept.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    cache: Cache = True,
    preset: Annotated[
        Literal["ptb", "1b"],
        typer.Option(
            help="Defaults of all options below: the paper's settings for the Penn Treebank, or for the 1-billion-word "
            "benchmark (1×512, dropout 0.1, Adam at 0.001, batch 1000, one epoch).",
            metavar="ptb|1b",
            rich_help_panel=MODEL,
        ),
    ] = "ptb",
    loss: Annotated[
        Literal["neglm", "neglm-b", "nce", "neg", "softmax"] | None,
        typer.Option(
            help="neglm: negative sampling, corrected at test time (the paper); neglm-b: with a learned bias; nce: "
            "noise-contrastive estimation; neg: negative sampling without the correction, to compare; softmax: over "
            "all words, to compare.",
            show_default="neglm",
            metavar="NAME",
            rich_help_panel=MODEL,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            "--negative",
            min=1,
            max=100_000,
            help="Noise words per word; 10 to 400 are useful.",
            show_default="100, the paper's",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = None,
    noise_alpha: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Draw noise words in proportion to count^ALPHA: 1 as frequent as they are, 0 all alike. Used again at "
            "test time.",
            show_default="1, unigram frequencies, as in the paper's text",
            metavar="ALPHA",
            rich_help_panel=MODEL,
        ),
    ] = None,
    noise: Annotated[
        Literal["token", "step", "batch"] | None,
        typer.Option(
            help="Who shares noise words: none (token), the rows of a time step, or all words of a minibatch. Shared "
            "ones are faster, and worse the more share them.",
            show_default="token, the paper's",
            metavar="token|step|batch",
            rich_help_panel=MODEL,
        ),
    ] = None,
    log_z: Annotated[
        float | None,
        typer.Option(
            help="A constant that is subtracted from training scores (neglm, neglm-b, nce). It changes no probability, "
            "but says where training starts: with log k neglm starts as the unigram model, and the first epochs learn "
            "more than with 0, the paper's.",
            show_default="log k; 0 for nce",
            metavar="X",
            rich_help_panel=MODEL,
        ),
    ] = None,
    bias_init: Annotated[
        float | None,
        typer.Option(
            help="Where the biases of words start, for losses that have them.",
            show_default="-log V for nce, 0 for others, the paper's",
            metavar="X",
            rich_help_panel=MODEL,
        ),
    ] = None,
    hidden: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Units of each LSTM layer.",
            show_default="300, the paper's; 1b: 512",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="LSTM layers.",
            show_default="2, the paper's; 1b: 1",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = None,
    embedding: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Dimensions of a word's vector.",
            show_default="as many as hidden units, as in Chainer's PTB example",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.99,
            help="Share of units that are dropped in training: after the embedding, between layers, before the output.",
            show_default="0.5, the paper's; 1b: 0.1",
            metavar="P",
            rich_help_panel=MODEL,
        ),
    ] = None,
    init: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Weights and word vectors start evenly between -X and X.",
            show_default="0.1, as in Chainer's PTB example",
            metavar="X",
            rich_help_panel=MODEL,
        ),
    ] = None,
    init_output: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="The same for the output table.",
            show_default="0, as in Chainer's negative sampling",
            metavar="X",
            rich_help_panel=MODEL,
        ),
    ] = None,
    init_embeddings: Annotated[
        str | None,
        typer.Option(
            help="Start the vectors of words as inputs from this file, of `neglm embed` or `train-lm`; words that it "
            "does not have start as others do.",
            show_default=False,
            metavar="FILE",
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
            show_default="39, the paper's; 1b: 1",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000_000,
            help="Rows of a minibatch, each of which walks a stretch of the text.",
            show_default="20, the paper's; 1b: 1000",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    bptt: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Steps of a minibatch: how far gradients go back. The state is carried on.",
            show_default="20, the paper's",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    optimizer: Annotated[
        Literal["sgd", "adagrad", "adam"] | None,
        typer.Option(
            help="How parameters are moved.",
            show_default="sgd, the paper's; 1b: adam",
            metavar="sgd|adagrad|adam",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    adam: Annotated[
        Literal["lazy", "exact"] | None,
        typer.Option(
            help="Rows of the tables that a minibatch does not touch: lazy leaves them alone; exact moves them as Adam "
            "would, when they are needed again.",
            show_default="lazy, as sparse Adam is elsewhere",
            metavar="lazy|exact",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Learning rate at the start. The gradient is that of the loss summed over the steps of a minibatch "
            "and averaged over its rows.",
            show_default="1, the paper's; 1b: 0.001; with --optimizer adam 0.001, with adagrad 0.1",
            metavar="RATE",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    decay: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Divide the learning rate by this after each epoch, from --decay-from on.",
            show_default="1.2, the paper's; 1b: 1",
            metavar="X",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    decay_from: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The first epoch after which the learning rate falls.",
            show_default="6, the paper's",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help="Shorten gradients whose norm, over all parameters, is larger.",
            show_default="5, the paper's",
            metavar="NORM",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    reset_at_eos: Annotated[
        bool,
        typer.Option(
            "--reset-at-eos",
            help="Begin each line with no state. (The paper never resets it.)",
            metavar=FLAG,
            rich_help_panel=TRAINING,
        ),
    ] = False,
    patience: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="With --valid: stop when N epochs have brought nothing better; 0 never stops.",
            show_default="0, as in the paper",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**63 - 1,
            help="Of all random numbers. The same seed and threads give the same bytes.",
            show_default="1",
            metavar="N",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "--output",
            "-o",
            help="File to write; - is standard output.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = DEFAULT_MODEL,
    log: Annotated[
        str | None,
        typer.Option(
            help="Write one JSON object per report: every ten seconds, and after each epoch. See LOG. Under mpirun "
            "the first process writes it, or each its own, if {rank} stands in the name.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Json = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what it would take, memory, disk and time, from a few minibatches that are tried; write nothing.",
            metavar=FLAG,
            rich_help_panel=RUNTIME,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the training of --model that was interrupted or killed. All its options are kept; only "
            "--epochs, --patience and --threads may change.",
            metavar=FLAG,
            rich_help_panel=RUNTIME,
        ),
    ] = False,
    checkpoint: Annotated[
        float,
        typer.Option(
            min=0,
            help="Write the state for --resume every N seconds and after each epoch; less often if writing takes long.",
            metavar="N",
            rich_help_panel=RUNTIME,
        ),
    ] = 60,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a language model: an LSTM that learns by negative sampling.

    Every loss is a row of one table. With s the training score of a word w in a context c, p_α the probability of a
    noise word, k their number and log Z a constant (--log-z): neglm: s = w·c - log Z, and p(w|c) is proportional
    to exp(s) p_α(w); neglm-b: s = w·c + b - log Z, else the same; nce: s = w·c + b - log Z - log(k p_α(w)), and p(w|c)
    is proportional to exp(w·c + b); neg: as neglm, but without p_α(w) at test time, which is wrong and shows why the
    correction is there; softmax: all words in place of noise.

    The text is one sequence; the end of a line is the word <eos>, and words out of the vocabulary are <unk>. It is
    read from disk in every epoch. Memory holds the parameters, what the optimiser keeps of them, and one minibatch;
    time does not depend on the size of the vocabulary (but for softmax).

    While it trains, the state is written to the model's name with .partial behind it, once a minute or so, after each
    epoch and when it is interrupted; a new training of that name is refused while it is there. With --valid the model
    is written after each epoch that is the best so far, else at the end. A training that diverges is stopped, and
    leaves what was written before.

    Under mpirun, processes divide the rows of the batch, and add up their gradients after each minibatch: they train
    the model that one process trains, bit for bit if two or four train on processors, else up to rounding. The first
    one speaks and writes for all. If one of them gets SIGTERM, all stop and one state is written; --resume works with
    any number of processes.

    LOG: every line has event (progress, epoch or end), epoch, step, words, seconds, words_per_second and
    learning_rate; progress has loss (nats per word since the last report), gradient_norm, log_z_mean and log_z_std
    (of some words of the last minibatch); epoch has loss (of the epoch) and, with --valid, valid_perplexity and
    best. A training that goes on adds to the file: where a step occurs twice, the later line counts. Under mpirun every
    line has the rank of its process.
    """
    given = {
        "loss": loss, "k": k, "noise_alpha": noise_alpha, "noise": noise, "log_z": log_z, "bias_init": bias_init,
        "hidden": hidden, "layers": layers, "embedding": embedding, "dropout": dropout, "init": init,
        "init_output": init_output, "epochs": epochs, "batch": batch, "bptt": bptt, "optimizer": optimizer,
        "adam": adam, "lr": lr, "decay": decay, "decay_from": decay_from, "clip": clip,
        "reset_at_eos": reset_at_eos or None, "patience": patience, "seed": seed, "threads": threads,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    words = {"min_count": min_count, "max_size": max_size}
    check_usage(given, preset, words, corpus or [], vocab, valid or [], resume, dry_run, model, log)
    if resume and init_embeddings is not None:
        raise typer.BadParameter("--resume has its vectors already: leave out --init-embeddings.")
    check_writable(model)
    one_blas_thread()
    console.announce_compiling()
    gpu = find_gpu(device)
    with ExitStack() as copies:
        if resume:
            job = resumed_job(model, given, corpus or [], valid or [], cache, gpu, copies)
        else:
            limit = max_size or (WORDS_OF_1B if preset == "1b" else None)
            settings = settings_of(preset, given)
            counted = {"min_count": min_count or 1, "max_size": limit}
            texts = new_texts(corpus or [], vocab, valid or [], settings, counted, cache and not dry_run, copies)
            read = [file["path"] for file in [*texts.files, *texts.valid_files]]
            keep_inputs(model, log, [*read, init_embeddings])
            if dry_run and ranks().size > 1:
                raise typer.BadParameter("--dry-run is the work of one process: start it without mpirun.")
            if dry_run:
                expected = estimate(texts, settings, gpu)
                console.json(expected) if json else console.result(estimate_as_text(expected))
                return
            job = new_job(texts, settings, gpu, vectors_to_start_from(init_embeddings, settings))
        copies.callback(job.device.close)
        with Log(log, goes_on=resume) as reports:
            summary = Run(job, model, checkpoint, reports).train()
    console.summary(summary, as_text(summary), model, json)
