"""`neglm plot`: plots of training logs and vectors."""

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    INPUT,
    MODEL,
    OUTPUT,
    RUNTIME,
    Debug,
    Json,
    Quiet,
    Threads,
    VectorsFile,
    one_blas_thread,
    thread_count,
)
from neglm_cli.cli.plot_drawings import curves, pmi_density, word_map
from neglm_cli.cli.plot_follow import follow as follow_log
from neglm_cli.cli.pmi_inputs import NoiseAlpha, NoiseWords, PairsFile
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM, check_writable, writing

if TYPE_CHECKING:
    from neglm_cli.store.container import SeekableFile

CURVES, MAP, PMI = "learning curves", "map of words", "PMI and learned scores"
OUTPUTS = {CURVES: "curves.svg", MAP: "map.svg", PMI: "pmi.svg"}
MAPPED_WORDS = 200
MAP_WIDTH = 8.5  # inches
NARROWEST, WIDEST = 2.0, 40.0  # inches
UNITS = {"": 1.0, "in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4}  # in inches


@subcommand(
    "plot",
    ("neglm plot train.log", "Learning curves of a training; writes curves.svg."),
    ("neglm plot neglm.log nce.log --by time -o curves.pdf", "Two trainings in one plot, by time."),
    ("neglm plot a/log b/log --label NEGLM NCE", "With names of your own."),
    ("neglm plot --follow train.log", "In the terminal, while the training runs."),
    ("neglm plot vectors.safetensors --max-vocab 300 -o map.png", "A map of the 300 most frequent words."),
    ("neglm plot vectors.safetensors --only words.txt --projection tsne", "A map of the words in a file, by t-SNE."),
    ("neglm plot neglm.log nce.log --width acl --font-size 8 -o curves.pdf", "For one column of an ACL paper."),
    ("neglm plot --pmi vectors.safetensors", "Learned scores against the PMI they approximate."),
    multi_value_options=("--label",),
)
def plot(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Logs written by neglm train-lm --log, or one file of vectors; - is standard input. With --pmi: a "
            "file of vectors, then texts whose pairs are counted; by default, the training corpus.",
            show_default=False,
        ),
    ] = None,
    named: VectorsFile = None,
    by: Annotated[
        Literal["words", "time"] | None,
        typer.Option(
            help="x axis of learning curves: words read or time.",
            show_default="words",
            metavar="words|time",
            rich_help_panel=INPUT,
        ),
    ] = None,
    reports: Annotated[
        bool,
        typer.Option(
            "--reports",
            help="Plot every report, ten seconds apart, instead of epoch means.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    max_vocab: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="Map only the N most frequent words; of more than a few hundred, most are dots without labels.",
            show_default=str(MAPPED_WORDS),
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Map the words of this file, one per line; empty lines separate groups, which get different colors.",
            show_default="the most frequent words",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    pmi: Annotated[
        bool,
        typer.Option(
            "--pmi",
            help="Plot learned scores against PMI. Needs vectors with contexts, as neglm pmi does.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    pairs: PairsFile = None,
    every: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="With --pmi and a text: plot the pairs of one word in N. 1: of all words, which takes minutes for 100 "
            "MB of text.",
            show_default="as few words as have about 10 million pairs",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    projection: Annotated[
        Literal["pca", "tsne"] | None,
        typer.Option(
            help="Projection of the map: the first two principal components, or t-SNE, which shows clusters better and "
            "needs scikit-learn.",
            show_default="pca",
            metavar="pca|tsne",
            rich_help_panel=MODEL,
        ),
    ] = None,
    k: NoiseWords = None,
    noise_alpha: NoiseAlpha = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Names of the trainings, one per log.",
            show_default="the parts in which the file names differ",
            metavar="NAME",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            help="Width of the figure: in inches (3.25), cm (8.9cm) or mm (89mm), or the column width of a style: acl, "
            "icml, ieee and neurips; acl-wide, icml-wide and ieee-wide span both columns.",
            show_default="7 inches; 8.5 for a map",
            metavar="WIDTH",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    font_size: Annotated[
        float | None,
        typer.Option(
            min=4,
            max=40,
            help="Size of the text in points. Labels and captions are a little smaller, titles a little larger.",
            show_default="9",
            metavar="POINTS",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write, .svg, .png or .pdf; - is standard output, as SVG.",
            show_default="curves.svg, map.svg or pmi.svg",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Plot one log in the terminal, and update the plot until the training ends.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    json: Json = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**32 - 1, help="Random seed of t-SNE and --pmi.", metavar="N", rich_help_panel=RUNTIME
        ),
    ] = 1,
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Plot learning curves, a map of words, or learned scores against PMI.

    The files decide what is plotted. They come before --label, which takes all names that follow it. All plots except
    --follow need matplotlib, which the extra neglm[plot] installs. The same files give the same bytes.

    Learning curves: the training loss, the perplexity of the validation text with a ring around the best, and log Z
    with its standard deviation (for one or two trainings). Loss and log Z are epoch means, weighted by the tokens of
    each report; the last one may be of an unfinished epoch. Before the end of the second epoch, and with --reports,
    every report is plotted; more than 100 are averaged. A loss in the first twentieth of a training may be outside the
    plot. The time of a resumed training is the total of its runs.

    Map of words: vectors of unit length, projected to a plane, with frequent words in larger type. Words that would
    cover others are dots without labels. --only chooses the words: those without a vector are left out, with a note;
    unknown words of vectors trained with --subwords are composed from n-grams.

    For a paper, --width makes a figure of the width of its column, with text of --font-size: include it without
    scaling. In a narrow figure, the names of curves are below the panels.

    PMI: each observed pair counts as often as it occurs. Of a large text, some words are sampled, evenly by rank of
    frequency (--every): their PMI is exact, and the error of the correlation is the standard error of the sample. A
    perfect approximation has all pairs on the line score = PMI. Pairs that never occur have a PMI of minus infinity;
    the distribution of their scores, weighted by noise, is at the left. The outermost 0.05% at each side are cut off.
    """
    paths = [path for path in (named, *(files or [])) if path is not None]
    if not paths:
        raise typer.BadParameter("FILE is missing.")
    refuse_repeated_stdin([*paths, pairs, only])
    inches = None if width is None else _inches(width)
    if pmi:
        _check_pairs(paths, pairs)
    elif not (pairs is None and k is None and noise_alpha is None and every is None):
        raise typer.BadParameter("--pairs, --every, --k and --noise-alpha are for --pmi.")
    else:
        _check_labels(paths, label)
    if output is not None:
        _format(output)
    if follow:
        _check_follow(
            paths,
            pmi
            or bool(label)
            or any(option is not None for option in (max_vocab, only, projection, output, width, font_size)),
        )
        follow_log(paths[0], by or "words", reports)
        return
    from neglm_cli.pictures.paper import FONT_SIZE, WIDTH, Paper, need_matplotlib, render

    need_matplotlib()
    one_blas_thread()
    with ExitStack() as stack:
        if pmi:
            kind = PMI
        else:
            from neglm_cli.store.container import open_seekable

            sources = [stack.enter_context(open_seekable(path)) for path in paths]
            kind = _kind(sources)
        _check_kind(kind, by is not None or reports or bool(label), max_vocab, only, projection)
        paper = Paper(inches or (MAP_WIDTH if kind == MAP else WIDTH), font_size or FONT_SIZE)
        target = output or OUTPUTS[kind]
        refuse_overwriting([target], [*paths, pairs, only])
        check_writable(target)
        if kind == CURVES:
            drawing = curves(sources, label, by or "words", reports, paper)
        elif kind == MAP:
            drawing = word_map(sources[0], max_vocab or MAPPED_WORDS, only, projection or "pca", seed, paper)
        else:
            drawing = pmi_density(paths, pairs, k, noise_alpha, every, seed, thread_count(threads), paper)
    picture = render(drawing.draw, _format(target), paper.font_size)
    if picture.missing:
        console.note(
            "some characters are in no font on this machine and drawn as boxes: an SVG uses the fonts of its viewer"
        )
    with writing(target) as file:
        file.write(picture.data)
    name = "the plot" if target in STANDARD_OUTPUT else shown(target)
    summary = {"output": target, "plot": kind} | drawing.summary
    console.summary(summary, f"{name}: {drawing.text}", target, json)


def _check_pairs(files: list[str], pairs: str | None) -> None:
    if pairs is not None and len(files) > 1:
        raise typer.BadParameter("pairs come from a corpus or from --pairs: give one of them.")


def _check_labels(files: list[str], label: list[str] | None) -> None:
    if label and len(label) != len(files):
        raise typer.BadParameter(
            f"--label has {count_of(len(label), 'name')} for {count_of(len(files), 'file')}: give one for each."
        )


def _check_follow(files: list[str], has_other_options: bool) -> None:
    if has_other_options:
        raise typer.BadParameter("--follow plots one log in the terminal, with no options except --by and --reports.")
    if len(files) > 1 or files[0] == STANDARD_STREAM:
        raise typer.BadParameter("--follow takes one log, by the name of its file.")


def _format(output: str) -> str:
    from neglm_cli.pictures.paper import format_of

    format = format_of(output)
    if format is None:
        raise typer.BadParameter(f"the name {shown(output)} does not end in .svg, .png or .pdf.")
    return format


def _inches(width: str) -> float:
    """Parse a width: a number with or without a unit, or a name."""
    from neglm_cli.pictures.paper import COLUMNS

    if width in COLUMNS:
        return COLUMNS[width]
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(|in|cm|mm)", width)
    if match is None:
        raise typer.BadParameter(
            f"--width {shown(width)} is not a width: give inches (3.25), cm or mm (8.9cm), or a name: "
            f"{', '.join(COLUMNS)}."
        )
    inches = float(match[1]) * UNITS[match[2]]
    if not NARROWEST <= inches <= WIDEST:
        raise typer.BadParameter(f"--width must be between {NARROWEST:g} and {WIDEST:g} inches.")
    return inches


def _kind(sources: list["SeekableFile"]) -> str:
    """Return the kind of plot for these files."""
    from neglm_cli.store.container import is_safetensors

    stored = [is_safetensors(source.location) for source in sources]
    if not any(stored):
        return CURVES
    if len(stored) > 1:
        raise typer.BadParameter("give logs, or a single file of vectors.")
    return MAP


def _check_kind(kind: str, for_logs: bool, max_vocab: int | None, only: str | None, projection: str | None) -> None:
    """Refuse options of another kind of plot. for_logs: True if an option for logs was given."""
    if kind != CURVES and for_logs:
        raise typer.BadParameter("--by, --reports and --label are for the logs of trainings.")
    if kind != MAP and not (max_vocab is None and only is None and projection is None):
        raise typer.BadParameter("--max-vocab, --only and --projection are for a map of vectors.")
    if max_vocab is not None and only is not None:
        raise typer.BadParameter("--only and --max-vocab both choose the words of a map: give one of them.")
