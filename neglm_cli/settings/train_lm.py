"""The settings of a training, without its data: the options of `neglm train-lm`, stored with the model."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from neglm_cli.settings.declare import RUNTIME, TRAINING, preset, setting
from neglm_cli.settings.losses import LOSSES, LOSSES_WITH_LOG_Z
from neglm_cli.settings.parameters import ANCHORED, OPTIMIZERS

AVERAGE_EVERY = 10  # minibatches between snapshots of parameters that are averaged
DROPOUT_UNITS = 1 << 16  # a dropout probability is rounded to a multiple of 1 / DROPOUT_UNITS
LARGEST_CONSTANT = 1000  # initial parameters, and constants added to scores
MOST_ALPHA = 10
RATES = {"sgd": 1.0, "adagrad": 0.1, "adam": 0.001}  # default learning rates


def dropout_threshold(probability: float) -> int:
    """Return a dropout probability times DROPOUT_UNITS, rounded."""
    return round(probability * DROPOUT_UNITS)


@dataclass(frozen=True)
class Settings:
    """The settings of `train-lm`. Defaults are the paper's PTB model; what the paper does not say is as in Chainer's
    PTB example, on which it builds."""

    loss: str = setting(
        "neglm",
        "; ".join(f"{name}: {loss.help}" for name, loss in LOSSES.items()) + ".",
        metavar="NAME", choices=tuple(LOSSES),
    )  # fmt: skip
    k: int = setting(
        100, "Noise words per word; 10 to 400 are useful.", least=1, most=100_000, names=("--k", "--negative"),
        note="the paper's",
    )  # fmt: skip
    noise_alpha: float = setting(
        1.0,
        "Draw noise words in proportion to count^ALPHA: 1 for unigram frequencies, 0 for uniform. neglm and neglm-b "
        "use it at test time, too.",
        metavar="ALPHA", least=0, most=MOST_ALPHA, note="unigram frequencies, as in the paper's text",
    )  # fmt: skip
    noise: str = setting(
        "token",
        "Which words share noise words: none (token), the rows of a time step, or all words of a minibatch. The more "
        "share them, the faster and the worse.",
        metavar="token|step|batch", choices=("token", "step", "batch"), note="the paper's",
    )  # fmt: skip
    log_z: float = setting(
        0.0,
        f"A constant that is subtracted from training scores ({', '.join(LOSSES_WITH_LOG_Z)}). It changes no "
        "probability, but decides where training starts: with log k neglm starts as the unigram model, and the first "
        "epochs learn more than with 0, the paper's.",
        metavar="X", least=-LARGEST_CONSTANT, most=LARGEST_CONSTANT, shown="log k; 0 for nce",
    )  # fmt: skip
    bias_init: float | None = setting(
        None, "Initial biases of words, for losses that have them.", metavar="X", least=-LARGEST_CONSTANT,
        most=LARGEST_CONSTANT, shown="-log V for nce, 0 for others, the paper's",
    )  # fmt: skip
    hidden: int = setting(
        300, "Units of each LSTM layer.", least=1, most=100_000, note="the paper's", presets={"large": 650, "1b": 512}
    )
    layers: int = setting(2, "LSTM layers.", least=1, most=64, note="the paper's", presets={"1b": 1})
    embedding: int = setting(
        300, "Dimensions of a word's vector.", least=1, most=100_000,
        shown="as many as hidden units, as in Chainer's PTB example",
    )  # fmt: skip
    tie: bool = setting(
        False,
        "Tie input and output vectors: one table of words, which needs --embedding equal to --hidden. It starts as the "
        "embedding does, by --init-range: output vectors of 0 would be input vectors of 0, from which no unit learns.",
        presets={"modern": True},
    )
    dropout: float = setting(
        0.5, "Dropout rate: after the embedding, between layers, before the output.", metavar="P", least=0, most=0.99,
        note="the paper's", presets={"modern": 0.4, "large": 0.5, "1b": 0.1},
    )  # fmt: skip
    dropout_kind: str = setting(
        "standard",
        "standard: draw a mask for every word. variational: draw one for each row of a minibatch, the same at all its "
        "time steps (Gal and Ghahramani 2016); it learns more slowly and overfits less.",
        metavar="standard|variational", choices=("standard", "variational"), note="the paper's",
        presets={"modern": "variational"},
    )  # fmt: skip
    embedding_dropout: float = setting(
        0.0, "Drop whole words: in a minibatch, zero the input vectors of this share of the vocabulary.", metavar="P",
        least=0, most=0.99, presets={"modern": 0.1},
    )  # fmt: skip
    recurrent_dropout: float = setting(
        0.0, "DropConnect: in each minibatch, zero this share of the recurrent weights.", metavar="P", least=0,
        most=0.99,
    )  # fmt: skip
    init_range: float = setting(
        0.1, "Initialize weights and word vectors uniformly in [-X, X].", metavar="X", least=0, most=LARGEST_CONSTANT,
        note="as in Chainer's PTB example", presets={"large": 0.05}, formerly=("init",),
    )  # fmt: skip
    init_output: float = setting(
        0.0, "Initialize the output table uniformly in [-X, X].", metavar="X", least=0, most=LARGEST_CONSTANT,
        note="as in Chainer's negative sampling",
    )  # fmt: skip
    epochs: int = setting(
        39, "Passes over the text.", panel=TRAINING, least=1, names=("--epochs", "--iter"), note="the paper's",
        presets={"modern": 54, "large": 42, "1b": 1}, resumable=True,
    )  # fmt: skip
    batch: int = setting(
        20, "Batch size: rows of a minibatch, each of which reads a segment of the text.", panel=TRAINING, least=1,
        most=10_000_000, note="the paper's", presets={"1b": 1000},
    )  # fmt: skip
    bptt: int = setting(
        20, "Time steps of a minibatch, over which gradients are backpropagated. The state is carried over.",
        panel=TRAINING, least=1, most=1_000_000, note="the paper's", presets={"modern": 35},
    )  # fmt: skip
    optimizer: str = setting(
        "sgd", "Optimizer.", panel=TRAINING, metavar="|".join(OPTIMIZERS), choices=tuple(OPTIMIZERS),
        note="the paper's", presets={"1b": "adam"},
    )  # fmt: skip
    adam: str = setting(
        "lazy",
        "Rows of the tables without a gradient: lazy skips them; exact applies Adam's zero-gradient updates on next "
        "access.",
        panel=TRAINING, metavar="lazy|exact", choices=("lazy", "exact"), note="as sparse Adam is elsewhere",
    )  # fmt: skip
    lr: float = setting(
        RATES["sgd"],
        "Initial learning rate. The loss is summed over the time steps of a minibatch and averaged over its rows.",
        panel=TRAINING, metavar="RATE", above=0,
        shown=f"{RATES['sgd']:g}, the paper's; 1b: {RATES['adam']:g}; with --optimizer "
        + ", ".join(f"{name} {rate:g}" for name, rate in RATES.items() if name != "sgd"),
    )  # fmt: skip
    schedule: str = setting(
        "step",
        "Learning-rate schedule. step: constant, then divided by --decay after each epoch, from --decay-from on. "
        "plateau: divided by --decay after each epoch that does not improve on the best one (needs --valid). cosine: "
        "falls from --lr to 0 over all epochs, along a half cosine.",
        panel=TRAINING, metavar="step|plateau|cosine", choices=("step", "plateau", "cosine"), note="the paper's",
        presets={"modern": "cosine"},
    )  # fmt: skip
    decay: float = setting(
        1.2, "Divide the learning rate by this: see --schedule.", panel=TRAINING, metavar="X",
        least=1, note="the paper's", presets={"1b": 1.0},
    )  # fmt: skip
    decay_from: int = setting(
        6, "The first epoch after which the learning rate decays, with --schedule step.", panel=TRAINING, least=1,
        note="the paper's",
    )  # fmt: skip
    clip: float = setting(
        5.0,
        "Clip the gradient to this norm, over all parameters. gradient_norm in LOG is the norm before clipping.",
        panel=TRAINING, metavar="NORM", above=0, note="the paper's",
    )  # fmt: skip
    weight_decay: float = setting(
        0.0,
        "Weight decay, apart from the gradient, as in AdamW: a step removes this share of a parameter, times the "
        "learning rate. Rows of tables decay when they have a gradient.",
        panel=TRAINING, metavar="X", least=0, most=1,
    )  # fmt: skip
    average: int = setting(
        0,
        "Average the parameters, as AWD-LSTM does, once an epoch is worse than the best one N epochs before it; "
        "without --valid, over the second half of the epochs. The average is validated and saved. 0: never.",
        panel=TRAINING, least=0, most=1_000_000,
    )  # fmt: skip
    reset_at_eos: bool = setting(
        False, "Start each line from a zero state, also at test time. (The paper never resets it.)", panel=TRAINING
    )
    patience: int = setting(
        0, "With --valid: stop after N epochs without improvement; 0 never stops.", panel=TRAINING, least=0,
        note="as in the paper", resumable=True,
    )  # fmt: skip
    seed: int = setting(
        1,
        "Seed of all random numbers. The same seed gives the same bytes, on the CPU with the same threads and on the "
        "same model of GPU.",
        panel=TRAINING, least=0, most=2**63 - 1,
    )  # fmt: skip
    precision: str = setting(
        "fp32",
        "Matrix products on a GPU: tf32 and bf16 round their inputs, for tensor cores; parameters and sums stay in "
        "fp32. They need cuBLAS (pip install 'neglm[cublas]') and compute capability 8.0.",
        panel=RUNTIME, metavar="fp32|tf32|bf16", choices=("fp32", "tf32", "bf16"), resumable=True,
    )  # fmt: skip
    threads: int = setting(
        1, "Threads; under mpirun, those of each rank.", panel=RUNTIME, least=1, most=1024, shown="all cores",
        resumable=True,
    )  # fmt: skip

    def stored(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sampled(self) -> bool:
        """True if the loss uses noise words."""
        return LOSSES[self.loss].sampled

    @property
    def shared_noise(self) -> bool:
        """True if rows of a minibatch share noise words."""
        return self.sampled and self.noise != "token"

    @property
    def group_rows(self) -> int:
        """Rows of a minibatch that share noise words."""
        return {"token": 1, "step": self.batch, "batch": self.batch * self.bptt}[self.noise]

    @property
    def dropout_threshold(self) -> int:
        """The dropout probability, times DROPOUT_UNITS."""
        return dropout_threshold(self.dropout)

    @property
    def embedding_dropout_threshold(self) -> int:
        return dropout_threshold(self.embedding_dropout)

    @property
    def recurrent_dropout_threshold(self) -> int:
        return dropout_threshold(self.recurrent_dropout)

    @property
    def variational(self) -> bool:
        """True if the time steps of a minibatch share a dropout mask."""
        return self.dropout_kind == "variational"

    @property
    def exact_adam(self) -> bool:
        """True if zero-gradient Adam steps are applied lazily instead of skipped."""
        return self.optimizer == "adam" and self.adam == "exact"

    @property
    def anchored(self) -> bool:
        """True for dynamic evaluation, where parameters decay to the trained ones."""
        return self.optimizer == ANCHORED

    @property
    def catches_up(self) -> bool:
        """True if rows of tables apply the updates that they skipped on next access."""
        return self.exact_adam or self.anchored

    def average_from(self, perplexities: Sequence[float], validated: bool) -> int | None:
        """Return the epoch, from 0 on, at whose start averaging begins; None if it is not known yet.

        perplexities: of the validation text after each epoch so far; validated: True if there is such a text.
        """
        if not self.average:
            return None
        if not validated:
            return self.epochs // 2
        for epoch in range(self.average, len(perplexities)):
            if perplexities[epoch] > min(perplexities[: epoch + 1 - self.average]):
                return epoch + 1
        return None

    def rate(self, epoch: int, done: float = 0.0, perplexities: Sequence[float] = ()) -> float:
        """Return the learning rate in an epoch, counted from 0.

        done: the share of the epoch that is trained; perplexities: of the validation text after each epoch before it.
        """
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * (epoch + done) / self.epochs)) / 2
        if self.schedule == "plateau":
            decays = sum(found >= min(perplexities[:number]) for number, found in enumerate(perplexities) if number)
        else:
            decays = max(0, epoch + 1 - self.decay_from)
        return float(self.lr * self.decay**-decays)


def _with_derived(values: dict[str, Any]) -> dict[str, Any]:
    """Add the embedding size and learning rate that follow from a preset's hidden units and optimizer."""
    hidden, optimizer = values.get("hidden", Settings.hidden), values.get("optimizer", Settings.optimizer)
    return values | {"embedding": hidden, "lr": RATES[optimizer]}


EXTENDED = {"large": "modern"}  # presets whose other values are those of another one

PRESETS: dict[str, dict[str, Any]] = {
    "ptb": {},
    **{
        name: _with_derived(preset(Settings, EXTENDED.get(name, name)) | preset(Settings, name))
        for name in ("modern", "large", "1b")
    },
}
