"""`neglm eval`: evaluate a language model or vectors."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.eval_lm import evaluate_texts
from neglm_cli.cli.eval_pairs import evaluate_pairs
from neglm_cli.cli.mixing import check_options
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    DEFAULT_VECTORS,
    INPUT,
    MODEL,
    OUTPUT,
    Debug,
    DeviceName,
    Json,
    Quiet,
    SubwordsOfFile,
    Table,
    Threads,
    Tokenize,
    VectorsFile,
    input_file,
    one_blas_thread,
)
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.queries import as_text
from neglm_cli.cli.scores import analogy_text, rounded, similarity_text
from neglm_cli.cli.several_gpus import run_on_listed_gpus
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.settings.mixing import MixingSettings
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.vectors.analogies import Method, Tally
    from neglm_cli.vectors.lexicon import Lexicon
    from neglm_cli.vectors.lookup import Lookup
    from neglm_cli.vectors.neighbors import CosineIndex

SETS = "Test sets"


@subcommand(
    "eval",
    ("neglm eval --test ptb.test.txt", "The perplexity of model.safetensors on a text."),
    ("neglm eval news.safetensors --test a.txt b.txt --json", "On several texts, as JSON."),
    (
        "neglm eval --test ptb.test.txt --adapt auto --cache 2000 --tune ptb.valid.txt",
        "Of a model that keeps learning.",
    ),
    ("neglm eval --similarity ws353.tsv simlex999.tsv", "Correlations with human similarity ratings."),
    ("neglm eval wiki.safetensors --analogy questions-words.txt --fold-case", "Analogies; Athens may be athens."),
    ("neglm eval --analogy questions-words.txt --max-vocab 30000", "Only the 30,000 most frequent words."),
    ("neglm eval --similarity sets/*.tsv --json", "All test sets in a directory, as JSON."),
    ("neglm eval --minimal-pairs blimp/*.jsonl --tokenize", "Grammaticality: the accuracy on BLiMP, by phenomenon."),
    multi_value_options=("--test", "--similarity", "--analogy", "--minimal-pairs"),
    settings=MixingSettings,
)
def evaluate(
    given: dict[str, Any],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A language model or a file of vectors; - is standard input.",
            show_default="model.safetensors with --test or --minimal-pairs, otherwise vectors.safetensors",
        ),
    ] = None,
    named: VectorsFile = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            help="Texts for a language model, plain or compressed; - is standard input. The state starts at zero and "
            "is carried from line to line; models trained with --reset-at-eos reset it at each line.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=SETS,
        ),
    ] = None,
    similarity: Annotated[
        list[str] | None,
        typer.Option(
            help="Pairs of words with human ratings: lines of word, word and rating, separated by tabs, commas or "
            "spaces. A header and lines that start with # are skipped.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=SETS,
        ),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option(
            help="Analogies: lines of four words, in sections that start with lines such as : family. Sections whose "
            "names start with gram are syntactic, the others semantic.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=SETS,
        ),
    ] = None,
    minimal_pairs: Annotated[
        list[str] | None,
        typer.Option(
            help="Minimal pairs for a language model: BLiMP's JSONL (sentence_good, sentence_bad), or lines of a good "
            "sentence, a tab and a bad one.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=SETS,
        ),
    ] = None,
    tokenize: Tokenize = False,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Leave out lines that are no minimal pair, and count them, instead of stopping.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    max_vocab: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Use only the N most frequent words, in questions and as answers.",
            show_default="no limit",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    fold_case: Annotated[
        bool,
        typer.Option(
            "--fold-case",
            help="Look up out-of-vocabulary words of a test set in lower case.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    method: Annotated[
        Literal["add", "mul", "both"],
        typer.Option(
            help="Score of a candidate answer. add: 3CosAdd; mul: 3CosMul.",
            metavar="add|mul|both",
            rich_help_panel=MODEL,
        ),
    ] = "both",
    per_line: Annotated[
        bool,
        typer.Option(
            "--per-line",
            help="With --test: print only a tab-separated line per line of text: log10 probability, perplexity, tokens "
            "and OOV tokens. The first two include the end of the line, the number of tokens does not.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    json: Json = False,
    table: Table = None,
    subwords: SubwordsOfFile = True,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Evaluate a language model on texts, or vectors on test sets.

    MODEL comes before the options, because --test, --similarity, --analogy and --minimal-pairs take all files that
    follow them; or name it with -m.

    Texts: the perplexity is exact and normalized over the vocabulary. Ends of line are predicted like words, and a
    text starts as after the end of a line. Perplexities and bits per word count ends of line as words; the number of
    tokens does not (in JSON, divide by tokens + lines). Out-of-vocabulary (OOV) words count as <unk>; the second
    perplexity leaves them out. The unnormalized perplexity uses the model's logits (see neglm-format(5)) as
    log-probabilities. log Z, the log of their normalizer, is given with its standard deviation: 0 ± 0 is a perfectly
    self-normalized model. The unigram model predicts from the counts of the vocabulary alone.

    Under mpirun, ranks divide the texts or, if there are fewer texts than ranks, each text into segments; a rank reads
    the text before its segment without scoring it. Results are the same as with one rank.

    At test time: with --adapt, --cache or --interpolate, p(w) = (1 - λ - μ) p_model(w) + λ p_cache(w) + μ p_ngram(w).
    The model is the adapted one, and the cache has its hidden states; while it is empty, its share is the model's.
    Every text starts from the trained model and an empty cache, and is read in order: ranks divide texts, but not a
    text. Every word is scored before the model learns from it, and all probabilities are exact. Such a perplexity is
    not that of a fixed model: report it beside the plain one, with the values, and choose these on another text
    (--tune). In the n-gram model, an OOV word is <unk> and the end of a line is </s>, after which comes <s>; words of
    the vocabulary that it lacks share the probability of its <unk> evenly.

    Similarity: Spearman's and Pearson's correlation of cosines with human ratings. Pairs with an OOV word are skipped;
    the second result includes them, with a cosine of 0. If the vectors have subwords, OOV words get vectors from these,
    and a line tells their number; --no-subwords skips them.

    Analogies: accuracy by 3CosAdd and 3CosMul, where only the best word counts and the words of the question are
    excluded. Questions with an OOV word are skipped; the second result counts them as wrong. If the vectors have
    subwords, OOV words of questions get vectors from these, as in similarity; an OOV answer is skipped.

    Minimal pairs: the share of pairs whose good sentence, with its end, has the higher probability. Ties count as
    wrong; they and pairs with OOV words, which are read as <unk>, are counted. Raw sentences need --tokenize, if the
    training text was tokenized that way.

    JSON always has the same shape: model, vocabulary, the lists test, similarity and analogy with an object per file,
    and the list minimal_pairs with an object for all files.
    """
    files = [*(test or ()), *(similarity or ()), *(analogy or ()), *(minimal_pairs or ())]
    if not files:
        raise typer.BadParameter(
            "nothing to evaluate on: give texts with --test, or test sets with --similarity, --analogy or "
            "--minimal-pairs."
        )
    path = input_file(model, named, DEFAULT_MODEL if test or minimal_pairs else DEFAULT_VECTORS)
    refuse_repeated_stdin([path, *files, *(given[name] for name in ("tune", "interpolate") if name in given)])
    if given and not test:
        raise typer.BadParameter(f"--{next(iter(given)).replace('_', '-')} is for --test.")
    check_options(given, [path, *files], texts=len(files))
    if minimal_pairs and len(files) > len(minimal_pairs):
        raise typer.BadParameter("--minimal-pairs is evaluated alone, without --test, --similarity and --analogy.")
    if minimal_pairs and (max_vocab is not None or fold_case or table is not None):
        raise typer.BadParameter("--max-vocab, --fold-case and --table are for --similarity and --analogy.")
    if tokenize and not minimal_pairs:
        raise typer.BadParameter("--tokenize is for --minimal-pairs; `neglm tokenize` splits texts.")
    if skip_bad and not minimal_pairs:
        raise typer.BadParameter("--skip-bad is for --minimal-pairs.")
    if test and (similarity or analogy):
        raise typer.BadParameter("--test is for language models, --similarity and --analogy are for vectors.")
    if test and (max_vocab is not None or fold_case):
        raise typer.BadParameter("--max-vocab and --fold-case are for --similarity and --analogy.")
    if test and table is not None:
        raise typer.BadParameter("--table is for --similarity and --analogy.")
    if per_line and not test:
        raise typer.BadParameter("--per-line is for --test.")
    if test or minimal_pairs:
        run_on_listed_gpus(device)
    one_blas_thread()
    console.announce_standard_input(files)
    console.announce_compiling()
    if minimal_pairs:
        evaluate_pairs(path, minimal_pairs, tokenize, skip_bad, device, threads, json)
    elif test:
        evaluate_texts(path, test, per_line, threads, json, device, given)
    else:
        _evaluate_vectors(path, similarity or [], analogy or [], (max_vocab, fold_case), method, json, table, subwords)


def _evaluate_vectors(
    vectors: str, similarity: list[str], analogy: list[str], lookups: tuple[int | None, bool],
    method: Literal["add", "mul", "both"], json: bool, table: Literal["input", "output"] | None, subwords: bool,
) -> None:  # fmt: skip
    from neglm_cli.vectors.analogies import read_sections
    from neglm_cli.vectors.lexicon import Lexicon
    from neglm_cli.vectors.lookup import Lookup
    from neglm_cli.vectors.neighbors import CosineIndex
    from neglm_cli.vectors.similarity import read_pairs
    from neglm_cli.vectors.vectors import load_vectors

    pairs = [(path, read_pairs(path)) for path in similarity]  # errors in them come first
    questions = [(path, read_sections(path)) for path in analogy]
    loaded = load_vectors(vectors, table)
    name = "standard input" if vectors == STANDARD_STREAM else shown(vectors)
    directions = CosineIndex.of(loaded.vectors, name)
    lexicon, lookup = Lexicon(loaded.words, *lookups), Lookup(loaded, subwords)
    report = {
        "model": vectors,
        "vocabulary": len(lexicon.ids),
        "test": [],
        "similarity": [_similarity(path, judged, lexicon, directions, lookup) for path, judged in pairs],
        "analogy": [_analogy(path, sections, lexicon, directions, method, lookup) for path, sections in questions],
        "minimal_pairs": [],
    }
    if json:
        console.json(report)
    else:
        console.result(_as_text(report, name))


def _similarity(
    path: str, pairs: Any, lexicon: "Lexicon", directions: "CosineIndex", lookup: "Lookup"
) -> dict[str, Any]:
    from neglm_cli.vectors.similarity import correlations

    _mention_case(path, pairs.words, lexicon)
    result = correlations(pairs, lexicon, directions, lookup)
    numbers = {name: rounded(value) for name, value in asdict(result).items()}
    return {"file": path, "oov": result.pairs - result.used} | numbers


def _analogy(
    path: str, sections: Any, lexicon: "Lexicon", directions: "CosineIndex", method: Literal["add", "mul", "both"],
    lookup: "Lookup",
) -> dict[str, Any]:  # fmt: skip
    from neglm_cli.vectors.analogies import METHODS, composed_words, count_correct, sum_tallies

    _mention_case(path, [question for section in sections for question in section.questions], lexicon)
    methods: tuple[Method, ...] = METHODS if method == "both" else (method,)
    with Progress(f"analogies of {shown(path)}", len(lexicon.ids) * len(methods), unit="") as progress:
        counted = count_correct(sections, lexicon, directions, methods, progress.advance, lookup)
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
    totals = {**subtotals, "total": _counts(sum_tallies(counted, methods))}
    return {"file": path, "composed_words": composed_words(sections, lexicon, lookup), "sections": rows, **totals}


def _counts(tally: "Tally") -> dict[str, Any]:
    counts: dict[str, Any] = {
        "questions": tally.questions,
        "used": tally.used,
        "oov": tally.questions - tally.used,
    }
    for method, correct in tally.correct.items():
        counts[method] = {
            "correct": correct,
            "accuracy": rounded(tally.accuracy(method)),
            "accuracy_all": rounded(tally.accuracy_all(method)),
        }
    return counts


def _mention_case(path: str, rows: list[tuple[bytes, ...]], lexicon: "Lexicon") -> None:
    if missed := lexicon.missed_by_case(rows):
        console.note(f"{shown(path)}: {missed:,} of {len(rows):,} are OOV because of upper case: use --fold-case")


def _as_text(report: dict[str, Any], name: str) -> str:
    lines = [f"{name}: {count_of(report['vocabulary'], 'word')}"]
    for result in report["similarity"]:
        lines += ["", *similarity_text(result)]
    for result in report["analogy"]:
        lines += ["", *analogy_text(result)]
    return "\n".join(lines)
