"""The options of `neglm train-lm`."""

from typing import Annotated, Literal

import typer

from neglm_cli.cli.options import INPUT, MODEL, OUTPUT, RUNTIME

MinCount = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Where CORPUS is counted: words that occur fewer than N times become <unk>.",
        show_default="1",
        metavar="N",
        rich_help_panel=INPUT,
    ),
]
MaxSize = Annotated[
    int | None,
    typer.Option(
        min=3,
        help="Where CORPUS is counted: keep at most N words.",
        show_default="no limit; 64,000 with --preset 1b, as in the paper",
        metavar="N",
        rich_help_panel=INPUT,
    ),
]
Valid = Annotated[
    list[str] | None,
    typer.Option(
        help="Text to validate on after each epoch: the model of the epoch with the lowest perplexity is kept.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=INPUT,
    ),
]
Preset = Annotated[
    Literal["ptb", "1b"],
    typer.Option(
        help="Defaults of all options below: the paper's settings for the Penn Treebank, or for the 1-billion-word "
        "benchmark (1×512, dropout 0.1, Adam at 0.001, batch 1000, one epoch).",
        metavar="ptb|1b",
        rich_help_panel=MODEL,
    ),
]
InitEmbeddings = Annotated[
    str | None,
    typer.Option(
        help="Start the vectors of words as inputs from this file, of `neglm embed` or `train-lm`; words that it "
        "does not have start as others do.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=MODEL,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
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
        help="Write one JSON object per report: every ten seconds, and after each epoch. See LOG. Under mpirun "
        "the first process writes it, or each its own, if {rank} stands in the name.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what it would take, memory, disk and time, from a few minibatches that are tried; write nothing.",
        rich_help_panel=RUNTIME,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with the training of --model that was interrupted or killed. All its options are kept; only "
        "--epochs, --patience and --threads may change.",
        rich_help_panel=RUNTIME,
    ),
]
Checkpoint = Annotated[
    float,
    typer.Option(
        min=0,
        help="Write the state for --resume every N seconds and after each epoch; less often if writing takes long.",
        metavar="N",
        rich_help_panel=RUNTIME,
    ),
]
