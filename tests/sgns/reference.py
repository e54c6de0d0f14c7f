"""Reference implementation in NumPy and float64, to test the kernels against."""

from collections.abc import Iterator

import numpy as np

from neglm_cli.objective.random import WINDOW, draw, stream
from neglm_cli.sgns.source import Windows
from neglm_cli.sgns.tiles import N
from neglm_cli.sgns.training import NOISE_STRIDE, NOISE_USES
from neglm_cli.sgns.windows import BREAK


def sigmoid(s: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-s))


def loss_of(s: np.ndarray, positive: np.ndarray, total: np.ndarray) -> float:
    """−Σ positive log σ(s) + (total − positive) log σ(−s)."""
    return float((positive * np.logaddexp(0, -s) + (total - positive) * np.logaddexp(0, s)).sum())


def train_tile(
    x: np.ndarray,
    y: np.ndarray,
    contexts: list[int],
    outputs: list[int],
    positive: np.ndarray,
    total: np.ndarray,
    offsets: np.ndarray,
    rate: float,
) -> float:
    """Train the rows of a tile in place, two contexts at a time. Return its loss."""
    s = x[contexts] @ y[outputs].T + offsets
    gradients = rate * (positive - total * sigmoid(s))
    y_before = y[outputs]
    for first in range(0, len(contexts), 2):
        rows, g = contexts[first : first + 2], gradients[first : first + 2]
        x_before = x[rows]
        x[rows] = x_before + g @ y_before
        y[outputs] += g.T @ x_before
    return loss_of(s, positive, total)


def find_windows(
    words: list[int], positions: list[int], begin: int, end: int, window: int, seed: int
) -> Iterator[tuple[int, list[int], int]]:
    """Yield target, contexts and position of each window."""
    key = stream(seed, WINDOW)
    for center in range(begin, end):
        if words[center] == BREAK:
            continue
        bits = int(draw(np.array([key]), np.array([positions[center]], np.uint64))[0])
        reach = 1 + ((bits >> 32) * window >> 32)
        contexts: list[int] = []
        for step in (-1, 1):
            i = center + step
            side = []
            while 0 <= i < len(words) and abs(i - center) <= reach and words[i] != BREAK:
                side.append(words[i])
                i += step
            contexts += side[::-1] if step < 0 else side
        if contexts:
            yield words[center], contexts, positions[center]


def train(
    x: np.ndarray, y: np.ndarray, windows: Windows, drawn: np.ndarray, k: int, offsets: np.ndarray, rate: float
) -> float:
    """Train in place on all windows, in order. Return the loss."""
    loss = 0.0
    tiles = -(-(k + 1) // N)
    weight = k / (tiles * N - 1)
    for window, target in enumerate(windows.targets.tolist()):
        contexts = windows.contexts[windows.starts[window] : windows.starts[window + 1]].tolist()
        rows = [drawn[window + (NOISE_USES - 1 - use) * NOISE_STRIDE] for use in range(NOISE_USES)]
        noise = np.concatenate(rows)[: tiles * N - 1].tolist()
        # Outputs in the order of their first occurrence, N to a tile.
        plan: list[dict[int, list[float]]] = [{target: [1.0, 1.0]}]
        for word in noise:
            if word not in plan[-1] and len(plan[-1]) == N:
                plan.append({})
            plan[-1].setdefault(word, [0.0, 0.0])[1] += weight
        for tile in plan:
            outputs = list(tile)
            positive, total = np.array(list(tile.values())).T
            loss += train_tile(x, y, contexts, outputs, positive, total, offsets[outputs], rate)
    return loss
