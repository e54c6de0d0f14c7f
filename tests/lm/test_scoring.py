"""Scoring a text: sums, line ends, and chunks of any length."""

from typing import cast

import numpy as np
import pytest

from neglm_cli.lm.device import Scorer, Scores
from neglm_cli.lm.scoring import CHUNK, Line, Reader

COUNTS = np.array([5, 3, 1, 1])
UNKNOWN, END = 2, 1


class Fixed:
    """A model that gives each word the log-probability −1 − word − (previous word)/10, with log Z = 0.5."""

    capacity = CHUNK

    def __init__(self) -> None:
        self.read: list[int] = []

    def advance(self, inputs: np.ndarray) -> None:
        self.score(inputs, inputs)

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        assert inputs.shape[1] <= CHUNK
        self.read += targets[0].tolist()
        values = -1.0 - targets - inputs / 10
        return Scores(values, np.full(targets.shape, 0.5))


def test_sums() -> None:
    model = Fixed()
    lines: list[Line] = []
    reader = Reader(cast(Scorer, model), COUNTS, UNKNOWN, END)
    for chunk in ([0, 4], [1], [3, 1]):  # 4: out of vocabulary
        reader.read(np.array(chunk), lines.append)
    assert model.read == [0, 2, 1, 3, 1]
    values = [-1 - 0 - 0.1, -1 - 2 - 0.0, -1 - 1 - 0.2, -1 - 3 - 0.1, -1 - 1 - 0.3]
    tally = reader.tally
    assert (tally.words, tally.lines, tally.oov) == (3, 2, 1)
    assert tally.perplexity == pytest.approx(np.exp(-np.mean(values)))
    assert tally.perplexity_without_oov == pytest.approx(np.exp(-(sum(values) - values[1]) / 4))
    assert tally.unnormalized_perplexity == pytest.approx(np.exp(-np.mean(values) - 0.5))
    assert (tally.log_z_mean, tally.log_z_std) == pytest.approx((0.5, 0))
    assert tally.unigram_perplexity == pytest.approx(np.exp(-np.log(np.array([5, 1, 3, 1, 3]) / 10).mean()))
    assert [(line.words, line.oov) for line in lines] == [(2, 1), (1, 0)]
    assert [line.log_probability for line in lines] == pytest.approx([sum(values[:3]), sum(values[3:])])


def test_chunks_make_no_difference() -> None:
    ids = np.random.default_rng(0).integers(0, 4, 1000)
    whole, parts = (Reader(cast(Scorer, Fixed()), COUNTS, UNKNOWN, END) for _ in range(2))
    whole.read(ids)
    for first in range(0, 1000, 7):
        parts.read(ids[first : first + 7])
    assert whole.tally.log_probability == pytest.approx(parts.tally.log_probability)
    assert whole.tally.lines == parts.tally.lines
