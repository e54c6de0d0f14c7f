"""`neglm phrases`: join words that make phrases."""

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
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM, check_writable, writing, writing_both

if TYPE_CHECKING:
    from neglm_cli.text.corpus import Corpus
    from neglm_cli.text.phrases import Phrases, Rule

THRESHOLDS = {"pmi": 5.0, "npmi": 0.5}
PHRASE_WIDTH = 40  # characters of a phrase in the summary


@subcommand(
    "phrases",
    ("neglm phrases corpus.txt -o joined.txt", "new york city becomes new_york_city."),
    ("neglm phrases news.*.gz -o joined.zst --passes 4", "Longer phrases; compressed input and output."),
    ("neglm phrases corpus.txt -o /dev/null --list - | head", "What would be joined, the highest score first."),
    ("zstdcat corpus.zst | neglm phrases - | neglm vocab - --min-count 5", "Between two pipes."),
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
            min=1, help="Join only what stands side by side N times or more.", metavar="N", rich_help_panel=INPUT
        ),
    ] = 5,
    score: Annotated[
        Literal["pmi", "npmi"],
        typer.Option(
            help="pmi: log p(a,b) / (p(a) p(b)), in nats. npmi: that divided by -log p(a,b), which is 1 for words that "
            "stand only together, however frequent.",
            metavar="SCORE",
            rich_help_panel=MODEL,
        ),
    ] = "pmi",
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Join pairs with this score or a higher one; lower it for more phrases. A PMI of 5 says that two "
            "words stand together 148 (e to the 5th) times as often as by chance.",
            show_default="5 for pmi, 0.5 for npmi",
            metavar="SCORE",
            rich_help_panel=MODEL,
        ),
    ] = None,
    passes: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Go over the text N times. Each pass joins words and phrases of those before: two make phrases of up "
            "to 4 words, three of up to 8. A pass that finds nothing is the last.",
            metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = 2,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File to write the text to; - is standard output. A name that ends in .gz, .bz2, .xz or .zst is "
            "compressed.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = STANDARD_STREAM,
    listing: Annotated[
        str | None,
        typer.Option(
            "--list",
            help="Also write the phrases, the highest score first: lines of phrase, count, score and the number of the "
            "pass, with tabs between.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    delimiter: Annotated[
        str,
        typer.Option(
            help="What to put between the words of a phrase: anything without white space.",
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
    """Join words that make phrases, and write the text with them.

    Two neighbours make a phrase if they stand together more often than their frequencies explain: if their pointwise
    mutual information (or the normalised one) is --threshold or more, and their count --min-count or more. p(a,b) is
    the count of the pair divided by the number of words, p(a) that of the word. Each pass counts and scores what the
    one before has joined, and joins from left to right.

    Words and lines are what they are for `neglm vocab`; no phrase goes over the end of a line. All bytes of the text
    stay as they are, but for the white space inside a phrase. The same text gives the same bytes, whatever the threads
    and the memory. Counts are exact: tables that outgrow --memory continue on disk, in the directory that TMPDIR names.
    """
    if corpus.count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    _check_outputs(output, listing, corpus)
    between = os.fsencode(delimiter)
    if between.split() != [between]:
        raise typer.BadParameter("--delimiter must be one character or more, none of them white space.")
    least = THRESHOLDS[score] if threshold is None else threshold
    if not least < (1.0 if score == "npmi" else float("inf")):
        raise typer.BadParameter(
            f"--threshold {least} joins nothing: " + ("npmi is 1 at most." if score == "npmi" else "name a number.")
        )
    budget = memory_size(memory)
    console.announce_standard_input(corpus)
    console.announce_compiling()
    from neglm_cli.runs.corpora import Named
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.phrases import Rule

    clock = Progress("phrases", None)
    with ExitStack() as copies:
        named = Named(corpus, copies)
        opened = open_corpus(named.readable, named.labels)
        found, lines, words = _found(opened, Rule(score, least, min_count), passes, thread_count(threads), budget)
        _write(found, opened, output, listing, between, thread_count(threads))
    summary = {
        "output": output,
        "lines": lines,
        "words": words,
        "words_left": words - sum(found.joined),
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
    }
    told = STANDARD_STREAM if listing in STANDARD_OUTPUT else output  # what was written to standard output, if anything
    console.summary(summary, _as_text(summary), told, json)


def _check_outputs(output: str, listing: str | None, corpus: list[str]) -> None:
    """Say before the work what would go wrong at its end."""
    check_writable(output)
    if listing is not None:
        check_writable(listing)
        if {output, listing} <= {*STANDARD_OUTPUT} or os.path.realpath(output) == os.path.realpath(listing):
            raise typer.BadParameter("the text and the list of --list would go to the same place: name a file for one.")
    refuse_overwriting([output, listing], corpus)


def _found(corpus: "Corpus", rule: "Rule", passes: int, threads: int, memory: int) -> tuple["Phrases", int, int]:
    """The phrases; the number of lines, and of words."""
    from neglm_cli.text.count import counting
    from neglm_cli.text.phrases import Phrases

    with (
        Progress("counting words", corpus.size) as progress,
        counting(corpus, threads, memory, progress.advance) as counts,
    ):
        if counts.runs:
            console.note(f"the word table outgrew --memory: {count_of(counts.runs, 'sorted run')} went to disk")
        found, lines, words = Phrases(counts, rule), counts.lines, counts.tokens
    for number in range(1, passes + 1):
        with Progress(f"counting pairs, pass {number} of {passes}", corpus.size) as progress:
            new, runs = found.find(corpus, threads, memory, progress.advance)
        if runs:
            console.note(f"the table of pairs outgrew --memory: {count_of(runs, 'sorted run')} went to disk")
        if not new:
            break
    return found, lines, words


def _write(
    found: "Phrases", corpus: "Corpus", output: str, listing: str | None, delimiter: bytes, threads: int
) -> None:
    """Write the text, and the list if there is to be one: both or neither."""
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
        f"{name}: {summary['words_left']:,} words and phrases",
        f"  {'lines':<16}{summary['lines']:,}",
        f"  {'words':<16}{summary['words']:,}",
    ]
    for number, each in enumerate(summary["passes"], 1):
        lines.append(
            f"  {f'pass {number}':<16}{count_of(each['phrases'], 'phrase')}, joined {count_of(each['joined'], 'time')}"
        )
    if summary["most_frequent"]:
        shown_phrases = (f"{short(phrase, PHRASE_WIDTH)} {count:,}" for phrase, count in summary["most_frequent"])
        lines.append(f"  {'most frequent':<16}{'  '.join(shown_phrases)}")
    return "\n".join(lines)
