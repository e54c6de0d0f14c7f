"""Transfer of minibatches to the GPU, filled while it still computes earlier ones."""

import numpy as np

from neglm_cli.lm.cuda.arrays import BatchArrays
from neglm_cli.lm.cuda.functions import DROPOUT_KEYS
from neglm_cli.lm.cuda.gpu import Gpu, Signal
from neglm_cli.lm.optimizers import KINDS, step_rate

S32 = np.uint64(32)


def step_values(optimizer: str, step: int, rate: float, decay: float = 0.0) -> list[int]:
    """Return the values of a header from STEP to DECAY."""
    rates = np.array([rate, step_rate(KINDS[optimizer], rate, step), decay], np.float32)
    return [step, *rates.view(np.uint32).tolist()]


class StagingBuffer:
    """Page-locked memory for a minibatch and its result, and the minibatch's copy on the GPU.

    `fill` waits for `done` before it overwrites the buffer. Unless a caller sets `done`, that is all launched work.
    """

    def __init__(self, gpu: Gpu, rows: int, layers: int) -> None:
        size = DROPOUT_KEYS + 2 * layers + 1
        self._gpu = gpu
        self._host = gpu.pinned(size + rows, np.uint64)
        self._device = gpu.zeros(size + rows, np.uint64)
        self.batch = BatchArrays(words=self._device[size:], header=self._device[:size])
        self.result = gpu.pinned(2, np.float64)
        self.done: Signal = gpu

    def fill(self, inputs: np.ndarray, targets: np.ndarray, header: list[int], keys: np.ndarray) -> None:
        """Write a minibatch. inputs, targets: (B, T). header: see `functions`; keys: of dropout."""
        self.done.synchronize()
        self.done = self._gpu
        host, size = self._host, len(self.batch.header)
        host[:DROPOUT_KEYS] = header
        host[DROPOUT_KEYS : DROPOUT_KEYS + len(keys)] = keys
        words = inputs.T.astype(np.uint64) | (targets.T.astype(np.uint64) << S32)
        host[size : size + words.size] = words.reshape(-1)

    def send(self) -> None:
        """Queue the copy to the GPU."""
        self._gpu.copy_in(self._device, self._host)
