"""`neglm eval`: how good vectors are."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import FLAG, INPUT, MODEL, Debug, Json, Quiet
from neglm_cli.cli.queries import as_text
from neglm_cli.cli.scores import analogy_text, similarity_text
from neglm_cli.errors import shown
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.vectors.accuracy import Tally
    from neglm_cli.vectors.analogies import Method
    from neglm_cli.vectors.directions import Directions
    from neglm_cli.vectors.lexicon import Lexicon

SETS = "Test sets"
DIGITS = 6  # of correlations and shares in JSON


@subcommand(
    "eval",
    ("neglm eval --similarity ws353.tsv simlex999.tsv", "Correlations with what people find similar."),
    ("neglm eval wiki.safetensors --analogy questions-words.txt --fold-case", "Analogies; Athens may be athens."),
    ("neglm eval --analogy questions-words.txt --restrict 30000", "Among the 30,000 most frequent words only."),
    ("neglm eval --similarity sets/*.tsv --json", "All sets of a directory, as JSON."),
    spread=("--similarity", "--analogy"),
)
def evaluate(
    vectors: Annotated[
        str, typer.Argument(metavar="VECTORS", help="A file of vectors; - is standard input.")
    ] = "vectors.safetensors",
    similarity: Annotated[
        list[str] | None,
        typer.Option(
            help="Pairs of words with people's scores: lines of word, word, score, between them tabs, commas or "
            "blanks. Lines that start with # and a header are left out.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=SETS,
        ),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option(
            help="Analogies: lines of four words, in sections that lines such as : family begin. Those whose names "
            "start with gram are syntactic, the others semantic.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=SETS,
        ),
    ] = None,
    restrict: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only the N most frequent words are known, and are candidates for answers.",
            show_default="all words",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    fold_case: Annotated[
        bool,
        typer.Option(
            "--fold-case",
            help="A word of a test set that is unknown as it is written is looked for in lower case.",
            metavar=FLAG,
            rich_help_panel=INPUT,
        ),
    ] = False,
    method: Annotated[
        Literal["add", "mul", "both"],
        typer.Option(
            help="How analogies are answered: add is 3CosAdd, mul is 3CosMul.",
            metavar="add|mul|both",
            rich_help_panel=MODEL,
        ),
    ] = "both",
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Evaluate vectors on test sets: similarity of words, and analogies.

    VECTORS comes before the options, because --similarity and --analogy take all files that follow them.

    Similarity: Spearman's and Pearson's correlation of cosines with people's scores. Pairs with an unknown word are
    skipped; the second result is with these, too, their cosine taken as 0.

    Analogies: the share of right answers, by 3CosAdd and 3CosMul, where only the one best word counts and the words of
    the question are no answers. Questions with an unknown word are skipped; the second result counts these as wrong.
    """
    files = [*(similarity or ()), *(analogy or ())]
    if not files:
        raise typer.BadParameter("there is nothing to evaluate on: give test sets with --similarity or --analogy.")
    if [vectors, *files].count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    console.announce_compiling()
    from neglm_cli.vectors.accuracy import read_sections
    from neglm_cli.vectors.directions import Directions
    from neglm_cli.vectors.lexicon import Lexicon
    from neglm_cli.vectors.similarity import read_pairs
    from neglm_cli.vectors.vectors import Vectors

    pairs = [(path, read_pairs(path)) for path in similarity or ()]  # what is wrong with them is said at once
    questions = [(path, read_sections(path)) for path in analogy or ()]
    loaded = Vectors.load(vectors)
    name = "standard input" if vectors == STANDARD_STREAM else shown(vectors)
    directions = Directions.of(loaded.vectors, name)
    lexicon = Lexicon(loaded.words, restrict, fold_case)
    report = {
        "vectors": vectors,
        "words": len(lexicon.ids),
        "similarity": [_similarity(path, judged, lexicon, directions) for path, judged in pairs],
        "analogy": [_analogy(path, sections, lexicon, directions, method) for path, sections in questions],
    }
    if json:
        console.json(report)
    else:
        console.result(_as_text(report, name))


def _similarity(path: str, pairs: Any, lexicon: "Lexicon", directions: "Directions") -> dict[str, Any]:
    from neglm_cli.vectors.similarity import correlations

    _mention_case(path, pairs.words, lexicon)
    result = correlations(pairs, lexicon, directions)
    numbers = {name: _rounded(value) for name, value in asdict(result).items()}
    return {"file": path, "skipped": result.pairs - result.used} | numbers


def _analogy(
    path: str, sections: Any, lexicon: "Lexicon", directions: "Directions", method: Literal["add", "mul", "both"]
) -> dict[str, Any]:
    from neglm_cli.vectors.accuracy import tallies, together
    from neglm_cli.vectors.analogies import METHODS

    _mention_case(path, [question for section in sections for question in section.questions], lexicon)
    methods: tuple[Method, ...] = METHODS if method == "both" else (method,)
    counted = tallies(sections, lexicon, directions, methods)
    named = list(zip(sections, counted, strict=True))
    kinds = {"semantic": False, "syntactic": True}
    subtotals = {
        kind: _counts(together([tally for section, tally in named if section.syntactic is syntactic], methods))
        for kind, syntactic in kinds.items()
    }
    rows = [
        {"name": as_text(section.name), "kind": "syntactic" if section.syntactic else "semantic"} | _counts(tally)
        for section, tally in named
    ]
    return {"file": path, "sections": rows, **subtotals, "total": _counts(together(counted, methods))}


def _counts(tally: "Tally") -> dict[str, Any]:
    counts: dict[str, Any] = {
        "questions": tally.questions,
        "used": tally.used,
        "skipped": tally.questions - tally.used,
    }
    for method, correct in tally.correct.items():
        counts[method] = {
            "correct": correct,
            "accuracy": _rounded(tally.accuracy(method)),
            "accuracy_all": _rounded(tally.accuracy_all(method)),
        }
    return counts


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, DIGITS)


def _mention_case(path: str, rows: list[tuple[bytes, ...]], lexicon: "Lexicon") -> None:
    if missed := lexicon.missed_by_case(rows):
        console.note(
            f"{shown(path)}: {missed:,} of {len(rows):,} are skipped because of upper case, which --fold-case mends"
        )


def _as_text(report: dict[str, Any], name: str) -> str:
    lines = [f"{name}: {report['words']:,} words"]
    for result in report["similarity"]:
        lines += ["", *similarity_text(result)]
    for result in report["analogy"]:
        lines += ["", *analogy_text(result)]
    return "\n".join(lines)
