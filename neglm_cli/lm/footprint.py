"""The memory that a training takes, before it is taken.

The arrays are made as for the training itself, and counted. They are zeros that nobody touches, for which the system
reserves addresses but no memory.
"""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.lm.parameters import Shape, start
from neglm_cli.lm.settings import Settings

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu


def footprint(shape: Shape, settings: Settings, counts: np.ndarray, gpu: "Gpu | None" = None) -> dict[str, int]:
    """Bytes on the CPU or on a GPU, by purpose. Rows of tables that a minibatch may touch count in full, though most of
    them are never used."""
    empty = start(shape, settings.seed, 0.0, 0.0, 0.0)
    if gpu is not None:
        from neglm_cli.lm.cuda.footprint import footprint as footprint_on_gpu

        return footprint_on_gpu(empty, settings, counts)
    from neglm_cli.lm.cpu.device import CpuDevice

    device = CpuDevice(empty, settings, counts, 0)
    device.prepare_training()
    device.close()
    return device.memory()
