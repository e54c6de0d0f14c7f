"""`neglm eval`: how good vectors or a language model are."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.eval_lm import evaluate_texts
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    INPUT,
    MODEL,
    OUTPUT,
    Debug,
    DeviceName,
    Json,
    Quiet,
    Table,
    Threads,
    one_blas_thread,
)
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.queries import as_text
from neglm_cli.cli.scores import analogy_text, similarity_text
from neglm_cli.errors import count_of, shown
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.vectors.analogies import Method, Tally
    from neglm_cli.vectors.lexicon import Lexicon
    from neglm_cli.vectors.neighbors import CosineIndex

SETS = "Test sets"
DEFAULT_VECTORS = "vectors.safetensors"
DIGITS = 6  # of correlations and shares in JSON


@subcommand(
    "eval",
    ("neglm eval --test ptb.test.txt", "The perplexity of a text, by the language model model.safetensors."),
    ("neglm eval news.safetensors --test a.txt b.txt --json", "Of several texts, as JSON."),
    ("neglm eval --similarity ws353.tsv simlex999.tsv", "Correlations with what people find similar."),
    ("neglm eval wiki.safetensors --analogy questions-words.txt --fold-case", "Analogies; Athens may be athens."),
    ("neglm eval --analogy questions-words.txt --restrict 30000", "Among the 30,000 most frequent words only."),
    ("neglm eval --similarity sets/*.tsv --json", "All sets of a directory, as JSON."),
    spread=("--test", "--similarity", "--analogy"),
)
def evaluate(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A language model, or a file of vectors; - is standard input.",
            show_default="model.safetensors with --test, else vectors.safetensors",
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            help="Texts that a language model is to predict, plain or compressed; - is standard input. Each starts "
            "without a state, which is carried from line to line; models trained with --reset-at-eos reset it at each "
            "line.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=SETS,
        ),
    ] = None,
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
    per_line: Annotated[
        bool,
        typer.Option(
            "--per-line",
            help="With --test: for each line its log10 probability, perplexity, words and out-of-vocabulary words, "
            "between tabs, and nothing else. The first two include the end of the line, the number of words does not.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    json: Json = False,
    table: Table = None,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Evaluate a language model on texts, or vectors on test sets.

    MODEL comes before the options, because --test, --similarity and --analogy take all files that follow them.

    Texts: the perplexity is exact and normalized over the vocabulary. Ends of line are predicted like words, and a
    text begins as if after the end of a line. Perplexities and bits per word count ends of line as words; the number of
    words does not (in JSON, divide by words + lines). Words out of the vocabulary count as <unk>; the second figure
    leaves them out. The unnormalized perplexity takes the model's logits (see neglm-format(5)) as log-probabilities.
    log Z, the logarithm of the sum that would normalize them, is given with its standard deviation: 0 ± 0 would be a
    model that normalizes itself. The unigram model predicts by the vocabulary's counts alone.

    Under mpirun, processes divide the texts; where there are fewer texts than processes, each text: what comes before a
    process's own stretch it reads without scoring it. The figures are those of one process.

    Similarity: Spearman's and Pearson's correlation of cosines with people's scores. Pairs with an unknown word are
    skipped; the second result is with these, too, their cosine taken as 0.

    Analogies: the share of right answers, by 3CosAdd and 3CosMul, where only the one best word counts and the words of
    the question are no answers. Questions with an unknown word are skipped; the second result counts these as wrong.
    """
    files = [*(test or ()), *(similarity or ()), *(analogy or ())]
    if not files:
        raise typer.BadParameter(
            "there is nothing to evaluate on: give texts with --test, or test sets with --similarity or --analogy."
        )
    if [model, *files].count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    if test and (similarity or analogy):
        raise typer.BadParameter("--test is for language models, --similarity and --analogy are for vectors.")
    if test and (restrict is not None or fold_case):
        raise typer.BadParameter("--restrict and --fold-case are for --similarity and --analogy.")
    if test and table is not None:
        raise typer.BadParameter("--table is for --similarity and --analogy.")
    if per_line and not test:
        raise typer.BadParameter("--per-line is for --test.")
    one_blas_thread()
    console.announce_standard_input(files)
    console.announce_compiling()
    if test:
        evaluate_texts(model or DEFAULT_MODEL, test, per_line, threads, json, device)
    else:
        _evaluate_vectors(
            model or DEFAULT_VECTORS, similarity or [], analogy or [], restrict, fold_case, method, json, table
        )


def _evaluate_vectors(
    vectors: str, similarity: list[str], analogy: list[str], restrict: int | None, fold_case: bool,
    method: Literal["add", "mul", "both"], json: bool, table: Literal["input", "output"] | None,
) -> None:  # fmt: skip
    from neglm_cli.vectors.analogies import read_sections
    from neglm_cli.vectors.lexicon import Lexicon
    from neglm_cli.vectors.neighbors import CosineIndex
    from neglm_cli.vectors.similarity import read_pairs
    from neglm_cli.vectors.vectors import load_vectors

    pairs = [(path, read_pairs(path)) for path in similarity]  # what is wrong with them is said at once
    questions = [(path, read_sections(path)) for path in analogy]
    loaded = load_vectors(vectors, table)
    name = "standard input" if vectors == STANDARD_STREAM else shown(vectors)
    directions = CosineIndex.of(loaded.vectors, name)
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


def _similarity(path: str, pairs: Any, lexicon: "Lexicon", directions: "CosineIndex") -> dict[str, Any]:
    from neglm_cli.vectors.similarity import correlations

    _mention_case(path, pairs.words, lexicon)
    result = correlations(pairs, lexicon, directions)
    numbers = {name: _rounded(value) for name, value in asdict(result).items()}
    return {"file": path, "skipped": result.pairs - result.used} | numbers


def _analogy(
    path: str, sections: Any, lexicon: "Lexicon", directions: "CosineIndex", method: Literal["add", "mul", "both"]
) -> dict[str, Any]:
    from neglm_cli.vectors.analogies import METHODS, count_correct, sum_tallies

    _mention_case(path, [question for section in sections for question in section.questions], lexicon)
    methods: tuple[Method, ...] = METHODS if method == "both" else (method,)
    with Progress(f"analogies of {shown(path)}", len(lexicon.ids) * len(methods), unit="") as progress:
        counted = count_correct(sections, lexicon, directions, methods, progress.advance)
    named = list(zip(sections, counted, strict=True))
    kinds = {"semantic": False, "syntactic": True}
    subtotals = {
        kind: _counts(sum_tallies([tally for section, tally in named if section.syntactic is syntactic], methods))
        for kind, syntactic in kinds.items()
    }
    rows = [
        {"name": as_text(section.name), "kind": "syntactic" if section.syntactic else "semantic"} | _counts(tally)
        for section, tally in named
    ]
    return {"file": path, "sections": rows, **subtotals, "total": _counts(sum_tallies(counted, methods))}


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
    lines = [f"{name}: {count_of(report['words'], 'word')}"]
    for result in report["similarity"]:
        lines += ["", *similarity_text(result)]
    for result in report["analogy"]:
        lines += ["", *analogy_text(result)]
    return "\n".join(lines)
