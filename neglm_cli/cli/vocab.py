"""`neglm vocab`: count words and write a vocabulary."""

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.host import ConsoleHost
from neglm_cli.cli.options import (
    INPUT,
    OUTPUT,
    Debug,
    Json,
    Memory,
    Quiet,
    Threads,
    memory_size,
    thread_count,
)  # fmt: skip
from neglm_cli.cli.processes import traffic, traffic_text
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import count_of, short, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.vocab import Request, count
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.vocab import Settings
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.text.vocabulary import Vocabulary

WORD_WIDTH = 40  # characters of a word in the summary


@subcommand(
    "vocab",
    ("neglm vocab corpus.txt", "Count the words of a text; writes vocab.safetensors."),
    ("neglm vocab --min-count 3 --max-size 64000 news.*.gz", "At most 64,000 words that occur three times or more."),
    ("zstdcat corpus.zst | neglm vocab -", "From a pipe. (neglm reads compressed files by itself, too.)"),
    ("neglm vocab corpus.txt --text --output - | head", "The most frequent words, as text."),
    ("neglm vocab --merge monday.safetensors tuesday.safetensors", "The exact vocabulary of both texts together."),
    ("neglm vocab --merge words.tsv", "Make a vocabulary of a list of words and counts."),
    settings=Settings,
)
def vocab(
    corpus: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            help="Text files, plain or compressed (gzip, bzip2, xz, zstd); - is standard input. "
            "With --merge: vocabularies.",
            show_default=False,
        ),
    ],
    given: dict[str, Any] = {},  # noqa: B006  (options take its place)
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="The arguments are vocabularies, not texts: combine them into the exact vocabulary of all their "
            "texts. "
            "Also reads word lists, as --text and --word2vec write them, as far as their counts tell.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is standard output.",
            show_default="vocab.safetensors, or vocab.txt with --text or --word2vec",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Write text: word TAB count lines.", rich_help_panel=OUTPUT)
    ] = False,
    word2vec: Annotated[
        bool,
        typer.Option(
            "--word2vec",
            help="Write text in the form of word2vec's -save-vocab: a blank instead of the tab, </s> for <eos>.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    top: Annotated[
        int, typer.Option(min=0, help="Show the N most frequent words.", metavar="N", rich_help_panel=OUTPUT)
    ] = 10,
    json: Json = False,
    threads: Threads = None,
    memory: Memory = "50%",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Count the words of a text and write its vocabulary.

    Words are separated by ASCII white space; every other byte belongs to a word. The end of a line counts as
    the word <eos>. Words that are left out are counted as <unk>, which is always in the vocabulary, as is <eos>.
    <unk> in the text itself is counted with them. Words are ordered by count, then by their bytes.

    The vocabulary remembers its corpus: where it is, its size, and a fingerprint that tells whether it has changed.
    The same files, at the same place relative to the output, give the same bytes, whatever the threads and the
    memory. Counts are exact: a table that outgrows --memory continues on disk, in the directory that TMPDIR names.

    Under mpirun, processes divide the text, or compressed files as they are, and then the words, by their hash: no
    process holds all of them but for those that are kept, which the first one writes. The bytes are the same.
    """
    if text and word2vec:
        raise typer.BadParameter("--text and --word2vec are two forms of the same output: choose one.")
    path = ("vocab.txt" if text or word2vec else "vocab.safetensors") if output is None else output
    if corpus.count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    refuse_overwriting([path], [] if merge else corpus, corpus if merge else [])
    budget = memory_size(memory)
    console.announce_standard_input(corpus)
    console.announce_compiling()
    if merge and ranks().size > 1:
        raise typer.BadParameter("--merge is the work of one process: start it without mpirun.")
    settings, clock = Settings(**given), Progress("counting", None)

    def write(vocabulary: "Vocabulary") -> None:
        from neglm_cli.text import wordlist

        seconds = clock.seconds
        if text or word2vec:
            wordlist.save(vocabulary, path, word2vec)
        else:
            vocabulary.save(path)
        summary = _summary(vocabulary, path, top) | {"seconds": round(seconds, 3)} | traffic(ranks())
        console.summary(summary, _as_text(summary), path, json)

    if merge:
        write(_merged(corpus, settings))
    else:
        request = Request(corpus, settings.min_count, settings.max_size, thread_count(threads), budget)
        count(request, ConsoleHost(), write)


def _merged(paths: list[str], settings: Settings) -> "Vocabulary":
    from neglm_cli.text.vocabulary import build, merge
    from neglm_cli.text.wordlist import read_counts

    return build(merge([read_counts(path) for path in paths]), settings.min_count, settings.max_size)


def _summary(vocabulary: "Vocabulary", path: str, top: int) -> dict[str, Any]:
    return {
        "output": path,
        "vocabulary": len(vocabulary),
        "lines": vocabulary.lines,
        "words": vocabulary.tokens,
        "distinct": vocabulary.distinct_words,
        "cut_words": vocabulary.oov_words,
        "cut_tokens": vocabulary.oov_tokens,
        "coverage": vocabulary.coverage,
        "most_frequent": [
            [str(vocabulary.words[start:end].data, "utf-8", "backslashreplace"), count]  # of a huge word, only one copy
            for (start, end), count in zip(
                pairwise(vocabulary.offsets[: top + 1].tolist()), vocabulary.counts[:top].tolist(), strict=True
            )
        ],
    }


def _as_text(summary: dict[str, Any]) -> str:
    name = "the vocabulary" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    kept = summary["distinct"] - summary["cut_words"]
    rows = [
        ("lines", f"{summary['lines']:,}"),
        ("words", f"{summary['words']:,}"),
        ("distinct words", f"{summary['distinct']:,}"),
        ("kept", f"{kept:,}, which cover {summary['coverage']:.2%} of the text"),
    ]
    if summary["cut_words"]:
        rows.append(
            ("left out", f"{summary['cut_words']:,}, counted {count_of(summary['cut_tokens'], 'time')} as <unk>")
        )
    lines = [f"{name}: {count_of(summary['vocabulary'], 'entry')}, with <unk> and <eos>"]
    lines += [f"  {label:<16}{value}" for label, value in rows]
    if summary["most_frequent"]:
        words = "  ".join(f"{short(word, WORD_WIDTH)} {count:,}" for word, count in summary["most_frequent"])
        lines.append(f"  {'most frequent':<16}{words}")
    return "\n".join([*lines, *traffic_text(summary)])
