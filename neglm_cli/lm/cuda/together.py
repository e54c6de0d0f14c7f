"""Training on several GPUs, each with a process of its own: see `lm.cpu.together`. Here gradients are added up when all
of them are made. They go straight to an MPI library that can reach the GPU's memory, else through that of the host."""

from typing import NamedTuple

import numpy as np

from neglm_cli.lm.cuda import rows
from neglm_cli.lm.cuda.gpu import Array, Gpu
from neglm_cli.lm.cuda.rows import FOUND
from neglm_cli.lm.device import Minibatch
from neglm_cli.scale.ranks import Ranks
from neglm_cli.scale.rows import union_of_rows
from neglm_cli.settings.train_lm import TOKEN


class Touched(NamedTuple):
    """Rows of the tables, how many there are, and their gradients: see `rows`."""

    rows: Array
    found: Array
    gradients: Array


class Together:
    def __init__(self, ranks: Ranks, gpu: Gpu, most: int, width: int, words: int) -> None:
        """most: rows of the tables that a minibatch touches, with those of the other processes; words: V."""
        self._ranks, self._gpu, self._words = ranks, gpu, words
        self._index = gpu.zeros(most, np.uint64)
        self._no_head = gpu.zeros(1, np.uint64)
        self._all = Touched(gpu.zeros(most, np.int32), gpu.zeros(2, np.int32), gpu.zeros((most, width)))

    def add_up(self, whole: Minibatch, mode: int, mine: Touched, others: list[Array]) -> Touched:
        """The rows that somebody has touched, with the sum of their gradients; the sums of `others` are made in place.

        The last row of mine.gradients is zero. Which rows others have touched follows from the text, unless each row of
        the batch has noise words of its own."""
        gpu = self._gpu
        own = gpu.download(mine.rows)[: int(gpu.download(mine.found)[FOUND])]
        if mode == TOKEN:
            union = union_of_rows(self._ranks, own)
        else:  # noise words are those of all, and among one's own; with softmax, targets are none of these rows
            text = [whole.inputs.reshape(-1)]
            if len(own) and own.max() >= self._words:
                text.append(whole.targets.reshape(-1) + self._words)
            union = np.unique(np.concatenate([own, *text])).astype(np.int32)
        count, width = len(union), mine.gradients.shape[1]
        gpu.write(self._index[:count], _places(union, own, len(mine.gradients) - 1))
        gpu.write(self._all.rows[:count], union)
        gpu.write(self._all.found, np.array([count, 0], np.int32))
        gpu.launch(rows.look_up, count, mine.gradients, self._index, self._no_head, self._all.gradients, 1, width, 0)
        for array in (self._all.gradients[:count].reshape(-1), *others):
            self._sum(array)
        return self._all

    def sum_of(self, number: float) -> float:
        total = np.array([number])
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


def _places(union: np.ndarray, own: np.ndarray, nowhere: int) -> np.ndarray:
    """Where each row of the union stands in `own`, which is in no order; uint64."""
    order = np.argsort(own)
    at = np.searchsorted(own, union, sorter=order)
    at = order[np.minimum(at, len(own) - 1)]
    return np.where(own[at] == union, at, nowhere).astype(np.uint64)
