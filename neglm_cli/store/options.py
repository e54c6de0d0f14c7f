"""Validation rules for the options and the progress of commands that are stored in files.

Limits are those of the command line, or wider where an older version allowed more.
"""

from neglm_cli.store.rules import Choice, Flag, Integer, Items, Number, Object, OrNull, Rule

MAX_CONSTANT = 1000.0  # limit of initial parameters and of log Z
MOMENTS = {"sgd": 0, "adagrad": 1, "adam": 2}  # moments of gradients in each optimizer's state

LOSS = Choice(("neglm", "neglm-b", "nce", "neg", "softmax"))
K = Integer(0, 100_000)
ALPHA = Number(0, 10)
LOG_Z = Number(-MAX_CONSTANT, MAX_CONSTANT)
LAYERS = Integer(1, 64)
SIZE = Integer(1, 10_000_000)
SEED = Integer()
THREADS = Integer(1, 1024)
RATE = Number(0)

VOCAB = Object({"min_count": Integer(1), "max_size": OrNull(Integer(1))})

TRAIN_LM: dict[str, Rule] = {
    "loss": LOSS,
    "k": K,
    "noise_alpha": ALPHA,
    "noise": Choice(("token", "step", "batch")),
    "log_z": LOG_Z,
    "bias_init": OrNull(Number(-MAX_CONSTANT, MAX_CONSTANT)),
    "hidden": SIZE,
    "layers": LAYERS,
    "embedding": SIZE,
    "dropout": Number(0, 0.99),
    "init": Number(0, MAX_CONSTANT),
    "init_output": Number(0, MAX_CONSTANT),
    "epochs": Integer(1),
    "batch": Integer(1, 10_000_000),
    "bptt": Integer(1, 1_000_000),
    "optimizer": Choice(tuple(MOMENTS)),
    "adam": Choice(("lazy", "exact")),
    "lr": RATE,
    "decay": Number(1),
    "decay_from": Integer(1),
    "clip": RATE,
    "reset_at_eos": Flag(),
    "patience": Integer(),
    "seed": SEED,
    "threads": THREADS,
}
PROGRESS = Object(
    {
        "epoch": Integer(),
        "minibatch": Integer(),
        "step": Integer(),
        "words": Integer(),
        "loss": Number(),
        "loss_words": Integer(),
        "losses": Items(Number()),
        "validations": Items(Number(0)),
    },
    complete=False,
)

EMBED: dict[str, Rule] = {
    "size": SIZE,
    "window": Integer(1, 1000),
    "k": Integer(1, 1000),
    "sample": Number(0),
    "noise_alpha": ALPHA,
    "min_count": Integer(1),
    "epochs": Integer(1),
    "lr": RATE,
    "objective": Choice(("pmi", "cond")),
    "exact": Flag(),
    "seed": SEED,
    "threads": THREADS,
    "deterministic": Flag(),
    "pairs": Flag(),
}
DONE = Object({"done": Integer(), "total": Integer()})
