"""The options of `neglm train-lm`."""

from typing import Annotated, Any, Literal

import typer

from neglm_cli.cli.options import INPUT, MODEL, OUTPUT, RUNTIME
from neglm_cli.runs.train_lm import WORDS_OF_1B
from neglm_cli.settings import vocab
from neglm_cli.settings.declare import declared


def _counted(name: str, preset: str = "") -> Any:
    """Return the option for a setting of `vocab`, which applies if the words of the corpus are counted."""
    setting = declared(vocab.Settings)[name]
    return typer.Option(
        min=setting.least,
        help=f"If the words of CORPUS are counted: {setting.help[0].lower()}{setting.help[1:]}",
        show_default=setting.default_text + preset,
        metavar=setting.metavar,
        rich_help_panel=setting.panel,
    )


MinCount = Annotated[int | None, _counted("min_count")]
MaxVocab = Annotated[int | None, _counted("max_vocab", f"; {WORDS_OF_1B:,} with --preset 1b, as in the paper")]
Valid = Annotated[
    list[str] | None,
    typer.Option(
        help="Validation text, scored after each epoch. Keeps the model from the best epoch.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
Preset = Annotated[
    Literal["ptb", "modern", "large", "1b"],
    typer.Option(
        help="Default settings. ptb: the paper's for the Penn Treebank. modern: a better model of the same size, "
        "for texts of about a million words (2×300; tied tables, variational dropout, a cosine schedule). "
        "large: modern, with 2×650 and more dropout. "
        "1b: the paper's for the 1-billion-word benchmark, for texts seen once (1×512, dropout 0.1, Adam at 0.001, "
        "batch 1000, one epoch).",
        metavar="ptb|modern|large|1b",
        rich_help_panel=MODEL,
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help="File to write; - is standard output.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
Log = Annotated[
    str | None,
    typer.Option(
        help="Write one JSON object per report: every ten seconds, and after each epoch. See LOG. Under mpirun rank 0 "
        "writes it, or each rank its own if the name contains {rank}.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Estimate memory, disk space and time from a few minibatches; write nothing.",
        rich_help_panel=RUNTIME,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Resume the interrupted run of --output. Its settings are kept; only --epochs, --patience and --threads "
        "may change.",
        rich_help_panel=RUNTIME,
    ),
]
Checkpoint = Annotated[
    float,
    typer.Option(
        min=0,
        help="Write a checkpoint for --resume every N seconds and after each epoch; less often if writing is slow.",
        metavar="N",
        rich_help_panel=RUNTIME,
    ),
]
