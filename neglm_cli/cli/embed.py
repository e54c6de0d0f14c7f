"""`neglm embed`: word vectors from text, or vectors for both sides of any table of pairs."""

import os
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import Progress, console
from neglm_cli.cli.options import (
    FLAG,
    INPUT,
    MODEL,
    OUTPUT,
    RUNTIME,
    TRAINING,
    Debug,
    Json,
    Quiet,
    Threads,
    one_blas_thread,
    refuse_overwriting,
    thread_count,
)
from neglm_cli.cli.signals import Terminated, undisturbed
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM, check_writable

if TYPE_CHECKING:
    from neglm_cli.sgns.job import Job
    from neglm_cli.sgns.settings import Settings
    from neglm_cli.text.alphabet import Alphabet
    from neglm_cli.text.pairs import Pairs
    from neglm_cli.text.source import Corpus

DEFAULT_VOCABULARY = "vocab.safetensors"
PARTIAL = ".partial"  # behind the name of the output: the state of a training that is not finished
COUNTING_MEMORY = 1 << 30  # bytes for the words of a text without a vocabulary; more goes to disk
MOST_ITERATIONS = 100_000  # of --exact
CHECKPOINT_SHARE = 20  # checkpoints are apart at least so many times the time that writing one takes


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
    corpus: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CORPUS",
            help="Text files, plain or compressed; - is standard input. Without any, the corpus of the vocabulary.",
            show_default=False,
        ),
    ] = None,
    vocab: Annotated[
        str | None,
        typer.Option(
            help="The vocabulary, made by `neglm vocab`.",
            show_default="vocab.safetensors if it is there; else CORPUS is counted",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
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
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            help="Keep an encoded copy of the text, 4 bytes a word, in NEGLM_CACHE (or neglm in the user's cache "
            "directory), or not. Default: keep it.",
            metavar=FLAG,
            rich_help_panel=INPUT,
        ),
    ] = True,
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
        typer.Option(
            min=0,
            max=10,
            help="Draw noise words in proportion to count^ALPHA: 1 as frequent as they are, 0 all alike.",
            show_default="0.75; with --pairs 1",
            metavar="ALPHA",
            rich_help_panel=MODEL,
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
            metavar=FLAG,
            rich_help_panel=TRAINING,
        ),
    ] = False,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="The same bytes at every run with the same --seed and --threads.",
            metavar=FLAG,
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
            metavar=FLAG,
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
    it is a file of vectors like the finished one.

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
        if resume:
            job = _resumed(output, given, corpus or [], pairs, cache)
        else:
            settings = _settings(given, pairs is not None)
            if settings.exact:
                _show(_exact(_read_pairs(pairs or "", settings), settings, output), output, json, quiet)
                return
            job = _new_job(corpus or [], vocab, pairs, settings, cache, copies)
            if init is not None:
                _start_from(job, init)
        _show(_train(job, output, checkpoint), output, json, quiet)


def _check_usage(
    given: dict[str, Any], corpus: list[str], vocab: str | None, pairs: str | None, init: str | None, resume: bool,
    output: str,
) -> None:  # fmt: skip
    if "lr" in given and not 0 < given["lr"] < float("inf"):
        raise typer.BadParameter(f"--lr {given['lr']:g} is not a learning rate: it must be more than 0.")
    for name in ("sample", "noise_alpha"):
        if not given.get(name, 0) < float("inf"):
            raise typer.BadParameter(f"--{name.replace('_', '-')} must be a finite number.")
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
    refuse_overwriting(output, [path for path in (*corpus, vocab, pairs) if path])


def _settings(given: dict[str, Any], pairs: bool) -> "Settings":
    from neglm_cli.sgns.settings import PAIRS_DEFAULTS, Settings

    return Settings(**({**PAIRS_DEFAULTS} if pairs else {}) | given | {"threads": thread_count(given.get("threads"))})


# --- what to train on ---------------------------------------------------------------------------------


def _new_job(
    corpus: list[str], vocab: str | None, pairs: str | None, settings: "Settings", cache: bool, copies: ExitStack
) -> "Job":
    from neglm_cli.sgns.job import pairs_job
    from neglm_cli.store.container import seekable

    if pairs is not None:
        return pairs_job(_read_pairs(pairs, settings), settings)
    if vocab is None and not corpus and not os.path.exists(DEFAULT_VOCABULARY):
        raise NeglmError(
            f"there is no {DEFAULT_VOCABULARY} here: name a corpus, or make a vocabulary with `neglm vocab` first"
        )
    # A pipe can be read once, and training reads its text once an epoch and once to count it: so it is copied.
    pipes = {path for path in corpus if path == STANDARD_STREAM or (os.path.exists(path) and not os.path.isfile(path))}
    readable = [copies.enter_context(seekable(path)).location if path in pipes else path for path in corpus]
    words, files = _words(readable, vocab, settings)
    job = _text_job(words, _named_or_remembered(readable, files, vocab, settings), settings, cache and not pipes)
    for file, path in zip(job.files, corpus, strict=False):
        if path in pipes:
            file["path"] = None
    return job


def _text_job(words: "Alphabet", corpus: "Corpus", settings: "Settings", cache: bool) -> "Job":
    from neglm_cli.sgns.job import text_job
    from neglm_cli.text.encoded import default_cache
    from neglm_cli.text.remembered import fingerprint

    files = [
        {"path": source.path, "size": source.size, "fingerprint": fingerprint(source, settings.threads)}
        for source in corpus.sources
    ]
    return text_job(words, corpus, files, settings, default_cache() if cache else None, console.note)


def _words(corpus: list[str], vocab: str | None, settings: "Settings") -> tuple["Alphabet", list[dict[str, Any]]]:
    """The words that get vectors, from a vocabulary or from the corpus; and the corpus that a vocabulary remembers."""
    from neglm_cli.sgns.textsource import words_with_vectors
    from neglm_cli.text.count import counting
    from neglm_cli.text.source import open_corpus
    from neglm_cli.text.vocabulary import Vocabulary, build

    if vocab is None and not os.path.exists(DEFAULT_VOCABULARY):
        opened = open_corpus(corpus)
        with (
            Progress("counting words", opened.size) as progress,
            counting(opened, settings.threads, COUNTING_MEMORY, progress.advance) as counts,
        ):
            vocabulary = build(counts, settings.min_count)
        return words_with_vectors(vocabulary, settings.min_count), []
    path = DEFAULT_VOCABULARY if vocab is None else vocab
    vocabulary = Vocabulary.load(path)
    console.note(f"using the vocabulary {shown(path)} ({len(vocabulary):,} words)")
    return words_with_vectors(vocabulary, settings.min_count), vocabulary.files


def _named_or_remembered(
    corpus: list[str], files: list[dict[str, Any]], vocab: str | None, settings: "Settings"
) -> "Corpus":
    from neglm_cli.text.remembered import reopen
    from neglm_cli.text.source import open_corpus

    if corpus:
        return open_corpus(corpus)
    opened = reopen(files, vocab or DEFAULT_VOCABULARY, settings.threads)
    console.note(f"training on {opened.name}, the corpus of the vocabulary")
    return opened


def _read_pairs(path: str, settings: "Settings") -> "Pairs":
    from neglm_cli.text.pair_lines import pairs_of
    from neglm_cli.text.source import open_corpus

    source = open_corpus([path])
    with Progress("reading pairs", source.size) as progress:
        return pairs_of(source, progress.advance).cut(settings.min_count)


def _start_from(job: "Job", path: str) -> None:
    from neglm_cli.vectors.vectors import Vectors

    given = Vectors.load(path)
    if given.size != job.settings.size:
        raise NeglmError(
            f"{shown(path)} has vectors of size {given.size}, and these have size {job.settings.size}: "
            f"use --size {given.size}"
        )
    known = job.tables.start_from(given, job.words, job.contexts)
    console.note(f"{known:,} of {len(job.words):,} words start from {shown(path)}")


def _resumed(output: str, given: dict[str, Any], corpus: list[str], pairs: str | None, cache: bool) -> "Job":
    from neglm_cli.sgns.job import go_on, pairs_job
    from neglm_cli.sgns.settings import Settings
    from neglm_cli.text.remembered import reopen
    from neglm_cli.text.source import open_corpus
    from neglm_cli.vectors.vectors import Vectors

    path = output + PARTIAL
    if not os.path.exists(path):
        finished = f"; {shown(output)} is finished" if os.path.exists(output) else ""
        raise NeglmError(f"there is nothing to go on with: {shown(path)} does not exist{finished}")
    partial = Vectors.load(path)
    stored = {name: value for name, value in partial.arguments.items() if name != "pairs"}
    settings = Settings(**stored)
    _refuse_changes(settings, given)
    if "threads" in given and not settings.deterministic:
        settings = Settings(**stored | {"threads": given["threads"]})
    if partial.arguments["pairs"]:
        source = open_corpus([pairs]) if pairs else reopen(partial.files, path, settings.threads)
        job = pairs_job(_read_pairs(source.sources[0].path, settings), settings)
    else:
        opened = open_corpus(corpus) if corpus else reopen(partial.files, path, settings.threads)
        job = _text_job(partial.words, opened, settings, cache)
    if [file["fingerprint"] for file in job.files] != [file["fingerprint"] for file in partial.files]:
        raise NeglmError(f"{shown(path)} was training on another text: name that one, or start again without --resume")
    go_on(job, partial, shown(path))
    console.note(f"going on with {shown(path)}: {job.done:,} of {job.total:,} words are done")
    return job


def _refuse_changes(settings: "Settings", given: dict[str, Any]) -> None:
    for name, value in given.items():
        if getattr(settings, name) != value and (name != "threads" or settings.deterministic):
            option = name.replace("_", "-")
            raise NeglmError(
                f"this training was started with --{option} {getattr(settings, name)}: leave out --{option}, or start "
                "again without --resume"
            )


# --- training -----------------------------------------------------------------------------------------


def _train(job: "Job", output: str, checkpoint: float) -> dict[str, Any]:
    """Train to the end and write the vectors; what is done so far is written now and then, and if it is cut short."""
    state = "" if output in STANDARD_OUTPUT else output + PARTIAL
    if state and not job.done and os.path.exists(state):
        console.note(
            f"{shown(state)}, of a training that was not finished, will be replaced (--resume goes on with it)"
        )
    trainer = job.trainer()
    trainer.prepare()
    unit = "M pairs" if job.pairs else "M words"
    loss = pairs = 0.0
    last_saved, took = time.monotonic(), 0.0
    begun = job.done
    with Progress("training", job.total, unit, job.done) as progress:
        try:
            with closing(trainer.run()) as running:
                for trained in running:
                    if job.done % job.source.length == 0:
                        loss = pairs = 0.0  # the loss is that of the epoch
                    loss, pairs = loss + trained.loss, pairs + trained.pairs
                    progress.advance(trainer.done - job.done, f"loss {loss / max(pairs, 1):.4f}")
                    job.done = trainer.done
                    due = time.monotonic() - last_saved > max(checkpoint, CHECKPOINT_SHARE * took)
                    if state and due and job.done < job.total:
                        started = time.monotonic()
                        for finished in trainer.settle():
                            loss, pairs = loss + finished.loss, pairs + finished.pairs
                        progress.advance(trainer.done - job.done)
                        job.done = trainer.done
                        job.save(state)
                        last_saved = time.monotonic()
                        took = last_saved - started
        except NeglmError as error:
            kept = f"{shown(state)} has the last good state" if begun or took else "nothing was written"
            raise NeglmError(f"{error}; {kept}") from error
        except (KeyboardInterrupt, Terminated):
            with undisturbed():
                job.done = trainer.done
                if state and begun < job.done < job.total:
                    job.save(state)
                    console.note(f"the state is in {shown(state)}: go on with --resume")
            raise
        seconds, rate = progress.seconds, progress.rate
    job.save(output)
    if state:
        with suppress(OSError):
            Path(state).unlink()
    return {
        "output": output,
        "words": len(job.words),
        "contexts": len(job.contexts),
        "size": job.settings.size,
        "trained_on": job.total,
        "unit": "pairs" if job.pairs else "words",
        "epochs": job.settings.epochs,
        "loss": loss / max(pairs, 1),
        "seconds": round(seconds, 3),
        "per_second": round(rate),
    }


def _exact(pairs: "Pairs", settings: "Settings", output: str) -> dict[str, Any]:
    from neglm_cli.objective.exact import maximise
    from neglm_cli.vectors.vectors import Vectors

    with Progress("maximising", None, "iterations") as progress:
        result = maximise(
            pairs, settings.size, settings.k, settings.noise_alpha, settings.objective, settings.seed,
            max_iterations=MOST_ITERATIONS,
            report=lambda iteration, score: progress.advance(0, f"iteration {iteration}, S {score:.8f}"),
        )  # fmt: skip
        seconds = progress.seconds
    if not result.converged:
        console.note(f"not converged after {result.iterations:,} iterations: what is left to gain is small")
    Vectors(
        pairs.words, result.vectors.astype("float32"), pairs.contexts, result.context_vectors.astype("float32"),
        settings.objective, settings.k, settings.noise_alpha, settings.stored() | {"pairs": True}, pairs.files,
        {"done": result.iterations, "total": result.iterations},
    ).save(output)  # fmt: skip
    return {
        "output": output,
        "words": len(pairs.words),
        "contexts": len(pairs.contexts),
        "size": settings.size,
        "pairs": pairs.total,
        "score": result.score,
        "divergence": result.divergence,
        "iterations": result.iterations,
        "converged": result.converged,
        "seconds": round(seconds, 3),
    }


def _show(summary: dict[str, Any], output: str, json: bool, quiet: bool) -> None:
    if output in STANDARD_OUTPUT:
        console.note(console.as_json(summary) if json else _as_text(summary))
    elif json:
        console.json(summary)
    elif not quiet:
        console.result(_as_text(summary))


def _as_text(summary: dict[str, Any]) -> str:
    name = "the vectors" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    lines = [f"{name}: {summary['words']:,} words and {summary['contexts']:,} contexts, {summary['size']} dimensions"]
    if "score" in summary:
        end = "converged" if summary["converged"] else "not converged"
        lines.append(f"  {'S(m)':<16}{summary['score']:.8f} nats per pair, {summary['divergence']:.8f} below S(pmi)")
        lines.append(f"  {'iterations':<16}{summary['iterations']:,}, {end}, in {summary['seconds']:,.1f} s")
    else:
        rate = f"{summary['per_second']:,} {summary['unit']}/s"
        lines.append(
            f"  {'trained on':<16}{summary['trained_on']:,} {summary['unit']} in {summary['epochs']} epochs, "
            f"{summary['seconds']:,.1f} s, {rate}"
        )
        lines.append(f"  {'loss':<16}{summary['loss']:.4f} nats per pair and its noise, in the last epoch")
    return "\n".join(lines)
