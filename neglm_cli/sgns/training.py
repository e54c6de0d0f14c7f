"""The training kernels: windows in, moved rows out.

`train` moves rows in place; any number of threads may do so at once, without locks (Hogwild: Recht et al. 2011), so
what they make of each other's numbers is left to chance.

`train_in_step` gives the same bytes every time. Each thread owns some dimensions of all rows, which nobody else
touches. A score needs all dimensions, so for a small batch of windows every thread first writes down its part of the
scores; when all have done so, each adds the parts up, in the same order, and moves its own dimensions.

Noise words are where the time would go: their rows lie anywhere in memory. So the pairs of a window share theirs, and
a noise word serves USES windows. These are APART windows apart: far enough for other words to be around, and near
enough for the row to be still in the cache.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import inlined, kernel
from neglm_cli.objective.noise import draw_word
from neglm_cli.objective.random import draw
from neglm_cli.sgns.tiles import N, score_part, train_part, train_tile
from neglm_cli.simd import CACHE_LINE, LANES, prefetch_row


class Worker(NamedTuple):
    """What a thread needs to know of the others, to wait for them."""

    threads: int
    arrivals: np.ndarray


USES, APART = 7, 16
BATCH = 32  # windows that `train_in_step` scores before it moves rows
PLANS = 3  # batches that it has in hand: one that a slow thread trains on, one that is scored, one that is planned
SIX_BITS = 63


@inlined
def _tiles(k):
    """How many tiles a window has: they hold its target and at least k noise words."""
    return (k + N) // N


@inlined
def _aligned(length):
    """Room for numbers, from a cache line on."""
    room = np.empty(length + CACHE_LINE // 4, np.float32)
    start = -room.ctypes.data % CACHE_LINE // 4
    return room[start : start + length]


@kernel
def draw_noise(places, noise, key, k):
    """The noise words that are drawn for each window: int32 (windows + (USES-1) · APART, ·).

    Those of window w are in row w + (USES-1) · APART; it uses those of windows APART, 2 · APART ... before it, too,
    of which the first few are nobody's own.
    """
    words = _tiles(k) * N - 1
    rows = places.size + (USES - 1) * APART if places.size else 0
    drawn = np.empty((rows, (words + USES - 1) // USES), np.int32)
    for row in range(drawn.shape[0]):
        window = row - (USES - 1) * APART
        here = draw(key, np.uint64(places[max(window, 0)]))
        for i in range(drawn.shape[1]):
            number = i if window >= 0 else (row + 1) * drawn.shape[1] + i
            drawn[row, i] = np.int32(draw_word(noise, draw(here, np.uint64(number))))
    return drawn


@inlined
def _plan(
    place, window, starts, contexts, targets, drawn, k, offset_of, row_size, x_rows, y_rows, total, offsets
):  # fmt: skip
    """Lay out a window for training, in row `place` of a plan: where its rows start, each output once, and how often
    that counts. Its tiles are rows place · tiles and on; its target is the first output of the first.

    There are more noise words than k, because they fill the tiles. Each counts k / words times, so the objective is
    that of k noise words, with less chance in it.
    """
    for i in range(starts[window], starts[window + 1]):
        x_rows[place, i - starts[window]] = contexts[i] * row_size
    tiles, fresh = _tiles(k), drawn.shape[1]
    words = tiles * N - 1
    weight = np.float32(k / words)
    tile = place * tiles
    for t in range(tile, tile + tiles):
        for j in range(N):
            total[t, j] = 0
    y_rows[tile, 0] = targets[window] * row_size
    offsets[tile, 0] = offset_of[targets[window]]
    total[tile, 0] = 1
    count = 1
    seen = np.uint64(1) << np.uint64(targets[window] & SIX_BITS)  # most words differ in their last bits: no search
    row, i = window + (USES - 1) * APART, 0
    for _ in range(words):
        word = np.int64(drawn[row, i])
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
        offsets[tile, j] = offset_of[word]
        total[tile, j] += weight
        count = max(count, j + 1)
        i += 1
        if i == fresh:
            i = 0
            row -= APART
    while tile < (place + 1) * tiles:  # what is left repeats a row, and counts for nothing
        for j in range(count, N):
            y_rows[tile, j] = y_rows[tile, 0] if count else y_rows[place * tiles, 0]
        tile += 1
        count = 0


@inlined
def _prefetch(inputs, outputs, x_base, y_base, chunks, window, starts, contexts, targets, drawn, row_size):
    """Begin to fetch those rows of a window that the windows before may not have had."""
    prefetch_row(outputs, y_base + targets[window] * row_size, chunks)
    for i in range(drawn.shape[1]):
        prefetch_row(outputs, y_base + drawn[window + (USES - 1) * APART, i] * row_size, chunks)
    prefetch_row(inputs, x_base + contexts[starts[window + 1] - 1] * row_size, chunks)


@kernel
def train(inputs, outputs, row_size, starts, contexts, targets, drawn, k, offset_of, rate):
    """Train on all windows, in place; returns the loss in nats.

    inputs, outputs: float32, flat, rows of row_size numbers. starts, contexts, targets: see `source.Windows`.
    drawn: see `draw_noise`; k: noise words of a pair; offset_of: float32, added to the scores of each output.
    """
    windows = starts.size - 1
    losses = np.zeros(LANES)
    chunks, tiles = row_size // LANES, _tiles(k)
    most = np.diff(starts).max() if windows else 0
    x_rows = np.empty((1, most), np.int64)
    y_rows = np.empty((tiles, N), np.int64)
    positive, total, offsets = (
        np.zeros((tiles, N), np.float32),
        np.empty((tiles, N), np.float32),
        np.zeros((tiles, N), np.float32),
    )
    positive[0, 0] = 1
    gradients = _aligned((most + 1) * N)
    for window in range(windows):
        if window + 1 < windows:  # its rows are fetched while this one is computed
            _prefetch(inputs, outputs, 0, 0, chunks, window + 1, starts, contexts, targets, drawn, row_size)
        _plan(0, window, starts, contexts, targets, drawn, k, offset_of, row_size, x_rows, y_rows, total, offsets)
        size = starts[window + 1] - starts[window]
        for tile in range(tiles):
            train_tile(
                inputs, outputs, 0, 0, chunks, 0, x_rows, size, tile, y_rows, positive, total, offsets, rate, gradients,
                losses,
            )  # fmt: skip
    return losses.sum()


@kernel
def shared_by_threads(threads, k, most):
    """What the threads of `train_in_step` share, for windows of at most this many contexts: a place to meet, plans,
    and parts of scores."""
    tiles = _tiles(k)
    places = PLANS * BATCH
    positive = np.zeros((places * tiles, N), np.float32)
    positive[::tiles, 0] = 1
    return (
        np.zeros(1, np.int64),
        np.empty((places, most), np.int64),
        np.empty((places * tiles, N), np.int64),
        positive,
        np.empty((places * tiles, N), np.float32),
        np.zeros((places * tiles, N), np.float32),
        np.empty(2 * threads * BATCH * tiles * (most + 1) * N, np.float32),
    )


@kernel
def train_in_step(
    inputs, outputs, row_size, starts, contexts, targets, drawn, k, offset_of, rate, thread, threads,
    barrier, x_rows, y_rows, positive, total, offsets, scores,
):  # fmt: skip
    """Like `train`, called by all threads at once; the loss is the same for all of them.

    inputs, outputs: every thread has a table of its own dimensions, one table behind the other. (If they lay side by
    side in one row, the processor, which fetches ahead, would take them from each other all the time.)
    barrier to scores: see `shared_by_threads`.
    """
    windows = starts.size - 1
    losses = np.zeros(LANES)
    tiles = _tiles(k)
    x_base, y_base = inputs.size // threads * thread, outputs.size // threads * thread
    chunks = row_size // LANES
    most = x_rows.shape[1]
    gradients = _aligned((most + 1) * N)
    tile_scores = (most + 1) * N
    batch_scores = BATCH * tiles * tile_scores
    batches = (windows + BATCH - 1) // BATCH
    for batch in range(-1, batches):
        # Two halves in turn: when one thread writes the parts of a batch, another may still read those before.
        half = (batch & 1) * threads * batch_scores
        first, last = batch * BATCH, min((batch + 1) * BATCH, windows)
        for window in range(max(first, 0), last):
            place = window % (PLANS * BATCH)
            size = starts[window + 1] - starts[window]
            for tile in range(tiles):
                score_part(
                    inputs, outputs, x_base, y_base, chunks, place, x_rows, size, place * tiles + tile, y_rows, scores,
                    half + thread * batch_scores + ((window - first) * tiles + tile) * tile_scores,
                )  # fmt: skip
        for window in range(last, min(last + BATCH, windows)):  # the next batch: the threads share the planning
            _prefetch(inputs, outputs, x_base, y_base, chunks, window, starts, contexts, targets, drawn, row_size)
            if (window - last) * threads // BATCH == thread:  # neighbours: their plans share cache lines
                place = window % (PLANS * BATCH)
                _plan(
                    place, window, starts, contexts, targets, drawn, k, offset_of, row_size, x_rows, y_rows, total,
                    offsets,
                )  # fmt: skip
        barrier_wait(Worker(threads, barrier))
        for window in range(max(first, 0), last):
            place = window % (PLANS * BATCH)
            size = starts[window + 1] - starts[window]
            for tile in range(tiles):
                train_part(
                    inputs, outputs, x_base, y_base, chunks, place, x_rows, size, place * tiles + tile, y_rows,
                    positive, total, offsets, rate, gradients, losses, scores,
                    half + ((window - first) * tiles + tile) * tile_scores, batch_scores, threads,
                )  # fmt: skip
    return losses.sum()
