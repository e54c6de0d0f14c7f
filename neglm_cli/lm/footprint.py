"""The memory of a training before any is allocated: its arrays are made without memory, and their sizes summed."""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.lm.parameters import Shape, padded, zero_parameters
from neglm_cli.lm.setup import DeviceSetup
from neglm_cli.settings.train_lm import Settings

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu


def footprint(shape: Shape, settings: Settings, counts: np.ndarray, gpu: "Gpu | None" = None) -> dict[str, int]:
    """Return the bytes on the CPU or on a GPU, by purpose.

    Buffers for rows that a minibatch touches count in full, though most minibatches touch fewer.
    """
    if gpu is None:
        return _on_cpu(shape, settings, counts)
    from neglm_cli.lm.cuda.footprint import footprint as footprint_on_gpu

    return footprint_on_gpu(zero_parameters(shape), settings, counts)


def _on_cpu(shape: Shape, settings: Settings, counts: np.ndarray) -> dict[str, int]:
    from neglm_cli.lm.cpu import arrays
    from neglm_cli.lm.cpu.threads import Team
    from neglm_cli.lm.cpu.training import Training

    with arrays.only_counted():
        owned = arrays.partition(shape, settings.threads)
        tables = {table: arrays.zeros(shape.words, padded(shape.width(table))) for table in shape.tables}
        weights = arrays.empty_weights(shape, tables)
        return Training(DeviceSetup(shape, settings, counts), weights, Team([]), owned).memory()
