"""`neglm export`: vectors in the formats of other tools."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    DEFAULT_VECTORS,
    INPUT,
    OUTPUT,
    Debug,
    Json,
    Quiet,
    Table,
    VectorsFile,
    input_file,
)
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM
from neglm_cli.vectors.formats import GZIP_ENDING, OF_ONE_FILE, Format, files_of, format_of


@subcommand(
    "export",
    ("neglm export -o vectors.txt", "The vectors in vectors.safetensors as text, for gensim and many others."),
    ("neglm export news.safetensors -o news.bin.gz", "word2vec's binary format, compressed; gensim reads it, too."),
    (
        "neglm export --max-vocab 10000 --normalize -o news.tsv",
        "For TensorBoard's projector; also writes news.metadata.tsv.",
    ),
    ("neglm export --format fasttext -o model.bin", "A model of fastText, with subwords if there are any."),
    (
        "neglm export floret.safetensors -o table.floret",
        "A table of `embed --floret`, for `spacy init vectors en table.floret DIR --mode floret`.",
    ),
    (
        "neglm export --quantize -o small.safetensors --similarity ws353.tsv",
        "An eighth of the size, for `neglm nearest` and others; prints what is lost.",
    ),
    ("neglm export --format text -o - | head -n 3", "Look at the beginning."),
    ("neglm export model.safetensors --pytorch lm", "The language model for PyTorch, in the folder lm."),
    ("neglm export model.safetensors --onnx lm.onnx --int8", "As ONNX, also with 8-bit weights."),
    ("neglm export model.safetensors --hub lm-hub", "A folder for the Hugging Face Hub."),
    multi_value_options=("--similarity",),
)
def export(
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File of vectors to write; - is standard output, for text and binary. A name that ends in .gz is "
            "compressed.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Argument(
            metavar="VECTORS",
            help="A file of vectors or a language model; - is standard input.",
            show_default=DEFAULT_VECTORS,
        ),
    ] = None,
    named: VectorsFile = None,
    table: Table = None,
    contexts: Annotated[
        bool,
        typer.Option(
            "--contexts",
            help="Export the context vectors instead of the word vectors.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    max_vocab: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Export only the N most frequent words.",
            show_default="no limit",
            metavar="N",
            rich_help_panel=INPUT,
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(
            help="text: word2vec's text format; binary: its binary format; npy: a NumPy matrix, with one word per line "
            "in FILE.words.txt; tsv: for TensorBoard's projector, with words and counts in FILE.metadata.tsv; "
            "fasttext: a model of fastText; floret: a table of floret, for spaCy.",
            show_default="from the file name: .txt .vec text, .bin binary, .npy npy, .tsv tsv, .floret floret",
            metavar="FORMAT",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    normalize: Annotated[
        bool,
        typer.Option("--normalize", help="Scale every vector to unit length.", rich_help_panel=OUTPUT),
    ] = False,
    quantize: Annotated[
        bool,
        typer.Option(
            "--quantize",
            help="Write a neglm file of quantized vectors: one byte for every --dsub dimensions, and four bytes for "
            "each vector. Prints what is lost.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    dsub: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --quantize: dimensions of a byte.",
            show_default="2",
            metavar="N",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    similarity: Annotated[
        list[str] | None,
        typer.Option(
            help="With --quantize: pairs of words with human ratings, as for `neglm eval`, to print correlations "
            "before and after.",
            show_default=False,
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    pytorch: Annotated[
        str | None,
        typer.Option(
            help="Instead of vectors, write the language model for PyTorch, to a folder: a state dict with the names "
            "of nn.LSTM, and a short module that loads it.",
            show_default=False,
            metavar="DIR",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    onnx: Annotated[
        str | None,
        typer.Option(
            help="Write the language model as ONNX: FILE maps ids, h, c to log_probs, next_h, next_c; "
            "FILE.no-state.onnx maps x, x_lens to nll, as sherpa-onnx expects it. Needs neglm[onnx].",
            show_default=False,
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    int8: Annotated[
        bool,
        typer.Option(
            "--int8",
            help="With --onnx: also write both graphs with 8-bit weights, as FILE.int8.onnx and so on, and compare "
            "size, speed and perplexity.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    test: Annotated[
        str | None,
        typer.Option(
            help="With --int8: the text to compare on. With --hub: a text whose perplexity the model card shows.",
            show_default="with --int8 the validation text of the training",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    hub: Annotated[
        str | None,
        typer.Option(
            help="Write a folder for the Hugging Face Hub, with a model card. neglm reads such folders, too.",
            show_default=False,
            metavar="DIR",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    license: Annotated[
        str | None,
        typer.Option(
            help="With --hub: the license in the model card, such as mit or cc-by-4.0.",
            show_default="unknown",
            metavar="NAME",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write vectors, or a language model, in a format that other tools read.

    Numbers in text have as few digits as give the same 32-bit number when read. Words are written byte for byte, in
    the order of the file. White space inside a word, which only words from pairs can have, becomes _ where a format
    cannot represent it: all white space in text and binary; tabs and newlines in tsv; newlines in npy.

    npy and tsv have two files, which are renamed only when both are complete. FILE stands for the output's name
    without .npy or .tsv.

    Only fasttext and floret keep subwords: fastText and spaCy then give unknown words the same vectors as neglm.
    fastText's model is one of skip-gram or CBOW with negative sampling; the context vectors are its output vectors.
    floret needs vectors trained with --floret; it has no words, only the table that all vectors are composed from.

    --quantize writes a file for neglm: product quantization, as in fastText's .ftz, of word vectors and of the rows of
    n-grams, if there are any, so that unknown words have vectors, too; context vectors are left out. `neglm nearest`,
    `analogy`, `eval`, `vectors` and Python read it like the original. neglm-format(5) has the details.

    --pytorch, --onnx and --hub write whole models, by default that of model.safetensors; --hub also takes vectors. For
    PyTorch and ONNX the correction of the loss is part of the output layer's bias, so that a softmax gives
    probabilities. The words of ONNX files are in FILE.tokens.txt. Lines start and end with <eos>.
    """
    targets = {"--output": output, "--pytorch": pytorch, "--onnx": onnx, "--hub": hub}
    _check_target(targets, {
        "--output": {"--contexts": contexts, "--max-vocab": max_vocab, "--format": format, "--normalize": normalize,
                     "--table": table, "--quantize": quantize, "--dsub": dsub, "--similarity": similarity},
        "--onnx": {"--int8": int8},
        "--hub": {"--license": license},
    })  # fmt: skip
    if output is None:
        from neglm_cli.cli import export_model

        model = input_file(vectors, named, DEFAULT_MODEL)
        if pytorch is not None:
            export_model.to_pytorch(model, pytorch, json)
        elif onnx is not None:
            export_model.to_onnx(model, onnx, int8, test, json)
        elif hub is not None:
            export_model.to_hub(model, hub, license, test, json)
        return
    path = input_file(vectors, named, DEFAULT_VECTORS)
    if quantize:
        _check_quantize({"--format": format, "--normalize": normalize, "--contexts": contexts})
        _quantize(path, output, table, (max_vocab, dsub), similarity or [], json)
        return
    for option, value in (("--dsub", dsub), ("--similarity", similarity)):
        if value:
            raise typer.BadParameter(f"{option} is for --quantize.")
    chosen = _format(output, format)
    if chosen in (Format.FASTTEXT, Format.FLORET) and (normalize or contexts):
        raise typer.BadParameter(f"{chosen} has word vectors as they are: leave out --normalize and --contexts.")
    if chosen is Format.FLORET and max_vocab is not None:
        raise typer.BadParameter("floret has no words: leave out --max-vocab.")
    refuse_overwriting(files_of(output, chosen), [path])
    console.announce_compiling()
    from neglm_cli.vectors import exchange
    from neglm_cli.vectors.vectors import load_vectors

    loaded = load_vectors(path, table)
    name = "standard input" if path == STANDARD_STREAM else shown(path)
    if contexts and not len(loaded.contexts):
        raise NeglmError(f"{name} has no context vectors: leave out --contexts")
    if loaded.subwords is not None and chosen not in (Format.FASTTEXT, Format.FLORET):
        keeps = "floret" if loaded.subwords.hash_count else "fasttext"
        console.note(f"this format has no subwords; --format {keeps} keeps them")
    words, matrix = (loaded.contexts, loaded.context_vectors) if contexts else (loaded.words, loaded.vectors)
    words, matrix = exchange.most_frequent(words, matrix, max_vocab)
    words, changed = exchange.replace_white_space(words, chosen)
    matrix = exchange.normalized(matrix) if normalize else matrix
    if chosen is Format.FASTTEXT:
        files = exchange.write_fasttext(replace(exchange.subset(loaded, max_vocab), words=words), output)
    elif chosen is Format.FLORET:
        rows = 0 if loaded.subwords is None else len(loaded.subwords.ngrams)
        with Progress("writing the table", rows, "K rows") as progress:
            files = exchange.write_floret(loaded, output, progress.advance)
    else:
        with Progress("writing vectors", len(matrix), "K words") as progress:
            files = exchange.write(words, matrix, output, chosen, progress.advance)
    if changed:
        console.note(f"{changed:,} {'words have' if changed > 1 else 'word has'} _ in place of white space")
    summary = {
        "output": output,
        "companion": next(iter(files[1:]), None),
        "format": str(chosen),
        "vocabulary": len(words),
        "dimensions": loaded.size,
        "changed_words": changed,
    }
    console.summary(summary, _as_text(summary), output, json)


def _check_quantize(options: dict[str, Any]) -> None:
    for option, value in options.items():
        if value:
            raise typer.BadParameter(f"--quantize writes word vectors to a neglm file: leave out {option}.")


def _quantize(
    path: str, output: str, table: str | None, limits: tuple[int | None, int | None], similarity: list[str], json: bool
) -> None:
    """Write quantized vectors. limits: --max-vocab and --dsub."""
    refuse_overwriting([output], [path, *similarity])
    console.announce_compiling()
    from neglm_cli.cli.export_quantized import DSUB, export_quantized
    from neglm_cli.vectors.similarity import read_pairs

    sets = [(file, read_pairs(file)) for file in similarity]  # errors in them come first
    max_vocab, dsub = limits
    export_quantized(path, output, table, max_vocab, dsub or DSUB).report(sets, json)


def _check_target(targets: dict[str, str | None], options: dict[str, dict[str, Any]]) -> None:
    """Raise unless exactly one target is given, with options that it has. options: by the target that has them."""
    given = [target for target, value in targets.items() if value is not None]
    if not given:
        raise typer.BadParameter("--output FILE is required, or --pytorch, --onnx or --hub.")
    if len(given) > 1:
        raise typer.BadParameter(f"{given[0]} and {given[1]} exclude each other: choose one.")
    for target, values in options.items():
        unused = [option for option, value in values.items() if value not in (None, False)]
        if unused and target != given[0]:
            raise typer.BadParameter(f"{unused[0]} is for {target}: leave it out.")


def _format(output: str, given: Format | None) -> Format:
    found = given or format_of(output)
    if output in STANDARD_OUTPUT and given is None:
        raise typer.BadParameter("choose a format for standard output: --format text, binary, fasttext or floret.")
    if found is None:
        raise typer.BadParameter(
            f"the name {shown(output)} does not tell the format: use one that ends in .txt, .vec, .bin, .npy, .tsv "
            "or .floret, or --format."
        )
    if found not in OF_ONE_FILE and output in STANDARD_OUTPUT:
        raise typer.BadParameter(f"the format {found} has two files and cannot go to standard output: name a file.")
    if found not in OF_ONE_FILE and output.endswith(GZIP_ENDING):
        raise typer.BadParameter(f"the format {found} is not written compressed: leave out {GZIP_ENDING}.")
    return found


def _as_text(summary: dict[str, Any]) -> str:
    files = [file for file in (summary["output"], summary["companion"]) if file]
    name = " and ".join("standard output" if file in STANDARD_OUTPUT else shown(file) for file in files)
    size = f"{count_of(summary['vocabulary'], 'word')}, {count_of(summary['dimensions'], 'dimension')}"
    return f"{name}: {size}, as {summary['format']}"
