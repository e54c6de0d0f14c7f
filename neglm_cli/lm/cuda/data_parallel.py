"""Data-parallel training on several GPUs, one for each rank: see `lm.cpu.data_parallel`.

Gradients are reduced when all of them are computed: in GPU memory if the MPI library can reach it, else in the host's.
"""

import numpy as np

from neglm_cli.lm.cuda.arrays import BatchArrays, SparseGradients, StepConfig, first_output, table_width
from neglm_cli.lm.cuda.gpu import Array, Gpu
from neglm_cli.lm.cuda.occurrences import ROWS
from neglm_cli.lm.cuda.tables import lookup
from neglm_cli.lm.device import Minibatch
from neglm_cli.lm.parameters import Shape
from neglm_cli.scale.ranks import Ranks
from neglm_cli.scale.rows import union_of_rows
from neglm_cli.settings.train_lm import Settings


class DataParallel:
    """The reduction of one rank's gradients with those of the others."""

    def __init__(self, ranks: Ranks, gpu: Gpu, most_rows: int, shape: Shape, settings: Settings) -> None:
        """most_rows: rows of the table that a minibatch touches on all ranks."""
        self._ranks, self._gpu, self._settings, self._first_output = ranks, gpu, settings, first_output(shape)
        self._token_noise = settings.sampled and not settings.shared_noise
        self._dense = not settings.sampled and shape.tied  # no rows: all gradients of the table are dense
        self._slots = BatchArrays(gpu.zeros(most_rows, np.uint64), gpu.zeros(1, np.uint64))
        self._reduced = SparseGradients(
            gpu.zeros(most_rows, np.int32), gpu.zeros(2, np.int32), gpu.zeros((most_rows, table_width(shape)))
        )

    def reduce(self, global_batch: Minibatch, local: SparseGradients, dense: list[Array]) -> SparseGradients:
        """Return the rows that any rank has touched, with the sums of their gradients. `dense` is summed in place.

        The last row of local.values is zero. Unless each row of the batch has noise words of its own, every rank knows
        the rows that the others have touched.
        """
        for array in dense:
            self._sum(array)
        if self._dense:
            return local
        gpu, width = self._gpu, local.values.shape[1]
        local_rows = gpu.download(local.rows)[: int(gpu.download(local.counts)[ROWS])]
        if self._token_noise:
            union = union_of_rows(self._ranks, local_rows)
        else:  # all ranks have the same noise words; with the softmax, targets are not among these rows
            text = [global_batch.inputs.reshape(-1)]
            if self._settings.sampled:
                text.append(global_batch.targets.reshape(-1) + self._first_output)
            union = np.unique(np.concatenate([local_rows, *text])).astype(np.int32)
        count = len(union)
        gpu.write(self._slots.words[:count], _slots(union, local_rows, len(local.values) - 1))
        gpu.write(self._reduced.rows[:count], union)
        gpu.write(self._reduced.counts, np.array([count, 0], np.int32))
        gpu.launch(
            lookup, count, table=local.values, batch=self._slots, config=StepConfig(1, count), x=self._reduced.values,
            width=width,
        )  # fmt: skip
        self._sum(self._reduced.values[:count].reshape(-1))
        return self._reduced

    def sum_of(self, value: float) -> float:
        """Return the sum over all ranks."""
        total = np.array([value])
        self._ranks.allreduce(total)
        return float(total[0])

    def _sum(self, array: Array) -> None:
        if self._ranks.cuda_aware:
            self._gpu.synchronize()
            self._ranks.allreduce_gpu(array)
        else:
            host = self._gpu.download(array)
            self._ranks.allreduce(host)
            self._gpu.write(array, host)


def _slots(union: np.ndarray, local: np.ndarray, missing: int) -> np.ndarray:
    """Return the index of each row of the union in `local`, which is in no order, or `missing`; uint64."""
    order = np.argsort(local)
    at = np.searchsorted(local, union, sorter=order)
    at = order[np.minimum(at, len(local) - 1)]
    return np.where(local[at] == union, at, missing).astype(np.uint64)
