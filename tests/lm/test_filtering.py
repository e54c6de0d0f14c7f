"""Records are scored like lines, and chosen by value or percentile."""

import math
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.filtering import BAD, Judge, Keep, RecordScorer, added_values, contrasts, perplexities
from neglm_cli.lm.lines import BATCH_WORDS, LineEncoder, LineScorer
from neglm_cli.lm.reference_device import ReferenceDevice
from neglm_cli.text.word_index import WordIndex
from tests.lm.making import END_OF_LINE, SMALL, counts, parameters

WORDS = 12
NAMES = [b"<eos>" if id_ == END_OF_LINE else b"w%d" % id_ for id_ in range(WORDS)]
NAMES[3] = b"<unk>"


@pytest.fixture(params=[1.0, 3.0])
def judge(request: pytest.FixtureRequest) -> Judge:
    return make_judge(request.param)


def make_judge(factor: float = 1.0) -> Judge:
    made = parameters(SMALL, WORDS)
    made.tensors()["output"] *= np.float32(factor)
    device = ReferenceDevice(made, SMALL, counts(WORDS), END_OF_LINE)
    index = WordIndex.of(NAMES, np.arange(WORDS, 0, -1))
    return Judge(LineEncoder(index), LineScorer(device.scorer(BATCH_WORDS), END_OF_LINE))


def test_a_text_is_the_sum_of_its_lines(judge: Judge) -> None:
    texts = [b"w1 w5 nowhere", b"w2 w4\nw1\n\nw7", None, b"", b"w6 w6\n"]
    scores = RecordScorer(judge, None, lambda line: line).score(texts)
    assert scores["tokens"].tolist() == [3, 4, BAD, 0, 2]
    assert scores["lines"].tolist() == [1, 4, 1, 1, 1]
    assert scores["oov"].tolist() == [1, 0, 0, 0, 0]
    lines = judge.encoder.encode([b"w2 w4", b"w1", b"", b"w7"])
    log_p = judge.scorer.score_lines(lines).sum()
    assert scores["log_p"][1] == pytest.approx(log_p)
    assert perplexities(scores)[1] == pytest.approx(math.exp(-log_p / 8))
    assert added_values(scores, False)[0].keys() == {"perplexity", "tokens", "oov_share"}
    assert added_values(scores, False)[0]["oov_share"] == pytest.approx(1 / 3)


def test_contrast_is_the_difference_of_cross_entropies() -> None:
    one, other = make_judge(), make_judge(3.0)
    texts = [b"w1 w5", b"w2\nw4 w4"]
    scores = RecordScorer(one, other, lambda line: line).score(texts)
    alone, reverse = (RecordScorer(judge, None, bytes).score(texts) for judge in (one, other))
    expected = np.log2(perplexities(alone)) - np.log2(perplexities(reverse))
    np.testing.assert_allclose(contrasts(scores), expected)
    assert abs(expected).max() > 1e-3
    assert added_values(scores, True)[1]["contrast"] == pytest.approx(expected[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20%..80%", Keep(20, 80, True)), ("..50%", Keep(0, 50, True)), ("90%..", Keep(90, 100, True)),
        ("100..500", Keep(100, 500)), ("..3e2", Keep(high=300)), ("-.5..0.25", Keep(-0.5, 0.25)),
        ("0..", Keep(low=0)), ("..", None), ("20%..80", None), ("5..4", None), ("..101%", None), ("-1%..5%", None),
        ("nan..4", None), ("1-2", None), ("", None), ("1...5", None), ("0...5", Keep(0, 0.5)),
    ],
)  # fmt: skip
def test_ranges(text: str, expected: Keep | None) -> None:
    assert Keep.parse(text) == expected


def test_choice() -> None:
    values, good = np.array([5.0, 1, 4, 2, 3, 100]), np.array([True] * 5 + [False])
    chosen: dict[Any, list[float]] = {
        keep: values[keep.choose(values, good)].tolist()
        for keep in (Keep(20, 80, True), Keep(0, 50, True), Keep(2, 4), Keep(), Keep(50, 60))
    }
    assert list(chosen.values()) == [[4, 2, 3], [1, 2, 3], [4, 2, 3], [5, 1, 4, 2, 3], []]
    assert not Keep(0, 100, True).choose(values, np.zeros(6, bool)).any()
