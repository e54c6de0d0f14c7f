"""`neglm generate`: sample text from a language model."""

import os
from typing import Annotated, BinaryIO

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    MODEL,
    OUTPUT,
    Debug,
    DeviceName,
    ModelFile,
    Quiet,
    Threads,
    Tokenize,
    input_file,
    line_preparation,
    one_blas_thread,
)
from neglm_cli.cli.reading import open_model
from neglm_cli.store.terminal import standard_output

DEFAULT_LINES = 10


@subcommand(
    "generate",
    ("neglm generate", "Ten lines."),
    ("neglm generate --prompt 'the market' --lines 3 --temperature 0.8", "Three lines that begin with the prompt."),
    ("neglm generate --max-words 1000 --top-p 0.9 --no-unk | fold -s", "A thousand words, no unlikely ones."),
)
def generate(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A language model; - is standard input.", show_default=DEFAULT_MODEL),
    ] = None,
    named: ModelFile = None,
    prompt: Annotated[
        str,
        typer.Option(
            help="Start each line (with --max-words, the whole text) with this, which is printed, too.",
            show_default=False,
            metavar="TEXT",
            rich_help_panel=MODEL,
        ),
    ] = "",
    tokenize: Tokenize = False,
    max_words: Annotated[
        int | None,
        typer.Option(
            min=1, help="Stop after N words, not counting ends of line, or N lines.", show_default="no limit",
            metavar="N", rich_help_panel=OUTPUT,
        ),
    ] = None,
    lines: Annotated[
        int | None,
        typer.Option(
            min=1, help="Stop after N lines.", show_default=f"{DEFAULT_LINES}, unless --max-words is given",
            metavar="N", rich_help_panel=OUTPUT,
        ),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            min=0,
            help="Divide log-probabilities by X: below 1, likely words become likelier; 0 is greedy.",
            metavar="X",
            rich_help_panel=MODEL,
        ),
    ] = 1.0,
    top_k: Annotated[
        int,
        typer.Option(min=0, help="Sample from the N most likely words; 0: all.", metavar="N", rich_help_panel=MODEL),
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Sample from the most likely words whose probabilities sum to P.",
            metavar="P",
            rich_help_panel=MODEL,
        ),
    ] = 1.0,
    no_unk: Annotated[
        bool, typer.Option("--no-unk", help="Never generate <unk>.", rich_help_panel=MODEL)
    ] = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**63 - 1, help="Random seed. The same seed generates the same text.", metavar="N",
            rich_help_panel=MODEL,
        ),
    ] = 1,
    device: DeviceName = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Sample text from a language model, word by word.

    The text starts a new line, with the prompt if there is one; out-of-vocabulary words of the prompt are read as
    <unk>. Each word is printed as soon as it is sampled. The default device is the
    CPU: a GPU has little to do for one word at a time, and its kernels take a while to compile.
    """
    path = input_file(model, named, DEFAULT_MODEL)
    one_blas_thread()
    console.announce_compiling()
    import numpy as np

    from neglm_cli.lm.generation import Generator, SamplingParams

    opened = open_model(path, device, threads, 1)
    language = opened.model
    given = opened.line(line_preparation(tokenize)(os.fsencode(prompt)))
    if missing := [word for word, unknown in zip(given.words, given.unknown, strict=True) if unknown]:
        console.note(f"out of vocabulary (OOV), read as <unk>: {b' '.join(missing).decode(errors='backslashreplace')}")
    sampling = SamplingParams(temperature, top_k, top_p, (language.unknown,) if no_unk else ())
    end = language.end_of_line
    beginning = np.concatenate([[end], given.ids]).astype(np.int32)
    lines_left = lines or max_words or DEFAULT_LINES  # a model may predict nothing but ends of line
    words_left = max_words or 1 << 62
    out = standard_output()
    try:
        generator = Generator(opened.scorer, beginning, seed, sampling)
        fresh = _begin(given.words, out)
        for word in generator.words():
            if word == end:
                out.write(b"\n")
                out.flush()
                lines_left -= 1
                if not lines_left:
                    return
                fresh = True
                if max_words is None and given.words:
                    generator.restart(beginning)
                    fresh = _begin(given.words, out)
            else:
                out.write((b"" if fresh else b" ") + language.words[word])
                out.flush()
                fresh = False
                words_left -= 1
                if not words_left:
                    out.write(b"\n")
                    out.flush()
                    return
    finally:
        opened.device.close()


def _begin(words: list[bytes], out: BinaryIO) -> bool:
    """Print the prompt. Return True if the line is still empty."""
    out.write(b" ".join(words))
    return not words
