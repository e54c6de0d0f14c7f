"""`neglm vocab`: count words and write a vocabulary."""

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.host import ConsoleHost
from neglm_cli.cli.mpi import traffic, traffic_text
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
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import count_of, short, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.runs.vocab import Request, count
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.vocab import Settings
from neglm_cli.store.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from neglm_cli.text.vocabulary import Vocabulary

WORD_WIDTH = 40  # characters of a word in the summary


@subcommand(
    "vocab",
    ("neglm vocab corpus.txt", "Count words; writes vocab.safetensors."),
    ("neglm vocab --min-count 3 --max-vocab 64000 news.*.gz", "At most 64,000 words that occur three times or more."),
    ("zstdcat corpus.zst | neglm vocab -", "From a pipe. (neglm also reads compressed files itself.)"),
    ("neglm vocab corpus.txt --format text --output - | head", "The most frequent words, as text."),
    ("neglm vocab --merge monday.safetensors tuesday.safetensors", "The exact vocabulary of both texts combined."),
    ("neglm vocab --merge words.tsv", "Build a vocabulary from a list of words and counts."),
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
            "texts. Also reads word lists, as --format text and --format word2vec write them.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is standard output.",
            show_default="vocab.safetensors; vocab.txt for the other formats",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    format: Annotated[
        Literal["safetensors", "text", "word2vec"],
        typer.Option(
            help="safetensors: a file for other commands; text: word TAB count lines; word2vec: text as word2vec's "
            "-save-vocab writes it, with a space for the tab and </s> for <eos>.",
            metavar="FORMAT",
            rich_help_panel=OUTPUT,
        ),
    ] = "safetensors",
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

    Words are separated by ASCII white space; every other byte belongs to a word. The end of a line counts as the word
    <eos>. Dropped words (out of vocabulary, OOV) count as <unk>, as does <unk> in the text itself. <unk> and <eos> are
    always in the vocabulary. Words are sorted by count, then by their bytes.

    The vocabulary records the path, size and fingerprint of its corpus, to find it again and to detect changes. The
    same files, at the same paths relative to the output, give the same bytes, whatever the number of threads and the
    memory. Counts are exact: a table larger than --memory spills to disk, in the directory TMPDIR.

    Under mpirun, ranks divide the text (compressed files are not split), and then the words, by their hash: no rank
    holds all words. Rank 0 writes the file, which has the same bytes.
    """
    path = ("vocab.safetensors" if format == "safetensors" else "vocab.txt") if output is None else output
    refuse_repeated_stdin(corpus)
    refuse_overwriting([path], [] if merge else corpus, corpus if merge else [])
    budget = memory_size(memory)
    console.announce_standard_input(corpus)
    console.announce_compiling()
    if merge and ranks().size > 1:
        raise typer.BadParameter("--merge runs in a single process: start it without mpirun.")
    settings, clock = Settings(**given), Progress("counting", None)

    def write(vocabulary: "Vocabulary") -> None:
        from neglm_cli.text import wordlist

        seconds = clock.seconds
        if format == "safetensors":
            vocabulary.save(path)
        else:
            wordlist.save(vocabulary, path, format == "word2vec")
        rate = None if merge else round(vocabulary.tokens / max(seconds, 1e-9))
        timing = {"seconds": round(seconds, 3), "words_per_second": rate}
        summary = _summary(vocabulary, path, top) | timing | traffic(ranks())
        console.summary(summary, _as_text(summary), path, json)

    if merge:
        write(_merged(corpus, settings))
    else:
        request = Request(corpus, settings.min_count, settings.max_vocab, thread_count(threads), budget)
        count(request, ConsoleHost(), write)


def _merged(paths: list[str], settings: Settings) -> "Vocabulary":
    from neglm_cli.text.vocabulary import build, merge
    from neglm_cli.text.wordlist import read_counts

    return build(merge([read_counts(path) for path in paths]), settings.min_count, settings.max_vocab)


def _summary(vocabulary: "Vocabulary", path: str, top: int) -> dict[str, Any]:
    return {
        "output": path,
        "vocabulary": len(vocabulary),
        "lines": vocabulary.lines,
        "tokens": vocabulary.tokens,
        "distinct_words": vocabulary.distinct_words,
        "oov_words": vocabulary.oov_words,
        "oov": vocabulary.oov_tokens,
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
    kept = summary["distinct_words"] - summary["oov_words"]
    rows = [
        ("lines", f"{summary['lines']:,}"),
        ("tokens", f"{summary['tokens']:,}"),
        ("distinct words", f"{summary['distinct_words']:,}"),
        ("kept", f"{count_of(kept, 'word')}, which cover {summary['coverage']:.2%} of the text"),
    ]
    if summary["oov_words"]:
        rows.append(("OOV", f"{count_of(summary['oov_words'], 'word')}, {count_of(summary['oov'], 'token')}: <unk>"))
    lines = [f"{name}: {count_of(summary['vocabulary'], 'entry')}, including <unk> and <eos>"]
    lines += [f"  {label:<16}{value}" for label, value in rows]
    if summary["most_frequent"]:
        words = "  ".join(f"{short(word, WORD_WIDTH)} {count:,}" for word, count in summary["most_frequent"])
        lines.append(f"  {'most frequent':<16}{words}")
    return "\n".join([*lines, *traffic_text(summary)])
