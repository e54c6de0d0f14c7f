"""Files of vectors: round trip, and validation."""

from pathlib import Path

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors


def made(contexts: bool = True) -> Vectors:
    random = np.random.default_rng(1)
    words = WordIndex.of([b"the", b"cat", "süß".encode(), b"\xff"], np.array([9, 4, 2, 2]))
    others = WordIndex.of([b"a b", b"c"], np.array([10, 7])) if contexts else NO_CONTEXTS
    return Vectors(
        words,
        random.standard_normal((4, 3)).astype(np.float32),
        others,
        random.standard_normal((len(others), 3)).astype(np.float32),
        objective="pmi",
        k=5,
        noise_alpha=0.75,
        arguments={"window": 5},
        files=[{"path": "corpus", "size": 3, "fingerprint": "0" * 32}],
        progress={"done": 3, "total": 4},
    )


@pytest.mark.parametrize("contexts", [True, False])
def test_round_trip(workplace: Path, contexts: bool) -> None:
    before = made(contexts)
    before.save("vectors.safetensors")
    after = Vectors.load("vectors.safetensors")
    assert list(after.words) == list(before.words)
    assert list(after.contexts) == list(before.contexts)
    for name in ("vectors", "context_vectors"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    for name in ("objective", "k", "noise_alpha", "arguments", "files", "progress"):
        assert getattr(after, name) == getattr(before, name)
    np.testing.assert_array_equal(after.words.counts, before.words.counts)
    np.testing.assert_array_equal(after.contexts.counts, before.contexts.counts)


def test_inconsistent_tensors(workplace: Path) -> None:
    whole = made()
    for changed in (
        {"vectors": whole.vectors[:3]},
        {"context_vectors": whole.context_vectors[:1]},
        {"context_vectors": whole.context_vectors[:, :2]},
        {"words": WordIndex(whole.words.words[:-1], whole.words.offsets, whole.words.counts)},
        {"contexts": WordIndex(whole.contexts.words, whole.contexts.offsets, np.array([10, 0]))},
    ):
        Vectors(**{**whole.__dict__, **changed}).save("bad.safetensors")
        with pytest.raises(NeglmError, match="bad.safetensors is damaged: (tensor|`offsets`|`context_counts`) "):
            Vectors.load("bad.safetensors")
