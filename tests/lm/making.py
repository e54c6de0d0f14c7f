"""Small models for tests, on a device and as the reference represents them."""

from dataclasses import replace

import numpy as np

from neglm_cli.lm import reference, reference_device
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import Minibatch, Tensors
from neglm_cli.lm.parameters import Parameters, Shape, initial_parameters
from neglm_cli.lm.reference_device import ReferenceDevice
from neglm_cli.lm.tensors import materialize
from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.train_lm import Settings

__all__ = ["materialize"]

SMALL = Settings(
    k=7, hidden=13, layers=2, embedding=10, dropout=0.3, init_range=0.5, init_output=0.5, batch=6, bptt=5, clip=1.0,
    lr=0.5, threads=2,
)  # fmt: skip
TINY = replace(SMALL, batch=3, bptt=3, hidden=5, embedding=4, k=3, threads=1)  # half a second per minibatch, simulated
END_OF_LINE = 3

SMALL_OPTIONS = (
    "--hidden", "9", "--k", "4", "--batch", "3", "--bptt", "6", "--epochs", "2", "--init-range", "0.5",
    "--no-cache", "--threads", "1", "--quiet",
)  # fmt: skip
OWN_TABLE = ("--init-output", "0.5")  # for models that are not tied


def parameters(settings: Settings, words: int, bias: float = 0.0) -> Parameters:
    made = initial_parameters(Shape.of(words, settings), replace(settings, bias_init=bias))
    if LOSSES[settings.loss].bias:
        made.tensors()["output_bias"][:] += np.linspace(-0.5, 0.5, words, dtype=np.float32)
    return made


def counts(words: int) -> np.ndarray:
    return (1000 / np.arange(1, words + 1)).astype(np.int64) + 1


def device(settings: Settings, words: int) -> CpuDevice:
    made = CpuDevice(parameters(settings, words), settings, counts(words), END_OF_LINE)
    made.prepare_training()
    return made


def model_of(tensors: Tensors, settings: Settings, prefix: str = "") -> reference.Model:
    """Convert the tensors of a device to a model of the reference."""
    arrays = materialize(tensors)
    return reference_device.model_of(arrays, Shape.of(len(arrays[f"{prefix}output"]), settings), prefix)


def minibatch(settings: Settings, words: int, number: int, steps: int | None = None, epoch: int = 2) -> Minibatch:
    """Draw random words, at the positions that `Batches` would assign."""
    random = np.random.default_rng(number)
    shape = (settings.batch, steps or settings.bptt)
    ids = random.integers(0, words, (2, *shape)).astype(np.int32)
    segment = 1000
    positions = np.arange(shape[1]) + number * settings.bptt + 1 + segment * np.arange(shape[0])[:, None]
    rate, decay = settings.lr, settings.lr * settings.weight_decay
    return Minibatch(ids[0], ids[1], positions.astype(np.uint64), epoch, number, number + 1, rate, decay)


class ReferenceTraining(ReferenceDevice):
    """Training by the reference, to compare a device with."""

    def __init__(self, settings: Settings, words: int) -> None:
        super().__init__(parameters(settings, words), settings, counts(words), END_OF_LINE)
        self.prepare_training()
