"""Minibatches as kernels get them."""

import numpy as np

from neglm_cli.objective.random import DROPOUT, draw, stream

SEED, EPOCH = 5, 2
FIRST_POSITION, STRIDE = 41, 1000
NOISE_KEY, NOISE_PLACE = np.uint64(77), np.uint64(9)


def positions(batch: int, steps: int) -> np.ndarray:
    """uint64 (B, T): places of targets in the corpus."""
    return (FIRST_POSITION + STRIDE * np.arange(batch)[:, None] + np.arange(steps)).astype(np.uint64)


def head(layers: int = 1) -> np.ndarray:
    """See `functions`."""
    keys = draw(np.array([stream(SEED, DROPOUT, EPOCH)]), np.arange(layers + 1, dtype=np.uint64))
    return np.array([FIRST_POSITION, STRIDE, NOISE_KEY, NOISE_PLACE, *keys], np.uint64)


def packed(inputs: np.ndarray, targets: np.ndarray, room: int = 0) -> np.ndarray:
    """Of (B, T) words; what lies behind them belongs to nobody."""
    words = inputs.T.astype(np.uint64) | (targets.T.astype(np.uint64) << np.uint64(32))
    return np.concatenate([words.reshape(-1), np.full(max(0, room - words.size), 2**63, np.uint64)])


def by_rows(array: np.ndarray) -> np.ndarray:
    """(B, T, ·) as rows (t·B + b, ·)."""
    return array.swapaxes(0, 1).reshape(-1, *array.shape[2:])
