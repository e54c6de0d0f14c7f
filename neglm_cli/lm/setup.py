"""The inputs of a device that are the same for all backends."""

from dataclasses import replace

import numpy as np

from neglm_cli.lm.parameters import Shape
from neglm_cli.objective import losses, noise
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks, split_evenly
from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.train_lm import Settings

LOG_Z_ROWS = 64  # rows of the batch for which training estimates log Z
MAX_SCORES = 1 << 24  # scores of the vocabulary in memory, unless a single row has more


class DeviceSetup:
    """The noise distribution, the offsets of scores, and this rank's rows of the batch."""

    def __init__(self, shape: Shape, settings: Settings, counts: np.ndarray, ranks: Ranks = SINGLE_RANK) -> None:
        """counts: of all words, (V,)."""
        starts = split_evenly(settings.batch, ranks.size)
        self.shape, self.settings, self.ranks = shape, settings, ranks
        self.rows = slice(starts[ranks.rank], starts[ranks.rank + 1])
        self.batch = self.rows.stop - self.rows.start
        self.bias = np.float32(LOSSES[settings.loss].bias)  # the factor of biases
        self.noise = noise.probabilities(counts, settings.noise_alpha)  # of words: float64 (V,)

    @property
    def local_settings(self) -> Settings:
        """The settings with this rank's batch size."""
        return replace(self.settings, batch=self.batch)

    def alias_table(self) -> np.ndarray:
        """Return the table that noise words are drawn from: uint64 (V,)."""
        return noise.alias_table(self.noise)

    def train_offsets(self) -> np.ndarray:
        """Return the offsets of training scores: float32 (V,)."""
        settings = self.settings
        return losses.train_offsets(settings.loss, self.noise, settings.k, settings.log_z).astype(np.float32)

    def logit_offsets(self) -> np.ndarray:
        """Return the offsets of logits: float32 (V,)."""
        settings = self.settings
        return losses.logit_offsets(settings.loss, self.noise, settings.k, settings.log_z).astype(np.float32)
