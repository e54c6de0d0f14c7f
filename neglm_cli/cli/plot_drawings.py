"""The plots of `neglm plot`, each with its summary."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from neglm_cli.cli.console import console
from neglm_cli.cli.pmi_inputs import compared
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError, count_of, short
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neglm_cli.pictures.log import By
    from neglm_cli.store.container import SeekableFile
    from neglm_cli.vectors.projection import Method

LONGEST = 24  # characters of a word
BINS = 110  # of the longer axis of a density
NOISE_SAMPLES = 400_000


class Drawing(NamedTuple):
    draw: "Callable[[], Figure]"
    summary: dict[str, Any]
    text: str


def curves(sources: list["SeekableFile"], label: list[str] | None, by: "By", reports: bool) -> Drawing:
    from neglm_cli.pictures.curves import draw
    from neglm_cli.pictures.log import TrainingLog
    from neglm_cli.pictures.panels import draws_each_report, panels
    from neglm_cli.pictures.paper import names_of

    logs = []
    for source in sources:
        with open(source.location, "rb") as file:
            logs.append(TrainingLog.parse(file.read(), source.name))
    for log in logs:
        if not log.loss(by, reports):
            raise NeglmError(f"{log.name} has no report yet: the first comes after ten seconds or an epoch")
    names = [short(name, LONGEST) for name in label] if label else names_of([source.path for source in sources])
    each_report = draws_each_report(logs, reports)
    runs = [
        {
            "file": source.path,
            "label": name,
            "finished": log.finished,
            "tokens": log.last["tokens"],
            "seconds": round(log.last["seconds"], 3),
            "loss": log.loss(by, each_report)[-1].y,
            "valid_perplexity": min((point.y for point in log.perplexity(by)), default=None),
        }
        for source, name, log in zip(sources, names, logs, strict=True)
    ]
    titles = [panel.title.partition(",")[0].replace("T", "t").replace("V", "v") for panel in panels(logs, by, reports)]
    whose = "a training" if len(logs) == 1 else f"{len(logs)} trainings"
    text = f"learning curves of {whose} by {by}: {', '.join(titles)}"
    return Drawing(lambda: draw(logs, names, by, reports), {"by": by, "trainings": runs}, text)


def word_map(source: "SeekableFile", most: int, method: "Method", seed: int) -> Drawing:
    console.announce_compiling()
    from neglm_cli.pictures.wordmap import draw
    from neglm_cli.store import container
    from neglm_cli.vectors.neighbors import CosineIndex
    from neglm_cli.vectors.projection import project
    from neglm_cli.vectors.vectors import WITH_VECTORS, vectors_of

    stored = container.read_from(source)
    if stored.kind not in WITH_VECTORS:
        raise NeglmError(
            f"{stored.name} has no vectors to plot, it is of the kind `{stored.kind}`: give vectors, a language model "
            "or logs"
        )
    vectors = vectors_of(stored)
    counts = vectors.words.counts
    ids = (-counts).argsort(kind="stable")[:most]
    points, variance = project(CosineIndex.of(vectors.vectors, stored.name).units(ids), method, seed)
    names = [short(vectors.words[i].decode(errors="backslashreplace"), LONGEST) for i in ids.tolist()]
    how = "t-SNE" if variance is None else f"first two principal components, {variance:.0%} of the variance"
    shown_words = f"{count_of(len(ids), 'most frequent word')}" if len(ids) < len(counts) else f"all {len(ids):,} words"
    text = f"{shown_words} of {_file(source.path)}, {how}"
    summary = {"model": source.path, "vocabulary": len(ids), "projection": method, "variance": variance}
    return Drawing(lambda: draw(points, names, counts[ids], text[0].upper() + text[1:]), summary, text)


def pmi_density(
    files: list[str], pairs: str | None, k: int | None, noise_alpha: float | None, every: int | None, seed: int,
    threads: int,
) -> Drawing:  # fmt: skip
    console.announce_compiling()
    from neglm_cli.objective.density import density
    from neglm_cli.pictures.pmi import draw

    given = compared(files[0], files[1:], pairs, k, noise_alpha, threads, every)
    with Progress("comparing the vectors", len(given.joint.p) + NOISE_SAMPLES, "M pairs") as progress:
        found = density(given.joint, given.scores, BINS, NOISE_SAMPLES, seed, threads, progress.advance)
    correlation = "" if found.correlation is None else f", correlation {found.correlation:.3f}"
    sampled = ""
    if given.every > 1:
        sampled = f" of one word in {given.every}"
        correlation += f" ± {found.correlation_error:.3f}" if correlation else ""
    text = f"{count_of(given.pairs.total, 'pair')}{sampled}, {len(given.pairs):,} distinct{correlation}"
    caption = f"{_file(files[0])}, {count_of(given.vectors.size, 'dimension')}: {text}"
    summary = {
        "model": files[0],
        "k": given.joint.k,
        "noise_alpha": given.noise_alpha,
        "pairs": given.pairs.total,
        "distinct_pairs": len(given.pairs),
        "oov": given.left_out,
        "every": given.every,
        "correlation": found.correlation,
        "correlation_error": found.correlation_error if given.every > 1 else 0.0,
        "unseen_noise": found.empty_share,
    }
    return Drawing(lambda: draw(found, "PMI and learned scores", caption), summary, text)


def _file(path: str) -> str:
    """Return the name of a file for a plot."""
    return "standard input" if path == STANDARD_STREAM else short(os.path.basename(path), LONGEST)
