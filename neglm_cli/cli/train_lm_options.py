"""The options of `neglm train-lm`."""

from typing import Annotated, Literal

import typer

from neglm_cli.cli.options import INPUT, MODEL, OUTPUT, RUNTIME, TRAINING, noise_alpha_option

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
Loss = Annotated[
    Literal["neglm", "neglm-b", "nce", "neg", "softmax"] | None,
    typer.Option(
        help="neglm: negative sampling, corrected at test time (the paper); neglm-b: with a learned bias; nce: "
        "noise-contrastive estimation; neg: negative sampling without the correction, to compare; softmax: over "
        "all words, to compare.",
        show_default="neglm",
        metavar="NAME",
        rich_help_panel=MODEL,
    ),
]
K = Annotated[
    int | None,
    typer.Option(
        "--k",
        "--negative",
        min=1,
        max=100_000,
        help="Noise words per word; 10 to 400 are useful.",
        show_default="100, the paper's",
        metavar="N",
        rich_help_panel=MODEL,
    ),
]
NoiseAlpha = Annotated[
    float | None,
    noise_alpha_option(
        "Draw noise words in proportion to count^ALPHA: 1 as frequent as they are, 0 all alike. neglm and neglm-b use "
        "it at test time, too.",
        "1, unigram frequencies, as in the paper's text",
    ),
]
Noise = Annotated[
    Literal["token", "step", "batch"] | None,
    typer.Option(
        help="Who shares noise words: none (token), the rows of a time step, or all words of a minibatch. Shared "
        "ones are faster, and worse the more share them.",
        show_default="token, the paper's",
        metavar="token|step|batch",
        rich_help_panel=MODEL,
    ),
]
LogZ = Annotated[
    float | None,
    typer.Option(
        help="A constant that is subtracted from training scores (neglm, neglm-b, nce). It changes no probability, "
        "but says where training starts: with log k neglm starts as the unigram model, and the first epochs learn "
        "more than with 0, the paper's.",
        show_default="log k; 0 for nce",
        metavar="X",
        rich_help_panel=MODEL,
    ),
]
BiasInit = Annotated[
    float | None,
    typer.Option(
        help="Where the biases of words start, for losses that have them.",
        show_default="-log V for nce, 0 for others, the paper's",
        metavar="X",
        rich_help_panel=MODEL,
    ),
]
Hidden = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=100_000,
        help="Units of each LSTM layer.",
        show_default="300, the paper's; 1b: 512",
        metavar="N",
        rich_help_panel=MODEL,
    ),
]
Layers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help="LSTM layers.",
        show_default="2, the paper's; 1b: 1",
        metavar="N",
        rich_help_panel=MODEL,
    ),
]
Embedding = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=100_000,
        help="Dimensions of a word's vector.",
        show_default="as many as hidden units, as in Chainer's PTB example",
        metavar="N",
        rich_help_panel=MODEL,
    ),
]
Dropout = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=0.99,
        help="Share of units that are dropped in training: after the embedding, between layers, before the output.",
        show_default="0.5, the paper's; 1b: 0.1",
        metavar="P",
        rich_help_panel=MODEL,
    ),
]
Init = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Weights and word vectors start evenly between -X and X.",
        show_default="0.1, as in Chainer's PTB example",
        metavar="X",
        rich_help_panel=MODEL,
    ),
]
InitOutput = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="The same for the output table.",
        show_default="0, as in Chainer's negative sampling",
        metavar="X",
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
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs",
        "--iter",
        min=1,
        help="How often to go through the text.",
        show_default="39, the paper's; 1b: 1",
        metavar="N",
        rich_help_panel=TRAINING,
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000_000,
        help="Rows of a minibatch, each of which walks a stretch of the text.",
        show_default="20, the paper's; 1b: 1000",
        metavar="N",
        rich_help_panel=TRAINING,
    ),
]
Bptt = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        help="Steps of a minibatch: how far gradients go back. The state is carried on.",
        show_default="20, the paper's",
        metavar="N",
        rich_help_panel=TRAINING,
    ),
]
Optimizer = Annotated[
    Literal["sgd", "adagrad", "adam"] | None,
    typer.Option(
        help="How parameters are moved.",
        show_default="sgd, the paper's; 1b: adam",
        metavar="sgd|adagrad|adam",
        rich_help_panel=TRAINING,
    ),
]
Adam = Annotated[
    Literal["lazy", "exact"] | None,
    typer.Option(
        help="Rows of the tables that a minibatch does not touch: lazy leaves them alone; exact moves them as Adam "
        "would, when they are needed again.",
        show_default="lazy, as sparse Adam is elsewhere",
        metavar="lazy|exact",
        rich_help_panel=TRAINING,
    ),
]
Lr = Annotated[
    float | None,
    typer.Option(
        help="Learning rate at the start. The gradient is that of the loss summed over the steps of a minibatch "
        "and averaged over its rows.",
        show_default="1, the paper's; 1b: 0.001; with --optimizer adam 0.001, with adagrad 0.1",
        metavar="RATE",
        rich_help_panel=TRAINING,
    ),
]
Decay = Annotated[
    float | None,
    typer.Option(
        min=1,
        help="Divide the learning rate by this after each epoch, from --decay-from on.",
        show_default="1.2, the paper's; 1b: 1",
        metavar="X",
        rich_help_panel=TRAINING,
    ),
]
DecayFrom = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="The first epoch after which the learning rate falls.",
        show_default="6, the paper's",
        metavar="N",
        rich_help_panel=TRAINING,
    ),
]
Clip = Annotated[
    float | None,
    typer.Option(
        help="Clip gradients whose norm, over all parameters, is larger. gradient_norm in LOG is the norm before "
        "clipping.",
        show_default="5, the paper's",
        metavar="NORM",
        rich_help_panel=TRAINING,
    ),
]
ResetAtEos = Annotated[
    bool,
    typer.Option(
        "--reset-at-eos",
        help="Begin each line with no state, also at test time. (The paper never resets it.)",
        rich_help_panel=TRAINING,
    ),
]
Patience = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="With --valid: stop when N epochs have brought nothing better; 0 never stops.",
        show_default="0, as in the paper",
        metavar="N",
        rich_help_panel=TRAINING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**63 - 1,
        help="Seed of all random numbers. On the CPU, the same seed and threads give the same bytes. A GPU adds in no "
        "fixed order: there, two runs differ by rounding, which training lets grow.",
        show_default="1",
        metavar="N",
        rich_help_panel=TRAINING,
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
