"""Options shared by several subcommands, and parsing of their values."""

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neglm_cli.cli.console import console
from neglm_cli.errors import shown
from neglm_cli.runs import resources
from neglm_cli.runs.resources import machine_memory as machine_memory
from neglm_cli.runs.resources import thread_count as thread_count
from neglm_cli.settings.declare import INPUT as INPUT
from neglm_cli.settings.declare import MODEL as MODEL
from neglm_cli.settings.declare import RUNTIME as RUNTIME
from neglm_cli.settings.declare import TRAINING as TRAINING
from neglm_cli.settings.train_lm import MOST_ALPHA

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu

DEFAULT_MODEL = "model.safetensors"
DEFAULT_VECTORS = "vectors.safetensors"
OUTPUT = "Output"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LEAST_MEMORY = 1 << 20


def _set_quiet(value: bool) -> bool:
    console.quiet = value
    return value


def _set_debug(value: bool) -> bool:
    console.debug = value
    return value


Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Threads; under mpirun, those of each rank.",
        show_default="all cores",
        metavar="N",
        rich_help_panel=RUNTIME,
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        help="Memory for tables, as a share of the machine's (50%) or a size (500M, 2G); at least 1M. The rest spills "
        "to disk. Not counted: the program itself, buffers of text, and very long words or lines, which take a few "
        "times their length.",
        metavar="SIZE",
        rich_help_panel=RUNTIME,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only errors and requested output: no notes, progress or summaries.",
        callback=_set_quiet,
        rich_help_panel=RUNTIME,
    ),
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Print a traceback on errors.", callback=_set_debug, rich_help_panel=RUNTIME),
]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.", rich_help_panel=OUTPUT)]

TrainingCorpus = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CORPUS",
        help="Text files, plain or compressed; - is standard input. By default, the corpus of the vocabulary.",
        show_default=False,
    ),
]
VocabularyFile = Annotated[
    str | None,
    typer.Option(
        help="Vocabulary file, written by `neglm vocab`.",
        show_default="vocab.safetensors if it exists; otherwise the words of CORPUS are counted",
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
InitVectors = Annotated[
    str | None,
    typer.Option(
        help="Initialize from the vectors of this file of vectors or language model, which must have the same size. "
        "Other words are initialized at random.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Keep an encoded copy of the text, 4 bytes per word, in NEGLM_CACHE (or neglm in the user's cache "
        "directory), for the next run.",
        show_default="cache",
        rich_help_panel=INPUT,
    ),
]
DeviceName = Annotated[
    str,
    typer.Option(
        "--device",
        help="Device: cpu, cuda (an NVIDIA GPU, with neglm[cuda] installed; cuda:1 is the second), or auto: cuda if a "
        "trial run works, otherwise cpu. Without a number, the GPU with most free memory; under mpirun each rank on a "
        "machine uses its own. cuda:0,1 or cuda:all: on these GPUs together, with neglm[mpi] installed (train-lm, eval "
        "and filter).",
        metavar="auto|cpu|cuda[:N,…|:all]",
        rich_help_panel=RUNTIME,
    ),
]
ModelFile = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="The language model, in place of the argument MODEL.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
VectorsFile = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        "--model",
        "-m",
        help="The file of vectors or language model, in place of the argument.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
QueriedVectors = Annotated[
    str,
    typer.Option(
        "--vectors",
        "--model",
        "-m",
        help="A file of vectors or a language model; - is standard input.",
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
Table = Annotated[
    Literal["input", "output"] | None,
    typer.Option(
        "--table",
        help="For a language model: use its input or output embeddings.",
        show_default="input",
        metavar="input|output",
        rich_help_panel=INPUT,
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE", help="Texts, plain or compressed; - is standard input.", show_default="standard input"
    ),
]
Unnormalized = Annotated[
    bool,
    typer.Option(
        "--unnormalized",
        help="Use logits as log-probabilities, without normalizing over the vocabulary: faster, and approximate.",
        rich_help_panel=MODEL,
    ),
]
Tokenize = Annotated[
    bool,
    typer.Option(
        "--tokenize",
        help="Split raw sentences first, as `neglm tokenize` splits a training text: punctuation apart from words (Who "
        "won? becomes Who won ?), letters apart from digits. Not for models of the Penn Treebank or WikiText, whose "
        "tokens are others.",
        rich_help_panel=INPUT,
    ),
]
SubwordsOfFile = Annotated[
    bool,
    typer.Option(
        "--subwords/--no-subwords",
        help="Compose the vectors of out-of-vocabulary words from subwords, if the file has them.",
        show_default="--subwords",
        rich_help_panel=INPUT,
    ),
]
Top = Annotated[int, typer.Option("--top", min=1, help="Show the N best.", metavar="N", rich_help_panel=OUTPUT)]


def noise_alpha_option(help_text: str, default: str) -> Any:
    """--noise-alpha, which has the same range in all commands."""
    return typer.Option(
        min=0,
        max=MOST_ALPHA,
        help=help_text,
        show_default=default,
        metavar="ALPHA",
        rich_help_panel=MODEL,
    )


def input_file(argument: str | None, option: str | None, default: str) -> str:
    """Return the model or vectors to read, from an argument or an option."""
    if argument is not None and option is not None:
        raise typer.BadParameter(f"there are two input files, {shown(argument)} and {shown(option)}: name one.")
    return next(path for path in (option, argument, default) if path is not None)


def find_gpu(device: str) -> "Gpu | None":
    """Return the GPU that --device names, None for the CPU."""
    return resources.find_gpu(device, console.note)


def one_blas_thread() -> None:
    """Limit BLAS to one thread, unless the user's environment says otherwise. Call it before NumPy is imported.

    BLAS threads spin while they wait: on a busy machine an SVD of 3 seconds took 30. Callers have their own threads.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(variable, "1")


def memory_size(text: str) -> int:
    """Parse a size with a unit, or a share of the machine's memory; returns bytes."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*(%|[KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
    if match and match[2] == "%":
        if not 0 < float(match[1]) <= 100:
            raise typer.BadParameter(f"--memory {text} is not more than 0% and at most 100%.")
        return max(LEAST_MEMORY, int(float(match[1]) / 100 * machine_memory()))
    if not match or (size := int(float(match[1]) * UNITS[match[2].upper()])) < LEAST_MEMORY:
        raise typer.BadParameter(
            f"--memory {text} is not a size of at least 1M, such as 500M or 2G, or a share such as 50%."
        )
    return size


def line_preparation(tokenized: bool) -> Callable[[bytes], bytes]:
    """Return the function that --tokenize applies to each line; without it, the line stays as it is."""
    from neglm_cli.text.tokenization import tokenize

    return tokenize if tokenized else bytes
