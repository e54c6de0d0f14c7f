"""`neglm import`: vectors and language models from other tools."""

import os
from typing import Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import DEFAULT_MODEL, DEFAULT_VECTORS, INPUT, OUTPUT, Debug, Json, Quiet
from neglm_cli.cli.progress import Progress, bytes_to_read
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.store.output import STANDARD_OUTPUT
from neglm_cli.vectors.formats import WORDS_ENDING, ImportFormat, companion_file


@subcommand(
    "import",
    ("neglm import GoogleNews-vectors-negative300.bin.gz", "word2vec's binary format; writes vectors.safetensors."),
    ("neglm import cc.de.300.vec.gz -o german.safetensors", "fastText's text format, compressed."),
    ("neglm import cc.de.300.bin -o german.safetensors", "A model of fastText, with subwords."),
    ("neglm import vectors.floret --word-list words.txt", "A table of floret, and the words of its vocabulary."),
    ("neglm import glove.6B.300d.txt", "GloVe's text format, which has no header."),
    ("neglm import matrix.npy --word-list words.txt", "A NumPy matrix, with one word per line in another file."),
    ("neglm import --pytorch lm", "A language model from PyTorch, in the folder lm; writes model.safetensors."),
    ("neglm import words.vec --context-file contexts.vec", "Word vectors and context vectors."),
)
def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Vectors, plain or compressed (gzip, bzip2, xz, zstd); - is standard input.",
            show_default=False,
        ),
    ],
    format: Annotated[
        ImportFormat | None,
        typer.Option(
            help="text: word2vec's, fastText's or GloVe's text; binary: word2vec's binary format; npy: a NumPy matrix; "
            "fasttext: a model of fastText, .bin or .ftz; floret: a table of floret.",
            show_default="detected from the contents",
            metavar="FORMAT",
            rich_help_panel=INPUT,
        ),
    ] = None,
    word_list: Annotated[
        str | None,
        typer.Option(
            help="For npy and floret: the words, one per line.",
            show_default="FILE with .words.txt in place of .npy; none for floret",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    context_file: Annotated[
        str | None,
        typer.Option(
            help="Context vectors, in any of these formats; those of an .npy file need a .words.txt file.",
            show_default="none",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    pytorch: Annotated[
        bool,
        typer.Option(
            "--pytorch",
            help="FILE is a folder with an LSTM language model of PyTorch: model.safetensors, a state dict, and "
            "vocab.txt (word TAB count) or vocab.json (word to id), as `neglm export --pytorch` writes it.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is standard output.",
            show_default=f"{DEFAULT_VECTORS}; with --pytorch {DEFAULT_MODEL}",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Convert vectors, or a language model, from another tool.

    Words are separated from their numbers by white space and may contain any other byte; each may appear once. Files
    must be complete: as many words and numbers as the header says, all finite, with a newline at the end of text.

    These formats have no counts. Every word gets the count 1, and the order, in most files that of frequency, is kept.
    The objective of the training is stored as unknown.

    A model of fastText is imported with its counts and its n-grams, if it has any, so that unknown words get the same
    vectors as from fastText; with negative sampling, its output vectors become context vectors. Labels of supervised
    models are left out. Quantized models (.ftz) are read, except those with a part of their n-grams.

    A table of floret has vectors for all words, and no list of words: --word-list names those that `neglm nearest` and
    other commands search, most frequent first.

    With --pytorch, the language model's state dict has the names of one nn.LSTM, of an embedding (embedding, encoder,
    input_embedding, ...) and of a linear output layer (output, decoder, output_linear, lm_head, ...), which a tied
    model lacks. Its words include <eos>, which starts and ends lines, and <unk>. It is stored as a softmax model.
    """
    if pytorch:
        if format or word_list or context_file:
            raise typer.BadParameter("--format, --word-list and --context-file are for vectors, not for --pytorch.")
        _import_pytorch(file, DEFAULT_MODEL if output is None else output, json)
        return
    output = DEFAULT_VECTORS if output is None else output
    inputs = [path for path in (file, context_file, word_list) if path is not None]
    refuse_repeated_stdin(inputs)
    refuse_overwriting([output], [*inputs, *(companion_file(path, WORDS_ENDING) for path in inputs)])
    console.announce_standard_input(inputs)
    console.announce_compiling()
    from neglm_cli.vectors import exchange

    with Progress(
        "reading vectors", bytes_to_read([file] if context_file is None else [file, context_file])
    ) as progress:
        vectors, found = exchange.import_vectors(file, format, word_list, context_file, progress.advance)
    vectors.save(output)
    summary = {
        "output": output,
        "format": str(found),
        "vocabulary": len(vectors.words),
        "contexts": len(vectors.contexts),
        "dimensions": vectors.size,
        "buckets": len(vectors.subwords.ngrams) if vectors.subwords else 0,
    }
    console.summary(summary, _as_text(summary), output, json)


def _import_pytorch(folder: str, output: str, json: bool) -> None:
    from neglm_cli.interop import pytorch, pytorch_reading

    refuse_overwriting([output], [os.path.join(folder, name) for name in pytorch.FILES])
    console.announce_compiling()
    network = pytorch_reading.read(folder)
    network.save(output)
    summary = network.summary(output, "pytorch")
    size = f"{count_of(len(network.words), 'word')}, {summary['layers']}×{summary['hidden']}"
    name = "the model" if output in STANDARD_OUTPUT else shown(output)
    console.summary(summary, f"{name}: {size}, from pytorch", output, json)


def _as_text(summary: dict[str, Any]) -> str:
    name = "the vectors" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    contexts = f" and {count_of(summary['contexts'], 'context')}" if summary["contexts"] else ""
    contexts += f" and {count_of(summary['buckets'], 'bucket')} of n-grams" if summary["buckets"] else ""
    return (
        f"{name}: {count_of(summary['vocabulary'], 'word')}{contexts}, "
        f"{count_of(summary['dimensions'], 'dimension')}, from {summary['format']}"
    )
