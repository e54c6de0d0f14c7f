"""In which order sums over the rows of a minibatch are taken: the same however many processes share its rows.

A sum of float32 depends on its order, and a training that moves fast makes much of the last bit. So the rows of a batch
are divided into PARTS, each part is summed over all steps of the minibatch, step by step, and the parts are added in
pairs: (0 + 1) + (2 + 3). Two processes have two parts each, and four have one: they add what they have in pairs, too,
and get the bits of one process. (A softmax over so many words that it takes a few rows at a time does without.)

    parts   int64 (·,): where each part of the batch begins, and the end
"""

import numpy as np

from neglm_cli.scale.ranks import split_evenly

PARTS = 4


def batch_parts(batch: int, rank: int, processes: int) -> np.ndarray:
    """Those of a process, counted from its first row. Where the parts cannot be divided, its rows are one part."""
    if PARTS % processes:
        first, last = split_evenly(batch, processes)[rank : rank + 2]
        return np.array([0, last - first])
    each = PARTS // processes
    starts = np.array(split_evenly(batch, PARTS)[rank * each : (rank + 1) * each + 1])
    return starts - starts[0]


def part_of_rows(parts: np.ndarray) -> np.ndarray:
    """Return the part of each row of a batch."""
    return np.repeat(np.arange(len(parts) - 1), np.diff(parts)).astype(np.uint8)
