"""Minibatches in the layout of kernels."""

import numpy as np

from neglm_cli.lm import reference
from neglm_cli.lm.cuda.arrays import BatchArrays
from neglm_cli.lm.cuda.functions import DROPOUT_KEYS, STEP
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.objective.random import DROPOUT, draw, stream
from neglm_cli.settings.train_lm import dropout_threshold

SEED, EPOCH = 5, 2
FIRST_POSITION, STRIDE = 41, 1000
NOISE_KEY, NOISE_POSITION = np.uint64(77), np.uint64(9)


def positions(batch: int, steps: int) -> np.ndarray:
    """Return the positions of targets in the corpus, uint64 (B, T)."""
    return (FIRST_POSITION + STRIDE * np.arange(batch)[:, None] + np.arange(steps)).astype(np.uint64)


def unit_masks(widths: list[int], batch: int, steps: int, dropout: float) -> list[np.ndarray]:
    """Return the dropout masks of units: see `reference.unit_masks`."""
    return reference.unit_masks(widths, positions(batch, steps), _keys(len(widths)), dropout_threshold(dropout))


def _keys(count: int) -> np.ndarray:
    return draw(np.array([stream(SEED, DROPOUT, EPOCH)]), np.arange(count, dtype=np.uint64))


def header(layers: int = 1) -> np.ndarray:
    """See `functions`."""
    step = [0] * (DROPOUT_KEYS - STEP)
    return np.array([FIRST_POSITION, STRIDE, NOISE_KEY, NOISE_POSITION, 0, *step, *_keys(layers + 1)], np.uint64)


def packed(inputs: np.ndarray, targets: np.ndarray, capacity: int = 0) -> np.ndarray:
    """Return (B, T) words as in `BatchArrays`, followed by values that must not be read."""
    words = inputs.T.astype(np.uint64) | (targets.T.astype(np.uint64) << np.uint64(32))
    return np.concatenate([words.reshape(-1), np.full(max(0, capacity - words.size), 2**63, np.uint64)])


def batch_arrays(gpu: Gpu, inputs: np.ndarray, targets: np.ndarray, capacity: int = 0) -> BatchArrays:
    return BatchArrays(words=gpu.upload(packed(inputs, targets, capacity)), header=gpu.upload(header()))


def by_rows(array: np.ndarray) -> np.ndarray:
    """Reshape (B, T, ·) to rows (t·B + b, ·)."""
    return array.swapaxes(0, 1).reshape(-1, *array.shape[2:])
