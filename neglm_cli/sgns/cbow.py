"""CBOW: the mean of a window's contexts predicts its target.

    h = Σ_i x_i / n              over the n contexts i of a window
    x_i += d                     for an update h += d, as in word2vec

That is how a word with subwords is trained, too: so a window takes the place of a word, its contexts those of n-grams,
and the kernels of `subwords` train both. Words of adjacent windows see each other's updates only after a batch.
"""

import numpy as np

from neglm_cli.sgns.source import Windows
from neglm_cli.vectors.composition import SubwordInputs

BATCH_WINDOWS = 8  # larger batches are hardly faster
DETERMINISTIC_WINDOWS = 32  # threads wait for each other in every batch
NO_ROWS = np.empty(0, np.float32)


def mean_windows(windows: Windows) -> Windows:
    """Return windows with one context each, which has the window's number."""
    count = len(windows.targets)
    numbers = np.arange(count + 1)
    return Windows(numbers, numbers[:count].astype(np.int32), windows.targets, windows.positions)


def mean_inputs(inputs: np.ndarray, windows: Windows, row_size: int) -> SubwordInputs:
    """Return the rows of each window's mean. inputs: float32, flat."""
    return SubwordInputs(NO_ROWS, inputs, windows.contexts, windows.starts, row_size)
