"""Inputs of `neglm pmi` and `neglm plot --pmi`: the PMI of pairs, and the scores that vectors give them."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from neglm_cli.cli.console import console
from neglm_cli.cli.options import INPUT, MODEL, noise_alpha_option
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.objective.joint import Joint
    from neglm_cli.objective.theorem import Scores
    from neglm_cli.text.pairs import Pairs
    from neglm_cli.vectors.vectors import Vectors

PairsFile = Annotated[
    str | None,
    typer.Option(
        help="Read pairs from this file: x TAB y, or x TAB y TAB count lines, plain or compressed; - is standard "
        "input. Pairs with an x or y without a vector (OOV) are skipped.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
NoiseWords = Annotated[
    int | None,
    typer.Option(
        "--k",
        min=1,
        help="Noise words per pair, for vectors that do not record it.",
        show_default="as in training",
        metavar="K",
        rich_help_panel=MODEL,
    ),
]
NoiseAlpha = Annotated[
    float | None,
    noise_alpha_option(
        "Noise is drawn in proportion to count^ALPHA; for vectors that do not record it.", "as in training"
    ),
]


class Compared(NamedTuple):
    name: str  # of the vectors, for a sentence
    vectors: "Vectors"
    pairs: "Pairs"
    left_out: int  # pairs without vectors
    every: int  # one word in this many was sampled
    noise_alpha: float
    joint: "Joint"
    scores: "Scores"


def compared(
    path: str, corpus: list[str], pairs: str | None, k: int | None, noise_alpha: float | None, threads: int,
    every: int | None = 1,
) -> Compared:  # fmt: skip
    """Load the vectors and count the pairs: of the corpus, of a file of pairs, or of the training data.

    every: of a text, see `count_pairs`.
    """
    from neglm_cli.objective.joint import Joint
    from neglm_cli.objective.theorem import Scores
    from neglm_cli.vectors.vectors import Vectors

    vectors = Vectors.load(path)
    name = "standard input" if path == STANDARD_STREAM else shown(path)
    k, noise_alpha = _noise(vectors, name, k, noise_alpha)
    found, left_out, every = _pairs(vectors, path, name, corpus, pairs, threads, every)
    joint = Joint.of(found, k, noise_alpha)
    scores = Scores.of(vectors.vectors, vectors.context_vectors, joint.score_offset(vectors.objective))
    return Compared(name, vectors, found, left_out, every, noise_alpha, joint, scores)


def _noise(trained: "Vectors", name: str, k: int | None, noise_alpha: float | None) -> tuple[int, float]:
    """Return k and α: those of the training, or the given ones if it is unknown."""
    from neglm_cli.vectors.vectors import UNKNOWN_OBJECTIVE

    if not len(trained.contexts):
        raise NeglmError(f"{name} has no context vectors, which scores need: use vectors of `neglm embed`")
    if trained.arguments.get("cbow"):
        raise NeglmError(f"{name} was trained with --cbow, where no two words have a score: use vectors of skip-gram")
    if trained.objective != UNKNOWN_OBJECTIVE and trained.k >= 1:
        if k not in (None, trained.k) or noise_alpha not in (None, trained.noise_alpha):
            raise NeglmError(
                f"{name} was trained with k {trained.k} and noise alpha {trained.noise_alpha}: leave out --k and "
                "--noise-alpha"
            )
        return trained.k, trained.noise_alpha
    if k is None or noise_alpha is None:
        raise NeglmError(f"{name} does not record how it was trained: give --k and --noise-alpha")
    return k, noise_alpha


def _pairs(
    trained: "Vectors", path: str, name: str, corpus: list[str], pairs: str | None, threads: int, every: int | None
) -> tuple["Pairs", int, int]:
    """Return the pairs, with the ids of the vectors, the number of pairs without vectors, and `every`."""
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.pair_lines import pairs_of
    from neglm_cli.text.provenance import reopen

    listed = pairs is not None or (not corpus and bool(trained.arguments.get("pairs")))
    named = corpus if pairs is None else [pairs]
    console.announce_standard_input(named)
    source = open_corpus(named) if named else reopen(trained.files, path, threads)
    with Progress("reading pairs" if listed else "counting pairs", source.size) as progress:
        if listed:
            read = pairs_of(source, progress.advance)
            found = read.restricted(trained.words, trained.contexts)
            left_out, every = read.total - found.total, 1
        else:
            from neglm_cli.sgns.cooccurrence import count_pairs

            if not trained.arguments:
                console.note(
                    f"{name} does not record how it was trained: using windows of 5 words, without subsampling"
                )
            found, every = count_pairs(source, trained, threads, progress.advance, every)
            left_out = 0
    if not len(found):
        raise NeglmError(f"{source.name} has no pair of a word and a context of {name}: are these its pairs?")
    return found, left_out, every
