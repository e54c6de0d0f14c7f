"""`neglm train-lm`: a language model from text."""

import os
from typing import Any

from neglm_cli.cli import train_lm_options as option
from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.host import ConsoleHost
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    Cache,
    Debug,
    DeviceName,
    InitVectors,
    Json,
    Quiet,
    TrainingCorpus,
    VocabularyFile,
    find_gpu,
    one_blas_thread,
)
from neglm_cli.cli.several_gpus import run_on_listed_gpus
from neglm_cli.cli.train_lm_dry import estimate, estimate_as_text
from neglm_cli.cli.train_lm_run import Log, as_text, log_name, summary_of
from neglm_cli.errors import UsageError
from neglm_cli.runs.checkpoints import CHECKPOINT_INTERVAL, CHECKPOINT_SUFFIX
from neglm_cli.runs.loop import Loop
from neglm_cli.runs.train_lm import Request, check, check_files, open_training
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.train_lm import Settings
from neglm_cli.store.output import STANDARD_OUTPUT


@subcommand(
    "train-lm",
    ("neglm vocab corpus.txt && neglm train-lm --loss neglm --k 100", "The paper's model of a text."),
    ("neglm train-lm train.txt --valid valid.txt --log train.log", "Keep the model that predicts another text best."),
    ("neglm train-lm --resume", "Resume an interrupted run."),
    ("neglm train-lm --dry-run --preset 1b news.txt", "Estimate the memory, disk space and time of a large model."),
    ("neglm train-lm --device cuda:all", "On all GPUs of this machine."),
    ("mpirun -n 2 neglm train-lm --noise batch", "On two ranks, perhaps on two machines."),
    ("zstdcat c.zst | neglm train-lm - --hidden 100 --epochs 5", "From a pipe: a small model, quickly."),
    multi_value_options=("--valid",),
    settings=Settings,
)
def train_lm(
    corpus: TrainingCorpus = None,
    vocab: VocabularyFile = None,
    min_count: option.MinCount = None,
    max_vocab: option.MaxVocab = None,
    valid: option.Valid = None,
    cache: Cache = True,
    preset: option.Preset = "ptb",
    init_vectors: InitVectors = None,
    given: dict[str, Any] = {},  # noqa: B006  (options take its place)
    output: option.Output = DEFAULT_MODEL,
    log: option.Log = None,
    json: Json = False,
    dry_run: option.DryRun = False,
    resume: option.Resume = False,
    checkpoint: option.Checkpoint = CHECKPOINT_INTERVAL,
    device: DeviceName = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a language model: an LSTM that learns by negative sampling.

    Every loss is a row of one table. With s the training score of a word w in a context c, p_α the probability of a
    noise word, k their number and log Z a constant (--log-z): neglm: s = w·c - log Z, and p(w|c) is proportional
    to exp(s) p_α(w); neglm-b: s = w·c + b - log Z, else the same; nce: s = w·c + b - log Z - log(k p_α(w)), and p(w|c)
    is proportional to exp(w·c + b); neg: s = w·c, and p(w|c) is taken as proportional to exp(s), which is wrong and
    shows why the correction is there; softmax: p(w|c) is proportional to exp(w·c + b), with all words in place of
    noise. neglm-format(5) has the table with all constants, and the formulas of the optimizers.

    The text is one sequence; the end of a line is the word <eos>, and out-of-vocabulary words are <unk>. An epoch
    predicts all words except the first and up to --batch - 1 at the end. The text is read from disk in every epoch.
    Memory holds the parameters, the optimizer state and one minibatch; time per word does not depend on the size of the
    vocabulary, except for softmax.

    A checkpoint, the output's name with .partial appended, is written about once a minute, after each epoch and on
    interruption. While it exists, new trainings with the same output are refused, as is a second process while one is
    running. With --valid the model is written after each epoch that is the best so far, otherwise at the end. A
    training that diverges is stopped; earlier files are kept.

    Under mpirun, or with --device cuda:all, ranks divide the rows of the batch and sum their gradients after each
    minibatch: they train the same model as one rank, bit for bit for two or four ranks on CPUs, otherwise up to
    rounding. Rank 0 prints and writes the files. If any rank gets SIGTERM, all stop and write one checkpoint; --resume
    works with any number of ranks.

    LOG: every line has event (progress, epoch or end), epoch, step, tokens (trained on so far, with ends of line),
    seconds, words_per_second and learning_rate; progress has loss (nats per word since the last report, or since the
    epoch began), loss_tokens (over which it is the mean), gradient_norm, log_z_mean and log_z_std (of some words of the
    last minibatch); epoch has loss and loss_tokens (of the epoch) and, with --valid, valid_perplexity and best.
    Resuming appends to the log; if a step appears twice, the later line wins. Under mpirun every line has its rank.
    """
    request = Request(
        output=output,
        given=given,
        preset=preset,
        corpus=corpus or [],
        vocab=vocab,
        min_count=min_count,
        max_vocab=max_vocab,
        valid=valid or [],
        init_vectors=init_vectors,
        cache=cache,
        device=device,
        resume=resume,
        checkpoint=checkpoint,
    )
    check(request, writes=not dry_run)
    if dry_run:
        _check_dry_run(request)
    if log is not None:
        _check_log(log, output)
    check_files(request, log_name(log))
    if not dry_run:
        run_on_listed_gpus(device)
    one_blas_thread()
    console.announce_standard_input([*request.corpus, *request.valid])
    console.announce_compiling()
    host = ConsoleHost()
    if dry_run:
        expected = estimate(request, find_gpu(device), host)
        console.json(expected) if json else console.result(estimate_as_text(expected))
        return
    with open_training(request, host) as training, Log(log, append=resume) as reports:
        loop = Loop(training, output, checkpoint, ConsoleHost(reports.write))
        loop.run()
        summary = summary_of(training, loop, output)
    console.summary(summary, as_text(summary), output, json)


def _check_dry_run(request: Request) -> None:
    if request.resume:
        raise UsageError("--dry-run tries a new training: leave out --resume.")
    if ranks().size > 1:
        raise UsageError("--dry-run runs in a single process: start it without mpirun.")


def _check_log(log: str, output: str) -> None:
    if log in STANDARD_OUTPUT:
        raise UsageError("--log needs the name of a file: standard output has the summary.")
    if os.path.realpath(log) in (os.path.realpath(output), os.path.realpath(output + CHECKPOINT_SUFFIX)):
        raise UsageError("--log and --output are the same file: name another.")
