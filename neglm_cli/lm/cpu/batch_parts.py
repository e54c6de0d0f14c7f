"""The order of summation over the rows of a minibatch, which does not depend on the number of ranks.

A sum of float32 values depends on its order, and training at a high learning rate amplifies differences in the last
bit. So the rows of a batch are divided into PARTS. Each part is summed over all time steps of the minibatch, step by
step, and the parts are added in pairs: (0 + 1) + (2 + 3). One, two and four ranks, with four, two and one parts each,
get the same bits. (A softmax that is computed for a few rows at a time does not guarantee it.)

    parts   int64 (·,): the first row of each part of the batch, and the end
"""

import numpy as np

from neglm_cli.scale.ranks import split_evenly

PARTS = 4


def batch_parts(batch: int, rank: int, ranks: int) -> np.ndarray:
    """Return the parts of a rank, relative to its first row; a single part if PARTS is not divisible by the ranks."""
    if PARTS % ranks:
        first, last = split_evenly(batch, ranks)[rank : rank + 2]
        return np.array([0, last - first])
    each = PARTS // ranks
    starts = np.array(split_evenly(batch, PARTS)[rank * each : (rank + 1) * each + 1])
    return starts - starts[0]


def part_of_rows(parts: np.ndarray) -> np.ndarray:
    """Return the part of each row of a batch."""
    return np.repeat(np.arange(len(parts) - 1), np.diff(parts)).astype(np.uint8)
