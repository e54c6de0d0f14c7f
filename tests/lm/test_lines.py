"""Independent lines get the reference's scores, in batches or one by one."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.lm import openings
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import State, StepOutput
from neglm_cli.lm.lines import BATCH_WORDS, LineEncoder, Lines, LineScorer
from neglm_cli.text.word_index import WordIndex
from tests.lm.making import END_OF_LINE, SMALL, ReferenceTraining, counts, parameters

WORDS = 40
SETTINGS = replace(SMALL, loss="nce")


@pytest.fixture(scope="module")
def device() -> Iterator[CpuDevice]:
    made = CpuDevice(parameters(SETTINGS, WORDS), SETTINGS, counts(WORDS), END_OF_LINE)
    yield made
    made.close()


def some_lines(lengths: list[int]) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.integers(0, WORDS, length).astype(np.int32) for length in lengths]


def expected(line: np.ndarray) -> np.ndarray:
    text = np.concatenate([[END_OF_LINE], line, [END_OF_LINE]]).astype(np.int32)[None]
    return np.asarray(
        ReferenceTraining(SETTINGS, WORDS).scorer(1).score(text[:, :-1], text[:, 1:]).log_probabilities[0]
    )


def test_each_line_matches_the_reference(device: CpuDevice) -> None:
    lines = some_lines([3, 0, 11, 3, 1, 7])
    for found, line in zip(LineScorer(device.scorer(BATCH_WORDS), END_OF_LINE).score(lines), lines, strict=True):
        np.testing.assert_allclose(found, expected(line), atol=1e-4)


def test_lines_longer_than_the_capacity(device: CpuDevice) -> None:
    lines = some_lines([30, 2, 9, 8, 7, 1])
    for found, line in zip(LineScorer(device.scorer(8), END_OF_LINE).score(lines), lines, strict=True):
        np.testing.assert_allclose(found, expected(line), atol=1e-4)


def test_scores_do_not_depend_on_the_other_lines(device: CpuDevice) -> None:
    lines = some_lines([3, 0, 11, 3, 1, 7, 40, 2, 2])
    scorer = LineScorer(device.scorer(BATCH_WORDS), END_OF_LINE)
    for found, line in zip(scorer.score(lines), lines, strict=True):
        np.testing.assert_allclose(found, scorer.score([line])[0], atol=1e-5)


def test_more_openings_than_are_kept(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openings, "MAX_OPENINGS", 3)
    lines = some_lines([2, 1, 4, 3, 3, 2, 5, 1])
    scorer = LineScorer(device.scorer(16), END_OF_LINE)
    for part in (lines[:2], lines[2:4], lines[:1], lines):
        for found, line in zip(scorer.score(part), part, strict=True):
            np.testing.assert_allclose(found, expected(line), atol=1e-4)


def test_no_lines(device: CpuDevice) -> None:
    scorer = LineScorer(device.scorer(BATCH_WORDS), END_OF_LINE)
    none = Lines.of([], END_OF_LINE)
    assert (scorer.score([]), scorer.score_lines(none).shape, scorer.score_text(none).shape) == ([], (0,), (0,))
    assert none.sums(np.empty(0)).shape == (0,)


def test_lines_are_encoded_with_their_ends() -> None:
    words = WordIndex.of([b"<eos>", b"<unk>", b"a", b"b"], np.array([4, 3, 2, 1]))
    lines = LineEncoder(words).encode([b"a  b c", b"", b"<eos> <unk>\tb"])
    assert lines.tokens.tolist() == [2, 3, 1, 0, 0, 0, 1, 3, 0]
    assert lines.oov.tolist() == [False, False, True] + [False] * 6
    assert (lines.ends.tolist(), lines.sizes.tolist()) == ([4, 5, 9], [4, 1, 4])
    assert lines.sums(lines.oov).tolist() == [1, 0, 0]
    assert lines.sums(np.arange(9.0)).tolist() == [6, 4, 26]


def test_previous_lines_do_not_matter(device: CpuDevice) -> None:
    scorer = LineScorer(device.scorer(BATCH_WORDS), END_OF_LINE)
    line, *others = some_lines([5, 9, 2])
    first = scorer.score([line])[0]
    scorer.score(others)
    np.testing.assert_array_equal(scorer.score([line])[0], first)


def test_a_text_continues_across_calls(device: CpuDevice) -> None:
    lines = some_lines([6, 0, 9])
    scorer = LineScorer(device.scorer(8), END_OF_LINE)
    found = [scorer.score_text(Lines.of(part, END_OF_LINE)) for part in (lines[:2], lines[2:])]
    text = np.concatenate([part for line in lines for part in ([END_OF_LINE], line)] + [[END_OF_LINE]])[None]
    scores = ReferenceTraining(SETTINGS, WORDS).scorer(1).score(text[:, :-1].astype(int), text[:, 1:].astype(int))
    np.testing.assert_allclose(np.concatenate(found), scores.log_probabilities[0], atol=1e-4)
    assert [len(part) for part in found] == [8, 10]


def test_unnormalized_scores_differ_by_log_z(device: CpuDevice) -> None:
    (line,) = some_lines([6])
    unnormalized = LineScorer(device.scorer(BATCH_WORDS), END_OF_LINE, normalized=False).score([line])[0]
    text = np.concatenate([[END_OF_LINE], line, [END_OF_LINE]]).astype(np.int32)[None]
    log_z = ReferenceTraining(SETTINGS, WORDS).scorer(1).score(text[:, :-1], text[:, 1:]).log_z
    np.testing.assert_allclose(unnormalized, expected(line) + log_z[0], atol=1e-4)


@pytest.mark.parametrize("capacity", [BATCH_WORDS, 2])
def test_a_list_is_the_sum_of_its_lines(device: CpuDevice, capacity: int) -> None:
    base = some_lines([6, 4])
    lines = [base[0], base[0], base[0][:3], np.concatenate([base[0][:3], base[1]]), base[1], base[1][:0]]
    found = LineScorer(device.scorer(capacity), END_OF_LINE).score_list(lines)
    np.testing.assert_allclose(found, [expected(line).sum() for line in lines], atol=3e-4)


def test_common_prefixes_are_read_once(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    base = some_lines([20])[0]
    lines = [np.append(base, word).astype(np.int32) for word in range(10)]
    scorer = device.scorer(BATCH_WORDS)
    read: list[int] = []
    step = scorer.step

    def counted(state: State | None, words: np.ndarray) -> StepOutput:
        read.append(len(words))
        return step(state, words)

    monkeypatch.setattr(scorer, "step", counted)
    LineScorer(scorer, END_OF_LINE).score_list(lines)
    assert sum(read) == 1 + 20 + 10
