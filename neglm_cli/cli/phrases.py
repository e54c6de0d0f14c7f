"""`neglm phrases`: join words into phrases."""

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    INPUT,
    MODEL,
    OUTPUT,
    Debug,
    Json,
    Memory,
    Quiet,
    Threads,
    memory_size,
    thread_count,
)
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import count_of, short, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM, check_writable, writing, writing_both

if TYPE_CHECKING:
    from neglm_cli.text.corpus import Corpus
    from neglm_cli.text.phrases import Phrases, Rule

THRESHOLDS = {"pmi": 5.0, "npmi": 0.5}
DEFAULT_OUTPUT = "joined.txt"
PHRASE_WIDTH = 40  # characters of a phrase in the summary


@subcommand(
    "phrases",
    ("neglm phrases corpus.txt", "Joins new york city to new_york_city; writes joined.txt."),
    ("neglm phrases news.*.gz -o joined.zst --passes 4", "Longer phrases; compressed input and output."),
    ("neglm phrases corpus.txt -o /dev/null --list - | head", "The phrases, best first, without the text."),
    ("zstdcat corpus.zst | neglm phrases - -o - | neglm vocab - --min-count 5", "Between two pipes."),
)
def phrases(
    corpus: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            help="Text files, plain or compressed (gzip, bzip2, xz, zstd); - is standard input, which is copied to "
            "TMPDIR to be read several times.",
            show_default=False,
        ),
    ],
    min_count: Annotated[
        int,
        typer.Option(
            min=1, help="Join only pairs of neighbors that occur N times or more.", metavar="N", rich_help_panel=INPUT
        ),
    ] = 5,
    measure: Annotated[
        Literal["pmi", "npmi"],
        typer.Option(
            help="Score of a pair. pmi: log p(a,b) / (p(a) p(b)), in nats. npmi: normalized PMI, divided by "
            "-log p(a,b): 1 for words that occur only together, however frequent.",
            metavar="pmi|npmi",
            rich_help_panel=MODEL,
        ),
    ] = "pmi",
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Join pairs that score X or more; lower it for more phrases. At a PMI of 5, two words occur together "
            "148 (e to the 5th) times as often as by chance.",
            show_default="5 for pmi, 0.5 for npmi",
            metavar="X",
            rich_help_panel=MODEL,
        ),
    ] = None,
    passes: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Passes over the text. Each joins words and phrases of earlier passes: two make phrases of up to 4 "
            "words, three of up to 8. A pass that finds nothing is the last.",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = 2,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File to write the text to; - is standard output. Names that end in .gz, .bz2, .xz or .zst are "
            "compressed.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = DEFAULT_OUTPUT,
    listing: Annotated[
        str | None,
        typer.Option(
            "--list",
            help="Also write the phrases, best first: tab-separated phrase, count, score and number of the pass.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    delimiter: Annotated[
        str,
        typer.Option(
            help="Put this between the words of a phrase; it has no white space.",
            metavar="TEXT",
            rich_help_panel=OUTPUT,
        ),
    ] = "_",
    top: Annotated[
        int, typer.Option(min=0, help="Show the N most frequent phrases.", metavar="N", rich_help_panel=OUTPUT)
    ] = 10,
    json: Json = False,
    threads: Threads = None,
    memory: Memory = "50%",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Join words into phrases and write the text with them.

    Two neighbors make a phrase if they occur together more often than their frequencies explain: if their pointwise
    mutual information (or its normalized form) is at least --threshold, and their count at least --min-count. p(a,b)
    is the count of the pair divided by the number of tokens, p(a) that of the word. Each pass counts and scores the
    output of the pass before, and joins from left to right.

    Words and lines are as in `neglm vocab`; no phrase crosses the end of a line. All bytes of the text are kept, except
    white space inside phrases. The same text gives the same bytes, whatever the number of threads and the memory.
    Counts are exact: tables larger than --memory spill to disk, in the directory TMPDIR.
    """
    refuse_repeated_stdin(corpus)
    _check_outputs(output, listing, corpus)
    between = os.fsencode(delimiter)
    if between.split() != [between]:
        raise typer.BadParameter("--delimiter must be one character or more, none of them white space.")
    least = THRESHOLDS[measure] if threshold is None else threshold
    if not least < (1.0 if measure == "npmi" else float("inf")):
        raise typer.BadParameter(
            f"--threshold {least:g} joins nothing: "
            + ("npmi is at most 1." if measure == "npmi" else "give a finite number.")
        )
    budget = memory_size(memory)
    console.announce_standard_input(corpus)
    console.announce_compiling()
    from neglm_cli.runs.corpora import InputFiles
    from neglm_cli.text.phrases import Rule

    clock = Progress("phrases", None)
    with ExitStack() as copies:
        opened = InputFiles(corpus, copies).open()
        found, lines, tokens = _found(opened, Rule(measure, least, min_count), passes, thread_count(threads), budget)
        _write(found, opened, output, listing, between, thread_count(threads))
    summary = {
        "output": output,
        "phrase_list": listing,
        "lines": lines,
        "tokens": tokens,
        "output_tokens": tokens - sum(found.joined),
        "phrases": len(found.found),
        "passes": [
            {"phrases": sum(phrase.found_in == number for phrase in found.found), "joined": joined}
            for number, joined in enumerate(found.joined, 1)
        ],
        "most_frequent": [
            [phrase.words.replace(b" ", between).decode(errors="backslashreplace"), phrase.count]
            for phrase in sorted(found.found, key=lambda phrase: (-phrase.count, phrase.words))[:top]
        ],
        "seconds": round(clock.seconds, 3),
        "words_per_second": round(tokens / max(clock.seconds, 1e-9)),
    }
    on_stdout = STANDARD_STREAM if listing in STANDARD_OUTPUT else output
    console.summary(summary, _as_text(summary), on_stdout, json)


def _check_outputs(output: str, listing: str | None, corpus: list[str]) -> None:
    """Raise early if an output cannot be written."""
    check_writable(output)
    if listing is not None:
        check_writable(listing)
        if {output, listing} <= {*STANDARD_OUTPUT} or os.path.realpath(output) == os.path.realpath(listing):
            raise typer.BadParameter("--output and --list name the same file: choose another for one of them.")
    refuse_overwriting([output, listing], corpus)


def _found(corpus: "Corpus", rule: "Rule", passes: int, threads: int, memory: int) -> tuple["Phrases", int, int]:
    """Return the phrases, the number of lines and the number of tokens."""
    from neglm_cli.text.count import counting
    from neglm_cli.text.phrases import Phrases

    with (
        Progress("counting words", corpus.size) as progress,
        counting(corpus, threads, memory, progress.advance) as counts,
    ):
        if counts.runs:
            console.note(f"the word table exceeds --memory: {count_of(counts.runs, 'sorted run')} spilled to disk")
        found, lines, tokens = Phrases(counts, rule), counts.lines, counts.tokens
    for number in range(1, passes + 1):
        with Progress(f"counting pairs, pass {number} of {passes}", corpus.size) as progress:
            new, runs = found.find(corpus, threads, memory, progress.advance)
        if runs:
            console.note(f"the table of pairs exceeds --memory: {count_of(runs, 'sorted run')} spilled to disk")
        if not new:
            break
    return found, lines, tokens


def _write(
    found: "Phrases", corpus: "Corpus", output: str, listing: str | None, delimiter: bytes, threads: int
) -> None:
    """Write the text and, if asked for, the list of phrases: both or neither."""
    from neglm_cli.store.compressed import compressing
    from neglm_cli.text.phrases import list_lines

    with ExitStack() as files:
        if listing is None:
            file = files.enter_context(writing(output, binary=False))
        else:
            file, table = files.enter_context(writing_both(output, listing, binary=False))
            with compressing(table, listing) as lines:
                lines.writelines(list_lines(found.found, delimiter))
        with Progress("joining", corpus.size) as progress, compressing(file, output) as text:
            found.write(corpus, text, delimiter, threads, progress.advance)


def _as_text(summary: dict[str, Any]) -> str:
    name = "the text" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    lines = [
        f"{name}: {summary['output_tokens']:,} words and phrases",
        f"  {'lines':<16}{summary['lines']:,}",
        f"  {'tokens':<16}{summary['tokens']:,}",
    ]
    for number, each in enumerate(summary["passes"], 1):
        lines.append(
            f"  {f'pass {number}':<16}{count_of(each['phrases'], 'phrase')}, joined {count_of(each['joined'], 'time')}"
        )
    if summary["most_frequent"]:
        shown_phrases = (f"{short(phrase, PHRASE_WIDTH)} {count:,}" for phrase, count in summary["most_frequent"])
        lines.append(f"  {'most frequent':<16}{'  '.join(shown_phrases)}")
    return "\n".join(lines)
