"""The training kernels: windows in, updated embeddings out.

`train` updates rows in place. Any number of threads may call it concurrently, without locks (Hogwild: Recht et al.
2011), so the result depends on timing.

`train_deterministic` is reproducible bit for bit. Each thread owns some dimensions of all rows. A score needs all
dimensions, so every thread first computes partial scores of a small batch of windows; after a barrier, each sums the
partial scores, in the same order, and updates its own dimensions.

Noise words would take most of the time, because their rows are scattered in memory. So the pairs of a window share
noise words, and a noise word serves NOISE_USES windows, NOISE_STRIDE windows apart: far enough for different contexts,
and near enough for the row to be in the cache still.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import allocate_barrier, barrier_wait
from neglm_cli.kernels import inlined, kernel, register_jitable
from neglm_cli.objective.noise import draw_word
from neglm_cli.objective.random import draw
from neglm_cli.sgns.tiles import (
    N,
    PartialScores,
    Scratch,
    TileIndex,
    Tiles,
    score_tile_part,
    train_tile,
    train_tile_part,
)
from neglm_cli.simd import LANES, aligned, prefetch_row

NOISE_USES, NOISE_STRIDE = 7, 16
BATCH = 32  # windows scored by `train_deterministic` before it updates rows
SLOTS = 3 * BATCH  # a batch that a slow thread still trains on, one being scored, and one being laid out
SIX_BITS = 63


class Noise(NamedTuple):
    """The noise words of windows."""

    words: np.ndarray  # int32 (windows + (NOISE_USES-1) · NOISE_STRIDE, ·): see `draw_noise`
    k: int  # noise words per pair
    offsets: np.ndarray  # float32 (C,): added to the scores of each output


class Worker(NamedTuple):
    """One thread of a team."""

    thread: int
    threads: int
    barrier: np.ndarray  # of allocate_barrier


class TeamBuffers(NamedTuple):
    """Buffers shared by the threads of `train_deterministic`."""

    barrier: np.ndarray  # of allocate_barrier
    tiles: Tiles
    partial: PartialScores


@register_jitable
def tiles_per_window(k):
    """Return the number of tiles for a target and at least k noise words."""
    return (k + N) // N


def allocate_tiles(slots: int, k: int, contexts: int) -> Tiles:
    """Allocate tiles for windows of at most `contexts` contexts."""
    tiles = tiles_per_window(k)
    positive = np.zeros((slots * tiles, N), np.float32)
    positive[::tiles, 0] = 1  # the target is the first output of a window's first tile
    return Tiles(
        np.empty((slots, contexts), np.int64),
        np.empty((slots * tiles, N), np.int64),
        positive,
        np.empty((slots * tiles, N), np.float32),
        np.zeros((slots * tiles, N), np.float32),
    )


def allocate_scratch(contexts: int) -> Scratch:
    return Scratch(aligned((contexts + 1) * N), np.zeros(LANES))


def allocate_team(threads: int, k: int, contexts: int) -> TeamBuffers:
    """Allocate buffers for windows of at most `contexts` contexts."""
    stride = BATCH * tiles_per_window(k) * (contexts + 1) * N
    partial = PartialScores(np.empty(2 * threads * stride, np.float32), stride, threads)
    return TeamBuffers(allocate_barrier(threads), allocate_tiles(SLOTS, k, contexts), partial)


def draw_noise(positions: np.ndarray, table: np.ndarray, key: np.uint64, k: int) -> np.ndarray:
    """Draw noise words for each window: int32 (windows + (NOISE_USES-1) · NOISE_STRIDE, ·).

    Window w draws row w + (NOISE_USES-1) · NOISE_STRIDE, and also uses the rows NOISE_STRIDE, 2 · NOISE_STRIDE, ...
    before it; the first rows belong to no window.
    """
    words = tiles_per_window(k) * N - 1
    rows = positions.size + (NOISE_USES - 1) * NOISE_STRIDE if positions.size else 0
    drawn = np.empty((rows, (words + NOISE_USES - 1) // NOISE_USES), np.int32)
    fill_noise(positions, table, key, drawn)
    return drawn


@kernel
def fill_noise(positions, table, key, drawn):
    """Fill the array that `draw_noise` returns."""
    for row in range(drawn.shape[0]):
        window = row - (NOISE_USES - 1) * NOISE_STRIDE
        window_key = draw(key, np.uint64(positions[max(window, 0)]))
        for i in range(drawn.shape[1]):
            counter = i if window >= 0 else (row + 1) * drawn.shape[1] + i
            drawn[row, i] = np.int32(draw_word(table, draw(window_key, np.uint64(counter))))


@inlined
def _fill_tiles(tiles, slot, windows, window, noise, row_size):
    """Lay out a window in a slot: the offsets of its rows, with distinct outputs, and their weights. The target is the
    first output of the first tile.

    Noise words fill the tiles, so there are more than k. Each has the weight k / words: the expected objective is that
    of k noise words, with less variance.
    """
    starts = windows.starts
    x_rows, y_rows, _, total, offsets = tiles
    target = windows.targets[window]
    for i in range(starts[window], starts[window + 1]):
        x_rows[slot, i - starts[window]] = windows.contexts[i] * row_size
    window_tiles, columns = tiles_per_window(noise.k), noise.words.shape[1]
    words = window_tiles * N - 1
    weight = np.float32(noise.k / words)
    tile = slot * window_tiles
    for t in range(tile, tile + window_tiles):
        for j in range(N):
            total[t, j] = 0
    y_rows[tile, 0] = target * row_size
    offsets[tile, 0] = noise.offsets[target]
    total[tile, 0] = 1
    count = 1
    seen = np.uint64(1) << np.uint64(target & SIX_BITS)  # Bloom filter: most words need no search for duplicates
    row, i = window + (NOISE_USES - 1) * NOISE_STRIDE, 0
    for _ in range(words):
        word = np.int64(noise.words[row, i])
        start = word * row_size
        bit = np.uint64(1) << np.uint64(word & SIX_BITS)
        j = count
        if seen & bit:
            j = 0
            while j < count and y_rows[tile, j] != start:
                j += 1
        if j == N:
            tile += 1
            j = count = 0
            seen = np.uint64(0)
        seen |= bit
        y_rows[tile, j] = start
        offsets[tile, j] = noise.offsets[word]
        total[tile, j] += weight
        count = max(count, j + 1)
        i += 1
        if i == columns:
            i = 0
            row -= NOISE_STRIDE
    while tile < (slot + 1) * window_tiles:  # unused entries: repeat a row, with a total of 0
        for j in range(count, N):
            y_rows[tile, j] = y_rows[tile, 0] if count else y_rows[slot * window_tiles, 0]
        tile += 1
        count = 0


@inlined
def _prefetch(embeddings, windows, window, noise):
    """Prefetch the rows of a window that previous windows may not have used."""
    inputs, outputs, row_size = embeddings
    chunks = row_size // LANES
    prefetch_row(outputs, windows.targets[window] * row_size, chunks)
    for i in range(noise.words.shape[1]):
        prefetch_row(outputs, noise.words[window + (NOISE_USES - 1) * NOISE_STRIDE, i] * row_size, chunks)
    prefetch_row(inputs, windows.contexts[windows.starts[window + 1] - 1] * row_size, chunks)


@inlined
def _sum(values):
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


@kernel
def train(embeddings, windows, noise, rate, tiles, scratch):
    """Train on all windows, in place. Return the loss in nats.

    rate: float32. tiles, scratch: buffers from `allocate_tiles` with one slot, and `allocate_scratch`.
    """
    count = windows.targets.size
    window_tiles = tiles_per_window(noise.k)
    for window in range(count):
        if window + 1 < count:  # load the next rows while computing these
            _prefetch(embeddings, windows, window + 1, noise)
        _fill_tiles(tiles, 0, windows, window, noise, embeddings.row_size)
        contexts = windows.starts[window + 1] - windows.starts[window]
        for tile in range(window_tiles):
            train_tile(TileIndex(0, tile, contexts), embeddings, tiles, rate, scratch)
    return _sum(scratch.losses)


@kernel
def train_deterministic(embeddings, windows, noise, rate, team, scratch, worker):
    """Train like `train`, on all threads at once, each with its own dimensions of the embeddings. Return the total
    loss, on every thread. team: shared buffers, from `allocate_team`.
    """
    tiles, partial = team.tiles, team.partial
    row_size = embeddings.row_size
    count = windows.targets.size
    window_tiles = tiles_per_window(noise.k)
    tile_scores = scratch.gradients.size
    batches = (count + BATCH - 1) // BATCH
    for batch in range(-1, batches):
        # Double buffering: while one thread writes the scores of a batch, another may still read the previous ones.
        half = (batch & 1) * worker.threads * partial.stride
        first, last = batch * BATCH, min((batch + 1) * BATCH, count)
        for window in range(max(first, 0), last):
            slot = window % SLOTS
            contexts = windows.starts[window + 1] - windows.starts[window]
            for tile in range(window_tiles):
                start = half + worker.thread * partial.stride
                start += ((window - first) * window_tiles + tile) * tile_scores
                index = TileIndex(slot, slot * window_tiles + tile, contexts)
                score_tile_part(index, embeddings, tiles, partial, start)
        for window in range(last, min(last + BATCH, count)):  # the threads divide the layout of the next batch
            _prefetch(embeddings, windows, window, noise)
            if (window - last) * worker.threads // BATCH == worker.thread:  # adjacent windows share cache lines
                _fill_tiles(tiles, window % SLOTS, windows, window, noise, row_size)
        barrier_wait(worker)
        for window in range(max(first, 0), last):
            slot = window % SLOTS
            contexts = windows.starts[window + 1] - windows.starts[window]
            for tile in range(window_tiles):
                start = half + ((window - first) * window_tiles + tile) * tile_scores
                index = TileIndex(slot, slot * window_tiles + tile, contexts)
                train_tile_part(index, embeddings, tiles, rate, scratch, partial, start)
    return _sum(scratch.losses)
