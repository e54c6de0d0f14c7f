"""Pairs of a text: all of them, and those of a sample of words."""

from pathlib import Path

import numpy as np
import pytest

import neglm_cli
from neglm_cli.sgns import cooccurrence
from neglm_cli.sgns.cooccurrence import count_pairs
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.pairs import Pairs
from neglm_cli.vectors.vectors import Vectors


@pytest.fixture
def vectors(workplace: Path) -> Vectors:
    random = np.random.default_rng(1)
    words = (f"w{int(30 * number**2)}" for number in random.random(3000))
    Path("text.txt").write_text(" ".join(words))
    neglm_cli.embed("text.txt", size=2, epochs=1, min_count=1, sample=0, output="vectors.safetensors")
    return Vectors.load("vectors.safetensors")


def counted(vectors: Vectors, every: int | None) -> tuple[Pairs, int]:
    return count_pairs(open_corpus(["text.txt"]), vectors, 2, lambda size: None, every)


def cells(pairs: Pairs) -> set[tuple[int, int, int]]:
    return set(zip(pairs.rows.tolist(), pairs.columns.tolist(), pairs.counts.tolist(), strict=True))


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_pairs_of_one_word_in_some(vectors: Vectors, every: int) -> None:
    """The counts of the words that remain are those of the whole text."""
    whole, (found, used) = cells(counted(vectors, 1)[0]), counted(vectors, every)
    assert used == every
    assert cells(found) == {cell for cell in whole if cell[0] % every == every // 2}
    assert cells(found)


def test_as_many_words_as_have_enough_pairs(vectors: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted(vectors, None)[1] == 1
    monkeypatch.setattr(cooccurrence, "SAMPLED_PAIRS", 6000)
    assert counted(vectors, None)[1] == 3  # of 3,000 words with 6 pairs each
