"""`neglm pmi`: how much of the PMI matrix vectors capture."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    DEFAULT_VECTORS,
    MODEL,
    OUTPUT,
    RUNTIME,
    Debug,
    Json,
    Quiet,
    Threads,
    VectorsFile,
    input_file,
    one_blas_thread,
    thread_count,
)
from neglm_cli.cli.pmi_inputs import NoiseAlpha, NoiseWords, PairsFile, compared
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import count_of, short

if TYPE_CHECKING:
    from neglm_cli.objective.joint import Joint
    from neglm_cli.objective.theorem import Approximation, Scores
    from neglm_cli.text.pairs import Pairs
    from neglm_cli.text.word_index import WordIndex

NAME_WIDTH = 24  # characters of a word in the tables


@subcommand(
    "pmi",
    ("neglm pmi", "How much of the PMI matrix vectors.safetensors captures, on its own corpus."),
    ("neglm pmi vectors.safetensors other.txt", "On another text."),
    ("neglm pmi vectors.safetensors --pairs clicks.tsv --top 20", "On a table of pairs."),
    ("neglm pmi --sampled --samples 50000000 --json", "A closer estimate for a large vocabulary, as JSON."),
)
def pmi(
    vectors: Annotated[
        str | None,
        typer.Argument(
            metavar="VECTORS", help="Vectors with contexts; - is standard input.", show_default=DEFAULT_VECTORS
        ),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CORPUS",
            help="Text files whose pairs are counted as in training. By default, the training corpus.",
            show_default=False,
        ),
    ] = None,
    named: VectorsFile = None,
    pairs: PairsFile = None,
    k: NoiseWords = None,
    noise_alpha: NoiseAlpha = None,
    svd: Annotated[
        bool,
        typer.Option(
            "--svd/--no-svd",
            help="Compare with a truncated SVD of the same rank.",
            show_default="svd",
            rich_help_panel=MODEL,
        ),
    ] = True,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--sampled",
            help="Use all cells of the matrix, or only the observed cells and a sample of the others.",
            show_default="exact up to 400 million cells",
            rich_help_panel=RUNTIME,
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(min=2, help="With --sampled: sample N cells.", metavar="N", rich_help_panel=RUNTIME),
    ] = 4_000_000,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**63 - 1, help="Random seed.", metavar="N", rich_help_panel=RUNTIME),
    ] = 1,
    top: Annotated[
        int,
        typer.Option(
            min=0,
            help="Show the N pairs, words and contexts with the largest divergence.",
            metavar="N",
            rich_help_panel=OUTPUT,
        ),
    ] = 5,
    json: Json = False,
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure how much of the PMI matrix vectors capture.

    Negative sampling maximizes S(m), the log-likelihood of telling observed pairs from noise by the scores m = x·y. The
    best scores are m = pmi, and the KL divergence S(pmi) - S(m) = KL(p_pmi || p_m) >= 0 is the loss of d dimensions.
    (For vectors of the objective cond, m = x·y - log(k p(y)).)

    Both are in nats per pair, where a pair is drawn from the mixture of observed pairs (one part) and noise pairs (k
    parts); times k+1, they are per observed pair with its k noise pairs. Kept is 1 - KL(m) / KL(independence): 1 is the
    whole PMI matrix, 0 no more than word frequencies; vectors worse than that have a negative value.

    For comparison, a truncated SVD of the same rank of the matrix log p(x,y)/(p(x)p(y)), with 0 for pairs that were not
    observed (whose logarithm is minus infinity), minus log k.
    """
    path, texts = _inputs(vectors, corpus or [], named)
    if pairs is not None and texts:
        raise typer.BadParameter("the pairs come from a corpus or from --pairs: give one of them.")
    one_blas_thread()
    console.announce_compiling()
    from neglm_cli.objective.svd import max_columns, pmi_svd
    from neglm_cli.objective.theorem import EXACT_CELLS, approximate, cells_to_compute

    clock = Progress("pmi", None)
    cores = thread_count(threads)
    given = compared(path, texts, pairs, k, noise_alpha, cores)
    trained, found, joint, scores = given.vectors, given.pairs, given.joint, given.scores
    all_cells = joint.cells <= EXACT_CELLS if exact is None else exact
    drawn = None if all_cells else samples
    cells = cells_to_compute(joint, drawn)
    with Progress("comparing the vectors", cells, "M cells") as progress:
        model = approximate(joint, scores, drawn, seed, top, cores, progress.advance)
    decomposed = None
    if svd:
        with Progress("SVD, at most", max_columns(joint.shape, trained.size), unit="") as progress:
            found_scores = pmi_svd(joint, trained.size, seed, cores, progress.advance)
        with Progress("comparing the SVD", cells, "M cells") as progress:
            decomposed = approximate(joint, found_scores, drawn, seed, 0, cores, progress.advance)
    summary = {
        "model": path,
        "objective": trained.objective,
        "dimensions": trained.size,
        "k": joint.k,
        "noise_alpha": given.noise_alpha,
        "vocabulary": len(trained.words),
        "contexts": len(trained.contexts),
        "pairs": found.total,
        "distinct_pairs": len(found),
        "oov": given.left_out,
        "samples": drawn,
        "pmi_matrix": {"log_likelihood": joint.optimum(), "kl_divergence": 0.0, "kept": 1.0},
        "vectors": _figures(joint, model),
        "svd": decomposed and _figures(joint, decomposed),
        "independence": {
            "log_likelihood": joint.independence(),
            "kl_divergence": joint.optimum() - joint.independence(),
            "kept": 0.0,
        },
        "pairs_that_lose_most": _worst_pairs(found, joint, scores, model),
        "words_that_lose_most": _worst_words(trained.words, model.by_word, top),
        "contexts_that_lose_most": _worst_words(trained.contexts, model.by_context, top),
        "seconds": round(clock.seconds, 3),
    }
    if json:
        console.json(summary)
    elif not quiet:
        console.result(_as_text(summary, given.name))


def _inputs(vectors: str | None, corpus: list[str], named: str | None) -> tuple[str, list[str]]:
    """Return the vectors and the texts. With --vectors, all arguments are texts."""
    if named is not None:
        return named, [text for text in (vectors, *corpus) if text is not None]
    return input_file(vectors, None, DEFAULT_VECTORS), corpus


def _figures(joint: "Joint", approximation: "Approximation") -> dict[str, Any]:
    from neglm_cli.objective.theorem import kept

    return {
        "log_likelihood": approximation.score,
        "kl_divergence": approximation.divergence,
        "standard_error": approximation.standard_error,
        "kept": kept(joint, approximation.divergence),
    }


def _worst_pairs(pairs: "Pairs", joint: "Joint", scores: "Scores", model: "Approximation") -> list[dict[str, Any]]:
    return [
        {
            "word": _text(pairs.words, row),
            "context": _text(pairs.contexts, column),
            "count": pairs.count(row, column),
            "score": scores.at(row, column),
            "pmi": joint.pmi_at(row, column),
            "kl_divergence": float(part),
        }
        for row, column, part in zip(model.rows.tolist(), model.columns.tolist(), model.parts, strict=True)
    ]


def _worst_words(index: "WordIndex", parts: Any, top: int) -> list[dict[str, Any]]:
    return [
        {"word": _text(index, i), "kl_divergence": float(parts[i])}
        for i in (-parts).argsort(kind="stable")[:top].tolist()
        if parts[i] > 0
    ]


def _text(index: "WordIndex", i: int) -> str:
    return index[i].decode(errors="backslashreplace")


def _as_text(summary: dict[str, Any], name: str) -> str:
    lines = [
        f"{name}: {count_of(summary['dimensions'], 'dimension')}, objective {summary['objective']}, "
        f"k {summary['k']}, noise alpha {summary['noise_alpha']}",
        f"  {'pairs':<16}{summary['pairs']:,}, {summary['distinct_pairs']:,} of them distinct, of "
        f"{count_of(summary['vocabulary'], 'word')} and {count_of(summary['contexts'], 'context')}",
    ]
    if summary["oov"]:
        lines.append(f"  {'OOV':<16}{count_of(summary['oov'], 'pair')} skipped: a word has no vector")
    sample = summary["samples"]
    cells = "all cells" if sample is None else f"the observed cells and a sample of {sample:,}"
    lines += [
        f"  {'computed from':<16}{cells}",
        "",
        f"  {'nats per pair':<16}{'log-likelihood':>16}{'KL divergence':>16}{'kept':>9}",
    ]
    rows = [
        ("PMI matrix", "pmi_matrix"), ("vectors", "vectors"), (f"SVD, rank {summary['dimensions']}", "svd"),
        ("independence", "independence"),
    ]  # fmt: skip
    lines += [_row(label, summary[key]) for label, key in rows if summary[key]]
    if summary["pairs_that_lose_most"]:
        lines += ["", f"  {'pairs that lose most':<{2 * NAME_WIDTH}}{'count':>9}{'score':>8}{'PMI':>8}{'KL':>10}"]
    for pair in summary["pairs_that_lose_most"]:
        true = "-inf" if pair["pmi"] is None else f"{pair['pmi']:.2f}"
        names = (
            f"{short(pair['word'], NAME_WIDTH - 2):<{NAME_WIDTH}}{short(pair['context'], NAME_WIDTH - 2):<{NAME_WIDTH}}"
        )
        lines.append(f"  {names}{pair['count']:>9,}{pair['score']:>8.2f}{true:>8}{pair['kl_divergence']:>10.2e}")
    for what in ("words", "contexts"):
        if summary[f"{what}_that_lose_most"]:
            lines += ["", f"  {f'{what} that lose most':<{NAME_WIDTH}}{'KL':>9}"]
        for word in summary[f"{what}_that_lose_most"]:
            lines.append(f"  {short(word['word'], NAME_WIDTH - 2):<{NAME_WIDTH}}{word['kl_divergence']:>9.2e}")
    return "\n".join(lines)


def _row(label: str, figures: dict[str, Any]) -> str:
    kept = "-" if figures["kept"] is None else f"{figures['kept']:.2%}"
    error = f"  ± {figures['standard_error']:.1g}" if figures.get("standard_error") else ""
    return f"  {label:<16}{figures['log_likelihood']:>16.5f}{figures['kl_divergence']:>16.5f}{kept:>9}{error}"
