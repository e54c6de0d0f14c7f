"""Every backend's scorer agrees with the reference, which scores each text alone."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cpu import inference
from neglm_cli.lm.cpu import scorer as cpu_scorer
from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.cpu.gemm import PANEL
from neglm_cli.lm.device import Device, Scores, State
from neglm_cli.lm.generation import Generator, SamplingParams, next_words
from neglm_cli.lm.lines import LineScorer
from neglm_cli.lm.parameters import padded
from neglm_cli.lm.reference_device import ReferenceDevice
from neglm_cli.settings.train_lm import Settings
from tests.lm.making import END_OF_LINE, SMALL, counts, parameters

WORDS = 11
LOSS: dict[str, Any] = {"loss": "neglm-b", "noise_alpha": 0.75, "log_z": 1.5}  # logits have biases and offsets
CAPACITY = 12


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def random_words(*shape: int) -> np.ndarray:
    """Draw words; every third is an end of line."""
    random = np.random.default_rng(sum(shape))
    words = random.integers(0, WORDS, shape).astype(np.int32)
    return np.where(random.integers(0, 3, shape) == 0, np.int32(END_OF_LINE), words)


class ScorerTests:
    """Tests of the protocol `Scorer`. Subclasses make devices."""

    base = replace(SMALL, **LOSS)

    def make(self, settings: Settings) -> Device:
        raise NotImplementedError

    @pytest.fixture(params=[False, True], ids=["carried", "reset at eos"])
    def settings(self, request: pytest.FixtureRequest) -> Settings:
        return replace(self.base, reset_at_eos=request.param)

    @pytest.fixture
    def device(self, settings: Settings) -> Iterator[Device]:
        made = self.make(settings)
        yield made
        made.close()

    @pytest.fixture
    def expected(self, settings: Settings) -> ReferenceDevice:
        return ReferenceDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)

    def alone(self, expected: ReferenceDevice, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        """Score each row by itself."""
        rows = [expected.scorer(1).score(i[None], t[None]) for i, t in zip(inputs, targets, strict=True)]
        return Scores(*(np.concatenate(arrays) for arrays in zip(*rows, strict=True)))

    def test_rows_are_scored_side_by_side(self, device: Device, expected: ReferenceDevice) -> None:
        """Some calls score, some only read, and all continue where the last one ended."""
        text = random_words(3, 9)
        inputs, targets = text[:, :-1], text[:, 1:]
        wanted, scorer = self.alone(expected, inputs, targets), device.scorer(CAPACITY)
        first = scorer.score(inputs[:, :4], targets[:, :4])
        scorer.advance(inputs[:, 4:6])
        last = scorer.score(inputs[:, 6:], targets[:, 6:])
        for found, part in ((first, slice(0, 4)), (last, slice(6, 8))):
            np.testing.assert_allclose(found.log_probabilities, wanted.log_probabilities[:, part])
            assert_close(found.log_z, wanted.log_z[:, part])

    def test_reset_starts_other_texts(self, device: Device, expected: ReferenceDevice) -> None:
        scorer = device.scorer(CAPACITY)
        scorer.advance(random_words(4, 2))
        scorer.reset()
        for rows in (1, 3):
            text = random_words(rows, 4)
            found = scorer.score(text[:, :-1], text[:, 1:]).log_probabilities
            wanted = self.alone(expected, text[:, :-1], text[:, 1:]).log_probabilities
            assert_close(found, wanted)
            scorer.reset()

    def test_reset_to_given_states(self, device: Device, expected: ReferenceDevice) -> None:
        """Three rows go on from two states."""
        scorer, text = device.scorer(CAPACITY), random_words(3, 5)
        text[:, 0] = text[[0, 1, 0], 0]
        before = scorer.step(None, text[:2, 0])
        scorer.advance(random_words(2, 2))
        scorer.reset(before.state.select(np.array([0, 1, 0])))
        found = scorer.score(text[:, 1:-1], text[:, 2:]).log_probabilities
        assert_close(found, self.alone(expected, text[:, :-1], text[:, 1:]).log_probabilities[:, 1:])

    @pytest.mark.parametrize("normalized", [True, False])
    @pytest.mark.parametrize("sizes", [[5, 3, 3, 1], [4, 4], [1, 1]])
    def test_rows_of_different_sizes(
        self, device: Device, expected: ReferenceDevice, sizes: list[int], normalized: bool
    ) -> None:
        text, scorer = random_words(len(sizes), sizes[0] + 1), device.scorer(4 * 5)
        found = scorer.score(text[:, :-1], text[:, 1:], normalized, np.array(sizes))
        wanted = self.alone(expected, text[:, :-1], text[:, 1:])
        for row, size in enumerate(sizes):
            exact = wanted.log_probabilities[row, :size] + (0 if normalized else wanted.log_z[row, :size])
            assert_close(found.log_probabilities[row, :size], exact)

    def test_unnormalized_scores_lack_log_z(self, device: Device, expected: ReferenceDevice) -> None:
        text = random_words(2, 5)
        found = device.scorer(CAPACITY).score(text[:, :-1], text[:, 1:], normalized=False)
        wanted = self.alone(expected, text[:, :-1], text[:, 1:])
        assert_close(found.log_probabilities, wanted.log_probabilities + wanted.log_z)
        assert not found.log_z.any()

    def test_steps_branch(self, device: Device, expected: ReferenceDevice) -> None:
        """Two prefixes are continued by two words each; the states that they share stay as they are."""
        scorer, first, second = device.scorer(4), np.array([5, END_OF_LINE]), np.array([1, 6, END_OF_LINE, 1])
        scorer.advance(random_words(2, 2))  # which `step` does not continue
        before = scorer.step(None, first)
        copies = State(*(array.copy() for array in before.state))
        branches = np.array([0, 0, 1, 1])
        after = scorer.step(before.state.select(branches), second)
        for array, copy in zip(before.state, copies, strict=True):
            np.testing.assert_array_equal(array, copy)
        text = np.stack([first[branches], second], axis=1)
        wanted = np.stack([
            self.alone(expected, text, np.full((4, 2), word)).log_probabilities[:, -1] for word in range(WORDS)
        ], axis=1)  # fmt: skip
        log_z = self.alone(expected, text, text).log_z[:, -1]
        assert_close(scorer.log_z(after.y), log_z)
        assert_close(scorer.logits(after.y), wanted + log_z[:, None])
        rows, words = np.array([3, 0, 2, 0, 1, 1]), np.array([2, END_OF_LINE, 0, 10, 4, 4])  # more than its capacity
        assert_close(scorer.target_logits(after.y[rows], words), wanted[rows, words] + log_z[rows])

    @pytest.mark.parametrize("capacity", [CAPACITY, 3])
    def test_lines(self, device: Device, expected: ReferenceDevice, capacity: int) -> None:
        lines = [random_words(length) for length in (3, 0, 5, 3)]
        found = LineScorer(device.scorer(capacity), END_OF_LINE).score(lines)
        for scores, line in zip(found, lines, strict=True):
            text = np.concatenate([[END_OF_LINE], line, [END_OF_LINE]]).astype(np.int32)[None]
            assert_close(scores, self.alone(expected, text[:, :-1], text[:, 1:]).log_probabilities[0])

    @pytest.mark.parametrize("capacity", [CAPACITY, 2])
    def test_lists_are_sums_of_lines(self, device: Device, expected: ReferenceDevice, capacity: int) -> None:
        base = random_words(4)
        lines = [base, base[:2], np.append(base[:2], 7), base[:0], np.array([1, 2])]
        found = LineScorer(device.scorer(capacity), END_OF_LINE).score_list(lines)
        wanted = [scores.sum() for scores in LineScorer(expected.scorer(1), END_OF_LINE).score(lines)]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-4)

    def test_generated_text(self, device: Device, expected: ReferenceDevice) -> None:
        prompt = np.array([END_OF_LINE, 5, 1])
        texts = [
            list(islice(Generator(each.scorer(1), prompt, 1, SamplingParams(temperature=0)).words(), 3))
            for each in (device, expected)
        ]
        assert texts[0] == texts[1]
        found, wanted = (next_words(each.scorer(1), prompt, 4) for each in (device, expected))
        assert [word for word, _ in found] == [word for word, _ in wanted]
        np.testing.assert_allclose([share for _, share in found], [share for _, share in wanted], rtol=1e-3)


class TestReference(ScorerTests):
    def make(self, settings: Settings) -> Device:
        return ReferenceDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)


class TestCpu(ScorerTests):
    def make(self, settings: Settings) -> Device:
        return CpuDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)


class TestCpuWithFewKeptProjections(TestCpu):
    """Most words are projected anew in each batch, as with a large vocabulary."""

    @pytest.fixture(autouse=True)
    def two_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        panels = padded(self.base.hidden) // UNITS
        monkeypatch.setattr(inference, "CACHE_VALUES", 2 * panels * PANEL)


class TestCpuWithShortForwardPasses(TestCpu):
    """Calls take several forward passes, as those of many words do."""

    @pytest.fixture(autouse=True)
    def four_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cpu_scorer, "FORWARD_ROWS", 4)


class TestCpuWithoutCallingThread(TestCpu):
    """All passes wake the team, as those of many rows do."""

    @pytest.fixture(autouse=True)
    def none_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cpu_scorer, "FEW_MACS", -1)


def test_few_rows_are_read_by_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The team stays asleep, and results are the same, bit for bit."""
    settings = replace(SMALL, **LOSS)
    device = CpuDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)
    scorer, words = device.scorer(CAPACITY), random_words(7)
    monkeypatch.setattr(cpu_scorer, "FEW_MACS", -1)
    by_team = scorer.step(scorer.step(None, words).state, words[::-1])
    monkeypatch.undo()
    with monkeypatch.context() as asleep:
        asleep.setattr(device.team, "start", None)
        alone = scorer.step(scorer.step(None, words).state, words[::-1])
    for found, expected in zip((*alone.state, alone.y), (*by_team.state, by_team.y), strict=True):
        np.testing.assert_array_equal(found, expected)
    device.close()
