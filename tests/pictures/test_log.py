"""Parsing of training logs: of interrupted runs, of resumed runs, and of invalid files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.pictures.log import Point, TrainingLog, averaged
from tests.pictures.making import end, epoch_end, lines, report, training


def parse(*records: dict[str, Any]) -> TrainingLog:
    return TrainingLog.parse(lines(*records), "log")


def x(points: Sequence[Point]) -> list[float]:
    return [point.x for point in points]


def y(points: Sequence[Point]) -> list[float]:
    return [point.y for point in points]


def test_reports_by_words_and_by_time() -> None:
    log = parse(report(100, 10, 7, 0.5), report(200, 20, 6), epoch_end(300, 30, 6.5, 90))
    assert log.loss("words", each_report=True) == [Point(1, 40_000, 7, 40_000), Point(1, 80_000, 6, 40_000)]
    assert x(log.loss("time", each_report=True)) == [10, 20]
    assert log.perplexity("time") == [Point(1, 30, 90, 120_000)]
    assert log.log_z("words", each_report=True) == [
        Point(1, 40_000, 0.5, 40_000, 0.2), Point(1, 80_000, 0.1, 40_000, 0.2)
    ]  # fmt: skip
    assert not log.finished
    assert parse(*training(1)).finished


def test_logs_of_old_versions_are_read() -> None:
    """They had `words` and `loss_words`; those that examples/ ships do."""
    new = [report(500, 50, 6, tokens=100), report(900, 90, 4, tokens=300), epoch_end(1000, 100, 5, 90)]
    names = {"tokens": "words", "loss_tokens": "loss_words"}
    old = [{names.get(name, name): value for name, value in record.items()} for record in new]
    assert parse(*old) == parse(*new)
    shipped = Path(__file__).parents[2] / "examples" / "alpha" / "results" / "k-10.log"
    assert b'"words": ' in shipped.read_bytes()
    assert TrainingLog.parse(shipped.read_bytes(), "log").last["tokens"] > 0


def test_epoch_means_are_those_that_the_training_logged() -> None:
    log = parse(*training(3))
    assert log.loss("time", each_report=False) == [Point(i, 100 * i, 5, 400_000) for i in (1, 2, 3)]


def test_a_report_of_one_minibatch_has_the_weight_of_one() -> None:
    """Old versions wrote such reports after a long validation; the words it covers follow from previous lines."""
    first = [report(500, 50, 6, 0.4), report(999, 99, 5, 0.6), epoch_end(1000, 200, 5.6)]
    old = [report(1001, 201, 9, 9.0), report(1500, 250, 5, 0.2)]
    new = [report(1001, 201, 9, 9.0, tokens=400), report(1500, 250, 5, 0.2, tokens=499 * 400)]
    for later in (old, new):
        log = parse(*first, *later)
        running = log.loss("words", each_report=False)
        assert x(running) == [400_000, 600_000]
        assert y(running) == pytest.approx([5.6, 5 + 4 / 500])
        assert y(log.log_z("words", each_report=False)) == pytest.approx([0.4 + 0.2 * 499 / 999, 0.2 + 8.8 / 500])
        assert x(log.log_z("time", each_report=False)) == [200, 250]


def test_reports_are_weighted_by_their_tokens() -> None:
    """In a thinned log, the previous line is not the previous report of the training."""
    log = parse(report(500, 50, 6, tokens=100), report(900, 90, 4, tokens=300))
    assert y(log.loss("words", each_report=False)) == [4.5]
    odd = [report(500, 50, 6) | {"loss_tokens": tokens} for tokens in ("many", -1, float("nan"), None)]
    for record in odd:
        assert parse(record).loss("words", each_report=False) == [Point(1, 200_000, 6, 200_000)]


def test_the_current_epoch_is_drawn_if_enough_of_it_is_logged() -> None:
    log = [*training(2)[:-1], report(2001, 300, 9)]
    assert y(parse(*log).loss("words", each_report=False)) == [5, 5]
    assert y(parse(*log, report(2200, 320, 4)).loss("words", each_report=False)) == [5, 5, pytest.approx(4 + 5 / 200)]
    assert y(parse(report(1, 1, 9)).loss("words", each_report=False)) == [9]


def test_an_epoch_without_a_logged_end_has_the_mean_of_its_reports() -> None:
    """The training was killed between the checkpoint and the log line."""
    log = parse(report(400, 40, 8), report(800, 80, 6), report(1500, 20, 5), epoch_end(2000, 60, 4))
    assert y(log.loss("words", each_report=False)) == [7, 4]


def test_short_epochs_have_no_reports_between_them() -> None:
    log = parse(epoch_end(1000, 1, 7), report(1001, 11, 6.9), epoch_end(2000, 12, 6))
    assert y(log.loss("words", each_report=False)) == y(log.loss("words", each_report=True)) == [7, 6]
    assert log.perplexity("words") == []


def test_a_resumed_training() -> None:
    """Killed at 300, after a checkpoint at 150: from 260 on the second run counts, and so do both clocks."""
    first = [report(100, 10, 7), report(200, 20, 6), report(300, 30, 5)]
    second = [report(260, 11, 5.5), report(400, 22, 4), end(400, 23)]
    log = parse(*first, *second)
    found = log.loss("time", each_report=True)
    assert x(found) == [10, 20, 41, 52]
    assert y(found) == [7, 6, 5.5, 4]
    third = [report(500, 9, 3)]
    assert x(parse(*first, *second[:-1], *third).loss("time", each_report=True)) == [10, 20, 41, 52, 61]


def test_truncated_lines() -> None:
    whole = lines(report(100, 10, 7), report(200, 20, 6))
    assert len(TrainingLog.parse(whole[:-30], "log").records) == 1
    assert len(TrainingLog.parse(whole[:-1], "log").records) == 2
    assert TrainingLog.parse(whole[:5], "log").records == []
    assert TrainingLog.parse(b"", "log").records == []
    joined = whole[:-30] + lines(report(150, 5, 6.5))
    assert x(TrainingLog.parse(joined, "log").loss("time", each_report=True)) == [10, 15]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"word another\n", 1),
        (b"word", 1),
        (b"\x00\xff\n", 1),
        (b"[1, 2]\n", 1),
        (b'{"event": "progress"}\n', 1),
        (lines(report(1, 1, 1)) + b"\n" + lines(report(1, 1, 1) | {"tokens": "many"}), 3),
        (lines(report(1, 1, 1) | {"tokens": float("inf")}), 1),
        (lines(report(1, 1, 1) | {"step": 10**400}), 1),
        (lines(report(1, 1, 1) | {"seconds": -1}), 1),
        (lines(report(1, 1, 1) | {"event": "other"}), 1),
        (lines(report(1, 1, 1)) + b"[" * 100_000 + b"\n", 2),
    ],
)
def test_invalid_logs(text: bytes, line: int) -> None:
    with pytest.raises(NeglmError, match=rf"^log, line {line}: this is not a training log; name a file"):
        TrainingLog.parse(text, "log")


def test_values_that_cannot_be_plotted_are_omitted() -> None:
    log = parse(report(1, 1, float("nan")), report(2, 2, 7), report(3, 3, 6))
    assert y(log.loss("words", each_report=True)) == [7, 6]
    odd = report(1, 1, 5) | {"log_z_std": "wide"}
    assert [point.spread for point in parse(odd).log_z("words", each_report=True)] == [0]


def test_averages() -> None:
    points = [Point(1, i + 1, y, 10, s) for i, (y, s) in enumerate([(1, 1), (3, 1), (5, 0), (5, 0), (9, 2)])]
    assert averaged(points, 5) == points
    found = averaged(points, 3)
    assert x(found) == [2, 4, 5]
    assert y(found) == [2, 5, 9]
    assert [point.tokens for point in found] == [20, 20, 10]
    assert [point.spread for point in found] == pytest.approx([2**0.5, 0, 2])
    heavy = [points[0]._replace(tokens=30), *points[1:]]
    assert averaged(heavy, 3)[0][:-1] == (1, 2, 1.5, 40)
    assert averaged(heavy, 3)[0].spread == pytest.approx(1.75**0.5)
    assert [point.spread for point in averaged([point._replace(spread=None) for point in points], 3)] == [None] * 3
