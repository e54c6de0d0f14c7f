"""The plots of `neglm plot`, each with its summary."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from neglm_cli.cli.console import console
from neglm_cli.cli.pmi_inputs import compared
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError, count_of, short, shown
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from neglm_cli.pictures.log import By
    from neglm_cli.pictures.paper import Paper
    from neglm_cli.store.container import SeekableFile
    from neglm_cli.vectors.projection import Method
    from neglm_cli.vectors.vectors import Vectors

LONGEST = 24  # characters of a word
BINS = 110  # of the longer axis of a density
NOISE_SAMPLES = 400_000
MOST_CHOSEN = 10_000  # words of --only
SHOWN_MISSING = 5  # words in a message


class Drawing(NamedTuple):
    draw: "Callable[[], Figure]"
    summary: dict[str, Any]
    text: str


def curves(sources: list["SeekableFile"], label: list[str] | None, by: "By", reports: bool, paper: "Paper") -> Drawing:
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
    return Drawing(lambda: draw(logs, names, by, reports, paper), {"by": by, "trainings": runs}, text)


def word_map(
    source: "SeekableFile", most: int, only: str | None, method: "Method", seed: int, paper: "Paper"
) -> Drawing:
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
    groups = None
    if only is None:
        counts = vectors.words.counts
        ids = (-counts).argsort(kind="stable")[:most]
        units, counts = CosineIndex.of(vectors.vectors, stored.name).units(ids), counts[ids]
        words = [vectors.words[i] for i in ids.tolist()]
        whole = len(words) == len(vectors.words)
        which = f"all {len(words):,} words" if whole else count_of(len(words), "most frequent word")
        left_out = 0
    else:
        units, counts, words, groups, left_out = _chosen(vectors, only, stored.name)
        which = count_of(len(words), "word")
    points, variance = project(units, method, seed)
    names = [short(word.decode(errors="backslashreplace"), LONGEST) for word in words]
    how = "t-SNE" if variance is None else f"first two principal components, {variance:.0%} of the variance"
    text = f"{which} of {_file(source.path)}, {how}"
    summary = {
        "model": source.path, "vocabulary": len(words), "oov": left_out, "projection": method, "variance": variance
    }  # fmt: skip
    return Drawing(lambda: draw(points, names, counts, text[0].upper() + text[1:], paper, groups), summary, text)


class Chosen(NamedTuple):
    """Words of a list that have vectors."""

    units: "np.ndarray"  # float32 (N, D)
    counts: "np.ndarray"  # int64 (N,)
    words: list[bytes]
    groups: "np.ndarray | None"  # int (N,), if there are several
    left_out: int  # number of words without a vector


def _chosen(vectors: "Vectors", only: str, name: str) -> Chosen:
    """Look up the words of a list. Words composed from subwords have the count 0."""
    import numpy as np

    from neglm_cli.vectors.lookup import Lookup, units
    from neglm_cli.vectors.word_groups import read_word_groups

    listed = read_word_groups(only, MOST_CHOSEN)
    lookup = Lookup(vectors)
    found = {word: group for word, group in listed.items() if not isinstance(lookup.find([word]), bytes)}
    missing = [word for word in listed if word not in found]
    list_name = "standard input" if only == STANDARD_STREAM else shown(only)
    if not found:
        raise NeglmError(f"{name} has a vector for none of the words of {list_name}: check spelling and case")
    if missing:
        some = ", ".join(short(word.decode(errors="backslashreplace"), LONGEST) for word in missing[:SHOWN_MISSING])
        more = ", …" if len(missing) > SHOWN_MISSING else ""
        console.note(f"left out {count_of(len(missing), 'word')} of {list_name} without a vector: {some}{more}")
    looked_up = lookup.find(list(found))
    assert not isinstance(looked_up, bytes)
    ids = np.array(looked_up.ids)
    counts = np.where(ids >= 0, vectors.words.counts[ids], 0)
    groups = np.array(list(found.values()))
    return Chosen(units(looked_up), counts, list(found), groups if groups.max() else None, len(missing))


def pmi_density(
    files: list[str], pairs: str | None, k: int | None, noise_alpha: float | None, every: int | None, seed: int,
    threads: int, paper: "Paper",
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
    return Drawing(lambda: draw(found, "PMI and learned scores", caption, paper), summary, text)


def _file(path: str) -> str:
    """Return the name of a file for a plot."""
    return "standard input" if path == STANDARD_STREAM else short(os.path.basename(path), LONGEST)
