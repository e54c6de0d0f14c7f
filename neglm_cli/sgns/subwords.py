"""Subwords: the vector of a word is the mean of its own row and the rows of its n-grams.

    x_w = (u_w + Σ_g z_g) / (1 + n_w)         over the n_w n-grams g of w
    u_w += d,  z_g += d                       for an update x_w += d, as in fastText

Each row gets the whole update, not its share of it, so that x_w itself changes by d. In a table of floret, words
have no rows u_w of their own.

Reading and writing some twenty rows for every pair would take nearly all of the time. So vectors are composed once for
every distinct word of a batch of windows. The kernels of `training` then update them like the rows of any table, and in
the end the difference is added to all rows of the word. Words see their own updates at once, but those of words with
common n-grams only after the batch. If these were many, they would overshoot: see `batch_windows`.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import inlined, kernel
from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.source import Windows
from neglm_cli.sgns.tiles import Embeddings
from neglm_cli.sgns.training import NOISE_STRIDE, NOISE_USES, Noise, train, train_deterministic
from neglm_cli.simd import aligned
from neglm_cli.vectors.composition import compose, prefetch_rows
from neglm_cli.vectors.ngrams import NGrams

MOST_WINDOWS = 64  # of a batch; more do not make training faster
OVERSHOOT = 0.25  # of the distance to the optimum that a word covers by the updates of others in a batch


class Composed(NamedTuple):
    """Vectors of the distinct words of a batch. Buffers of a thread."""

    slot_of: np.ndarray  # int32 (V,): the slot of each word of the batch; -1 for others
    words: np.ndarray  # int32: the word in each slot
    vectors: np.ndarray  # float32, flat: x
    before: np.ndarray  # float32, flat: x before the batch
    contexts: np.ndarray  # int32: `Windows.contexts` as slots
    batch: int  # windows


def coupling(ngrams: NGrams, frequencies: np.ndarray, own_rows: bool = True) -> float:
    """Return the largest share of all updates that reach one word, ρ = Σ_g f_g / (1 + n_w), where f_g is the share of
    its n-gram g. frequencies: of the words' updates; own_rows: False if words have none."""
    ids, starts = ngrams
    if not len(ids):
        return 0.0
    shares = frequencies / frequencies.sum()
    counts = np.diff(starts)
    of_ngrams = np.bincount(ids, np.repeat(shares, counts))
    sums = np.diff(np.append(0, np.cumsum(of_ngrams[ids]))[starts])
    return float((sums / (own_rows + counts)).max())


def batch_windows(settings: Settings, coupling: float) -> int:
    """Return the windows of a batch.

    In a batch of P pairs, a word gets up to ρP updates from others. Each was computed without the others, on every
    thread, and covers about a fraction of the distance to the optimum that equals the learning rate (see `averaging`).
    """
    threads = 1 if settings.deterministic else settings.threads
    pairs = OVERSHOOT / max(settings.lr * coupling * threads, 1e-9)
    return int(np.clip(pairs / (settings.window + 1), 1, MOST_WINDOWS))


def allocate_composed(vocabulary: int, windows: Windows, row_size: int, batch: int) -> Composed:
    starts = windows.starts
    firsts = np.arange(0, len(starts) - 1, batch)
    pairs = int((starts[np.minimum(firsts + batch, len(starts) - 1)] - starts[firsts]).max(initial=0))
    slots = min(pairs, vocabulary)
    return Composed(
        np.full(vocabulary, -1, np.int32), np.empty(slots, np.int32), aligned(slots * row_size),
        aligned(slots * row_size), np.empty(windows.pairs, np.int32), batch,
    )  # fmt: skip


@inlined
def _assign_slots(composed, windows, first, last):
    """Assign slots to the contexts of windows first to last. Return the number of distinct words."""
    slot_of, words, contexts = composed.slot_of, composed.words, composed.contexts
    count = 0
    for i in range(windows.starts[first], windows.starts[last]):
        word = windows.contexts[i]
        slot = slot_of[word]
        if slot < 0:
            slot = slot_of[word] = count
            words[slot] = word
            count += 1
        contexts[i] = slot
    return count


@inlined
def _add_updates(inputs, composed, count):
    """Add the updates of composed vectors to all of their rows."""
    size = inputs.row_size
    vectors, before = composed.vectors, composed.before
    for slot in range(count):
        if slot + 1 < count:
            prefetch_rows(inputs, composed.words[slot + 1])
        word = np.int64(composed.words[slot])
        update = before[slot * size : (slot + 1) * size]
        x = vectors[slot * size : (slot + 1) * size]
        for d in range(size):
            update[d] = x[d] - update[d]
        if inputs.words.size:
            u = inputs.words[word * size : (word + 1) * size]
            for d in range(size):
                u[d] += update[d]
        for i in range(inputs.starts[word], inputs.starts[word + 1]):
            row = np.int64(inputs.ids[i])
            z = inputs.ngrams[row * size : (row + 1) * size]
            for d in range(size):
                z[d] += update[d]
        composed.slot_of[word] = -1


@inlined
def _begin_batch(inputs, composed, windows, noise, first, last):
    """Compose the vectors of a batch. Return its number of distinct words, its windows and its noise words."""
    count = _assign_slots(composed, windows, first, last)
    compose(inputs, composed.words[:count], composed.vectors)
    for i in range(count * inputs.row_size):
        composed.before[i] = composed.vectors[i]
    batch = Windows(
        windows.starts[first : last + 1], composed.contexts, windows.targets[first:last],
        windows.positions[first:last],
    )  # fmt: skip
    drawn = noise.words[first : last + (NOISE_USES - 1) * NOISE_STRIDE]
    return count, batch, Noise(drawn, noise.k, noise.offsets)


@kernel
def train_subwords(inputs, outputs, windows, noise, rate, composed, buffers):
    """Train like `training.train`. outputs: float32, flat. buffers: its tiles and scratch."""
    tiles, scratch = buffers
    loss = 0.0
    for first in range(0, windows.targets.size, composed.batch):
        last = min(first + composed.batch, windows.targets.size)
        count, batch, batch_noise = _begin_batch(inputs, composed, windows, noise, first, last)
        embeddings = Embeddings(composed.vectors, outputs, inputs.row_size)
        loss = train(embeddings, batch, batch_noise, rate, tiles, scratch)  # of all batches so far
        _add_updates(inputs, composed, count)
    return loss


@kernel
def train_subwords_deterministic(inputs, outputs, windows, noise, rate, composed, buffers):
    """Train like `training.train_deterministic`. outputs: float32, flat. buffers: its team, scratch and worker."""
    team, scratch, worker = buffers
    loss = 0.0
    for first in range(0, windows.targets.size, composed.batch):
        last = min(first + composed.batch, windows.targets.size)
        count, batch, batch_noise = _begin_batch(inputs, composed, windows, noise, first, last)
        embeddings = Embeddings(composed.vectors, outputs, inputs.row_size)
        loss = train_deterministic(embeddings, batch, batch_noise, rate, team, scratch, worker)
        barrier_wait(worker)  # the next batch overwrites tiles
        _add_updates(inputs, composed, count)
    return loss
