"""Co-occurrence counts of a text: the pairs of the first epoch of training on it."""

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.settings.embed import Settings
from neglm_cli.sgns.source import Segment
from neglm_cli.sgns.textsource import TextSource, encoding
from neglm_cli.text.corpus import Corpus
from neglm_cli.text.encoded import open_encoded
from neglm_cli.text.pairs import Pairs, add_up
from neglm_cli.text.parallel import ordered_map
from neglm_cli.vectors.vectors import Vectors

MERGE_SIZE = 1 << 22  # pairs
SAMPLED_PAIRS = 10_000_000


def count_pairs(
    corpus: Corpus, vectors: Vectors, threads: int, progress: Callable[[int], None], every: int | None = 1
) -> tuple[Pairs, int]:
    """Count pairs of words in the windows that these vectors were trained on. Return them and `every`.

    If the vectors have no training settings, use word2vec's windows, without subsampling. every: count only the pairs
    of one word in `every`, by rank of frequency; None for as many as give about SAMPLED_PAIRS. The conditional
    probabilities p(y|x) of the words that remain are exact, and so is their PMI.
    """
    index, row_of = encoding(vectors.words)
    known = {field.name for field in fields(Settings)}
    trained = {name: value for name, value in vectors.arguments.items() if name in known}
    settings = Settings(**trained) if trained else Settings(sample=0)
    context_of = contexts_of_words(vectors)
    encoded = open_encoded(corpus, index, threads, None, lambda sentence: None)
    source = TextSource(encoded, row_of, vectors.words.counts, settings)
    if every is None:
        every = max(1, encoded.length * (settings.window + 1) // SAMPLED_PAIRS)
    size_and_step = (len(vectors.contexts), every)

    def count(segment: Segment) -> tuple[int, np.ndarray, np.ndarray]:
        windows = segment.windows()
        keys = np.empty(windows.contexts.size, np.int64)
        pair_keys(windows.starts, windows.contexts, windows.targets, context_of, size_and_step, keys)
        keys = keys[keys >= 0]
        return segment.end, *add_up(keys, np.ones(len(keys), np.int64))

    pending: list[tuple[np.ndarray, np.ndarray]] = []
    size = merged = position = 0
    for end, keys, counts in ordered_map(count, source.segments(0, 0), threads):
        pending.append((keys, counts))
        size += len(keys)
        if size > 2 * merged + MERGE_SIZE:
            pending = [_merge(pending)]
            size = merged = len(pending[0][0])
        if corpus.size:
            progress((end - position) * corpus.size // encoded.length)
        position = end
    keys, counts = _merge(pending)
    found = Pairs(
        vectors.words,
        vectors.contexts,
        keys // len(vectors.contexts),
        keys % len(vectors.contexts),
        counts,
        vectors.files,
    )
    return found, every


def _merge(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return add_up(np.concatenate([keys for keys, _ in parts]), np.concatenate([counts for _, counts in parts]))


def contexts_of_words(vectors: Vectors) -> np.ndarray:
    """Return the context id of every word, int64 (V,); -1 if it is not a context."""
    if vectors.words.identity == vectors.contexts.identity:
        return np.arange(len(vectors.words))
    return vectors.contexts.ids(vectors.words)


@kernel
def pair_keys(starts, contexts, targets, context_of, size_and_step, keys):
    """Set the key x · size + y of every pair of context x and target y; -1 if the target is not a context word, or x is
    not one word in `step`."""
    size, step = size_and_step
    for window in range(targets.size):
        y = context_of[targets[window]]
        for i in range(starts[window], starts[window + 1]):
            x = np.int64(contexts[i])
            keys[i] = x * size + y if y >= 0 and x % step == step // 2 else -1
