"""`neglm plot`: pictures of trainings and of vectors."""

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
    one_blas_thread,
    thread_count,
)
from neglm_cli.cli.plot_drawings import curves, pmi_density, word_map
from neglm_cli.cli.plot_follow import follow as follow_log
from neglm_cli.cli.pmi_inputs import NoiseAlpha, NoiseWords, PairsFile
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM, check_writable, writing

if TYPE_CHECKING:
    from neglm_cli.store.container import SeekableFile

CURVES, MAP, PMI = "learning curves", "map of words", "PMI and learned scores"
OUTPUTS = {CURVES: "curves.svg", MAP: "map.svg", PMI: "pmi.svg"}
MOST_WORDS = 200


@subcommand(
    "plot",
    ("neglm plot train.log", "The learning curves of a training, as curves.svg."),
    ("neglm plot neglm.log nce.log --by time -o curves.pdf", "Those of two trainings in one picture, by time."),
    ("neglm plot a/log b/log --label NEGLM NCE", "With names of your own."),
    ("neglm plot --follow train.log", "In the terminal, while the training runs."),
    ("neglm plot vectors.safetensors --words 300 -o map.png", "A map of the 300 most frequent words."),
    ("neglm plot --pmi vectors.safetensors", "Learned scores against the PMI that they approximate."),
    spread=("--label",),
)
def plot(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Logs that neglm train-lm --log wrote, or one file of vectors; - is standard input. With --pmi: a "
            "file of vectors, and behind it texts whose pairs are counted; without any, what it was trained on.",
            show_default=False,
        ),
    ],
    by: Annotated[
        Literal["words", "time"] | None,
        typer.Option(
            help="Learning curves by words read or by time spent.",
            show_default="words",
            metavar="words|time",
            rich_help_panel=INPUT,
        ),
    ] = None,
    reports: Annotated[
        bool,
        typer.Option(
            "--reports",
            help="Learning curves of every report, ten seconds apart, instead of epoch means.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    words: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="Map the N most frequent words; beyond some hundreds most find no room for their names.",
            show_default=str(MOST_WORDS),
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    pmi: Annotated[
        bool,
        typer.Option(
            "--pmi",
            help="Draw learned scores against PMI. Needs vectors with contexts, as neglm pmi does.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    pairs: PairsFile = None,
    method: Annotated[
        Literal["pca", "tsne"] | None,
        typer.Option(
            help="How vectors come into a plane: the two directions in which they differ most, or t-SNE, which shows "
            "groups better and needs scikit-learn.",
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
            help="Names of the trainings, as many as there are logs.",
            show_default="what differs in the names of the files",
            metavar="NAME",
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
            help="Draw the curves of one log in the terminal, and again when it grows, until the training has ended.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    json: Json = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**32 - 1, help="Of the random numbers of t-SNE and --pmi.", metavar="N", rich_help_panel=RUNTIME
        ),
    ] = 1,
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw learning curves, a map of words, or learned scores against PMI.

    What is drawn depends on what the files are. They come before --label, which takes all names that follow it. But
    for --follow, matplotlib is needed, which neglm's extra named plot installs. The same files give the same bytes.

    Learning curves: the training loss, the perplexity of the validation text with a ring around the best, and log Z
    with its standard deviation (of one or two trainings), one above the other. Loss and log Z are epoch means, weighted
    by the words of each report; the last one may be that of a running epoch so far. Before the second epoch has
    ended, and with --reports, every report is drawn; of more than 100, neighbors are averaged. A loss in the first
    twentieth of a training may be too high for the picture. The time of a training that was resumed is that of all its
    runs together.

    Map of words: vectors of length 1 in a plane, with frequent words written larger. Words that would cover others
    are dots without a name.

    PMI: each observed pair counts as often as it occurs. A perfect approximation has all of them on the line score =
    PMI. Pairs that never occur have a PMI of minus infinity; how their scores are distributed is drawn at the left,
    where each counts as often as noise draws it. The outermost 0.05% at each side are cut off.
    """
    _check_usage(files, words, pmi, pairs, method, k, noise_alpha, label, output, follow)
    if follow:
        follow_log(files[0], by or "words", reports)
        return
    from neglm_cli.pictures.paper import need_matplotlib, render

    need_matplotlib()
    one_blas_thread()
    with ExitStack() as stack:
        if pmi:
            kind = PMI
        else:
            from neglm_cli.store.container import open_seekable

            sources = [stack.enter_context(open_seekable(file)) for file in files]
            kind = _kind(sources)
        _check_kind(kind, by is not None or reports or bool(label), words, method)
        target = output or OUTPUTS[kind]
        refuse_overwriting([target], [*files, pairs])
        check_writable(target)
        if kind == CURVES:
            drawing = curves(sources, label, by or "words", reports)
        elif kind == MAP:
            drawing = word_map(sources[0], words or MOST_WORDS, method or "pca", seed)
        else:
            drawing = pmi_density(files, pairs, k, noise_alpha, seed, thread_count(threads))
    picture = render(drawing.draw, _form(target))
    if picture.missing:
        console.note(
            "some characters are in no font of this machine and are drawn as boxes: an SVG leaves fonts to its viewer"
        )
    with writing(target) as file:
        file.write(picture.data)
    name = "the picture" if target in STANDARD_OUTPUT else shown(target)
    summary = {"output": target, "picture": kind} | drawing.summary
    console.summary(summary, f"{name}: {drawing.text}", target, json)


def _check_usage(
    files: list[str], words: int | None, pmi: bool, pairs: str | None, method: str | None,
    k: int | None, noise_alpha: float | None, label: list[str] | None, output: str | None, follow: bool,
) -> None:  # fmt: skip
    if [*files, pairs].count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    if not pmi and not (pairs is None and k is None and noise_alpha is None):
        raise typer.BadParameter("--pairs, --k and --noise-alpha are for --pmi.")
    if pmi and pairs is not None and len(files) > 1:
        raise typer.BadParameter("the pairs come from a corpus or from --pairs: give one of them.")
    if label and not pmi and len(label) != len(files):
        raise typer.BadParameter(
            f"--label has {count_of(len(label), 'name')} for {count_of(len(files), 'file')}: give one for each."
        )
    if output is not None:
        _form(output)
    if not follow:
        return
    if pmi or words is not None or method is not None or label or output is not None:
        raise typer.BadParameter(
            "--follow draws the curves of a log in the terminal: it takes no options but --by and --reports."
        )
    if len(files) > 1 or files[0] == STANDARD_STREAM:
        raise typer.BadParameter("--follow takes one log, by the name of its file.")


def _form(output: str) -> str:
    from neglm_cli.pictures.paper import format_of

    form = format_of(output)
    if form is None:
        raise typer.BadParameter(f"the name of a picture ends with .svg, .png or .pdf, and {shown(output)} does not.")
    return form


def _kind(sources: list["SeekableFile"]) -> str:
    """What there is to draw of these files."""
    from neglm_cli.store.container import is_safetensors

    stored = [is_safetensors(source.location) for source in sources]
    if not any(stored):
        return CURVES
    if len(stored) > 1:
        raise typer.BadParameter("give logs, or one file of vectors: of several a map would be a muddle.")
    return MAP


def _check_kind(kind: str, for_logs: bool, words: int | None, method: str | None) -> None:
    """`for_logs`: whether an option was given that is for logs only."""
    if kind != CURVES and for_logs:
        raise typer.BadParameter("--by, --reports and --label are for the logs of trainings.")
    if kind != MAP and (words is not None or method is not None):
        raise typer.BadParameter("--words and --method are for a map of vectors.")
