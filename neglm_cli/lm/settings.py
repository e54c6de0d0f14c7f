"""The settings of a training, besides its data: the options of `neglm train-lm`, stored with the model."""

from dataclasses import asdict, dataclass
from typing import Any

TOKEN, SHARED, SOFTMAX = range(3)  # noise words: of each token, shared by groups of rows, or none
DROPOUT_UNITS = 1 << 16


@dataclass(frozen=True)
class Settings:
    """The paper's PTB model; what the paper does not say is as in Chainer's PTB example, on which it builds."""

    loss: str = "neglm"
    k: int = 100
    noise_alpha: float = 1.0
    noise: str = "token"  # or "step", "batch": which rows share noise words
    log_z: float = 0.0
    bias_init: float | None = None  # None: the default of the loss
    hidden: int = 300
    layers: int = 2
    embedding: int = 300
    dropout: float = 0.5
    init: float = 0.1  # weights and word vectors start uniform in [-init, init]
    init_output: float = 0.0
    epochs: int = 39
    batch: int = 20
    bptt: int = 20
    optimizer: str = "sgd"  # or "adagrad", "adam"
    adam: str = "lazy"  # or "exact"
    lr: float = 1.0
    decay: float = 1.2
    decay_from: int = 6
    clip: float = 5.0
    reset_at_eos: bool = False
    patience: int = 0
    seed: int = 1
    threads: int = 1

    def stored(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def moments(self) -> int:
        """Values that the optimizer keeps for each parameter: none, exp_avg_sq, or exp_avg, too."""
        return {"sgd": 0, "adagrad": 1, "adam": 2}[self.optimizer]

    @property
    def mode(self) -> int:
        return SOFTMAX if self.loss == "softmax" else TOKEN if self.noise == "token" else SHARED

    @property
    def group_rows(self) -> int:
        """Rows of a minibatch that share noise words."""
        return {"token": 1, "step": self.batch, "batch": self.batch * self.bptt}[self.noise]

    @property
    def dropout_threshold(self) -> int:
        """Units of 65,536 that are dropped."""
        return round(self.dropout * DROPOUT_UNITS)

    @property
    def exact(self) -> bool:
        """Whether Adam's zero-gradient updates are applied lazily, on next access, rather than skipped."""
        return self.optimizer == "adam" and self.adam == "exact"

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, from 0 on: divided by `decay` after each epoch from number `decay_from` on."""
        return float(self.lr * self.decay ** -max(0, epoch + 1 - self.decay_from))


PRESETS: dict[str, dict[str, Any]] = {
    "ptb": {},
    "1b": {
        "hidden": 512, "layers": 1, "embedding": 512, "dropout": 0.1, "optimizer": "adam", "lr": 0.001,
        "decay": 1.0, "batch": 1000, "epochs": 1,
    },
}  # fmt: skip
