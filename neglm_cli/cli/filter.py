"""`neglm filter`: choose records by their perplexity."""

from contextlib import ExitStack
from typing import Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.filter_run import FilterRequest, FilterRun
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    INPUT,
    MODEL,
    OUTPUT,
    RUNTIME,
    Debug,
    DeviceName,
    Json,
    ModelFile,
    Quiet,
    Texts,
    Threads,
    Tokenize,
    Unnormalized,
    one_blas_thread,
)
from neglm_cli.cli.reading import model_and_texts, open_model
from neglm_cli.cli.several_gpus import run_on_listed_gpus
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM, check_writable, is_regular_output


@subcommand(
    "filter",
    ("neglm filter sentences.txt", "Put perplexity, tokens and share of OOV words before each line."),
    ("neglm filter model.safetensors docs.jsonl.gz --field text -o scored.jsonl.gz", "Add them to objects of JSONL."),
    ("neglm filter sentences.txt --keep ..80% --bare -o kept.txt", "Drop the fifth with the highest perplexity."),
    ("neglm filter web.txt --max-oov 0.3 --keep ..90% --bare -o kept.txt", "Drop lines in other languages first."),
    ("neglm filter sentences.txt --contrast other.safetensors --keep ..50% -o kept.txt", "More like the model's text."),
)
def filter_(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A language model. A single text file is filtered with the default model.",
            show_default=DEFAULT_MODEL,
        ),
    ] = None,
    files: Texts = None,
    named: ModelFile = None,
    field: Annotated[
        str | None,
        typer.Option(
            help="Files are JSONL, an object on each line, with the text in this field; newlines in it separate lines.",
            show_default="each line is a text",
            metavar="NAME",
            rich_help_panel=INPUT,
        ),
    ] = None,
    tokenize: Tokenize = False,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Leave out lines that are not JSON objects with a text, and count them, instead of stopping.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    contrast: Annotated[
        str | None,
        typer.Option(
            help="Another language model: add the difference of both models, bits per token of MODEL minus those of "
            "this one, and let --keep choose by it.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=MODEL,
        ),
    ] = None,
    unnormalized: Unnormalized = False,
    keep: Annotated[
        str | None,
        typer.Option(
            help="Write only records in this range of perplexities (with --contrast, of differences), bounds included: "
            "100..500, ..300, or percentiles of all records, 20%..80%.",
            show_default="all",
            metavar="LOW..HIGH",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    max_oov: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Write only records whose share of out-of-vocabulary words is at most SHARE; percentiles of --keep "
            "are of these.",
            show_default="no limit",
            metavar="SHARE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    bare: Annotated[
        bool,
        typer.Option("--bare", help="Write records as they were, without added values.", rich_help_panel=OUTPUT),
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is standard output. Names that end in .gz, .bz2, .xz or .zst are compressed.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = STANDARD_STREAM,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue a stopped run with the same files, models and options, from OUTPUT.partial.",
            rich_help_panel=RUNTIME,
        ),
    ] = False,
    json: Json = False,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Score records with a language model, and keep those in a range of perplexities.

    Records are lines, or with --field objects of JSONL. They are written in order, as they are, with values added: the
    fields perplexity, tokens, oov_share and, with --contrast, contrast at the end of an object, or in place of fields
    of these names; the same columns, tab-separated, before a line. The perplexity includes ends of line, the number of
    tokens does not. Each line of a text is scored by itself, as in `neglm score`.

    Texts are read twice: to score them, and to write those that are kept. Standard input is copied to the directory
    TMPDIR. OUTPUT appears complete or not at all. Scores are kept in OUTPUT.partial until then: a run that was stopped
    continues with --resume, unless the output is standard output.

    A line that is no record stops the run with its number and offset in bytes (after decompression), unless
    --skip-bad is given; empty lines of JSONL are ignored. Under mpirun, ranks divide the records, and rank 0 writes.
    """
    path, texts = model_and_texts(model, files or [], named, "filter")
    refuse_repeated_stdin([path, contrast, *texts])
    refuse_overwriting([output], [path, contrast, *texts])
    check_writable(output)
    if skip_bad and field is None:
        raise typer.BadParameter("--skip-bad is for JSONL, with --field: every line of a text is a record.")
    if resume and not is_regular_output(output):
        raise typer.BadParameter("--resume is for runs with an --output file.")
    one_blas_thread()
    from neglm_cli.lm.filtering import Keep
    from neglm_cli.text.records import Format

    kept = Keep() if keep is None else Keep.parse(keep)
    if kept is None:
        raise typer.BadParameter(f"--keep {keep} is not a range such as 100..500, ..300, 20%..80% or 50%..")
    request = FilterRequest(Format(field), kept, max_oov, output, bare, tokenize, unnormalized, skip_bad, resume)
    run_on_listed_gpus(device)
    console.announce_compiling()
    summary = _run(request, path, contrast, texts, device, threads)
    console.summary(summary, _as_text(summary), output, json)


def _run(
    request: FilterRequest, path: str, contrast: str | None, texts: list[str], device: str, threads: int | None
) -> dict[str, Any]:
    from neglm_cli.lm.lines import BATCH_WORDS
    from neglm_cli.runs.corpora import InputFiles
    from neglm_cli.store.locking import exclusive

    with ExitStack() as stack:
        opened = open_model(path, device, threads, BATCH_WORDS)
        stack.callback(opened.device.close)
        other = None if contrast is None else open_model(contrast, device, threads, BATCH_WORDS)
        if other is not None:
            stack.callback(other.device.close)
        console.announce_standard_input(texts)
        corpus = InputFiles(texts, stack).open()
        if not console.rank:
            stack.enter_context(exclusive(request.output))
        return FilterRun(request, corpus, opened, other).run() | {"model": path}


def _as_text(summary: dict[str, Any]) -> str:
    name = "the records" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    share = summary["kept_records"] / max(summary["records"], 1)
    rows = [
        ("kept", f"{summary['kept_records']:,} of {count_of(summary['records'], 'record')} ({share:.1%})"),
        ("tokens", f"{summary['tokens']:,}, {summary['oov']:,} of them OOV"),
        ("speed", f"{summary['words_per_second']:,} words/s, with ends of line"),
    ]
    if summary["bad"]:
        rows.insert(1, ("bad lines", f"{summary['bad']:,}, skipped"))
    return "\n".join([name, *(f"  {label:<16}{value}" for label, value in rows)])
