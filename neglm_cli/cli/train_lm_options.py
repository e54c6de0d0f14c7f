"""The options of `neglm train-lm`."""

from typing import Annotated, Literal

import typer

from neglm_cli.cli.options import INPUT, MODEL, OUTPUT, RUNTIME

MinCount = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="If the words of CORPUS are counted: drop words that occur fewer than N times.",
        show_default="1",
        metavar="N",
        rich_help_panel=INPUT,
    ),
]
MaxVocab = Annotated[
    int | None,
    typer.Option(
        min=3,
        help="If the words of CORPUS are counted: keep only the N most frequent.",
        show_default="no limit; 64,000 with --preset 1b, as in the paper",
        metavar="N",
        rich_help_panel=INPUT,
    ),
]
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
    Literal["ptb", "1b"],
    typer.Option(
        help="Default settings: the paper's for the Penn Treebank, or for the 1-billion-word benchmark (1×512, dropout "
        "0.1, Adam at 0.001, batch 1000, one epoch).",
        metavar="ptb|1b",
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
