"""The GPU memory of a training before any is allocated: the same code on a GPU that only counts."""

from typing import Any, cast

import numpy as np

from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gpu import SHARED_BYTES, Array, Gpu, Kernel
from neglm_cli.lm.parameters import Parameters
from neglm_cli.settings.train_lm import Settings


class CountingGpu:
    """A stand-in for `Gpu` that counts the bytes of arrays. They are never touched, so the host needs no memory."""

    multiprocessors = 1
    shared_bytes = SHARED_BYTES

    def __init__(self) -> None:
        self.bytes = 0

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Array:
        array = np.empty(shape, dtype)
        self.bytes += array.nbytes
        return array

    def upload(self, host: np.ndarray) -> Array:
        return self.zeros(host.shape, host.dtype)

    def write(self, array: Array, host: np.ndarray) -> None:
        pass

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        return np.empty(size, dtype)

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        return 1


def footprint(parameters: Parameters, settings: Settings, counts: np.ndarray) -> dict[str, int]:
    """Return the bytes by purpose; `minibatch` has all buffers that the other purposes do not count."""
    gpu = CountingGpu()
    device = CudaDevice(parameters, settings, counts, 0, cast(Gpu, gpu))
    device.prepare_training()
    memory = device.memory()
    return memory | {"minibatch": gpu.bytes - sum(memory.values())}
