"""Logs: of runs that were interrupted, that go on, and that are no logs."""

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.pictures.log import Curve, TrainingLog, averaged
from tests.pictures.making import end, epoch_end, lines, report, training


def test_curves_by_words_and_by_time() -> None:
    log = TrainingLog.parse(lines(report(100, 10, 7, 0.5), report(200, 20, 6), epoch_end(300, 30, 6.5, 90)), "log")
    assert log.loss("words") == Curve([40_000, 80_000], [7, 6], [])
    assert log.loss("time").x == [10, 20]
    assert log.perplexity("time") == Curve([30], [90], [])
    assert log.log_z("words") == Curve([40_000, 80_000], [0.5, 0.1], [0.2, 0.2])
    assert not log.finished
    assert TrainingLog.parse(lines(*training(1)), "log").finished


def test_short_epochs_have_no_reports_between_them() -> None:
    log = TrainingLog.parse(lines(epoch_end(10, 1, 7), report(11, 11, 6.9), epoch_end(20, 12, 6)), "log")
    assert log.loss("words").y == [7, 6]
    assert log.perplexity("words").y == []


def test_a_training_that_was_resumed() -> None:
    """It was killed at 300, behind a checkpoint at 150: from 260 on the second run counts, and so do both clocks."""
    first = [report(100, 10, 7), report(200, 20, 6), report(300, 30, 5)]
    second = [report(260, 11, 5.5), report(400, 22, 4), end(400, 23)]
    log = TrainingLog.parse(lines(*first, *second), "log")
    assert log.loss("time") == Curve([10, 20, 41, 52], [7, 6, 5.5, 4], [])
    third = [report(500, 9, 3)]
    assert TrainingLog.parse(lines(*first, *second[:-1], *third), "log").loss("time").x == [10, 20, 41, 52, 61]


def test_lines_that_are_cut() -> None:
    whole = lines(report(100, 10, 7), report(200, 20, 6))
    assert len(TrainingLog.parse(whole[:-30], "log").records) == 1
    assert len(TrainingLog.parse(whole[:-1], "log").records) == 2
    assert TrainingLog.parse(whole[:5], "log").records == []
    assert TrainingLog.parse(b"", "log").records == []
    joined = whole[:-30] + lines(report(150, 5, 6.5))
    assert TrainingLog.parse(joined, "log").loss("time") == Curve([10, 15], [7, 6.5], [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"word another\n", 1),
        (b"word", 1),
        (b"\x00\xff\n", 1),
        (b"[1, 2]\n", 1),
        (b'{"event": "progress"}\n', 1),
        (lines(report(1, 1, 1)) + b"\n" + lines(report(1, 1, 1) | {"words": "many"}), 3),
        (lines(report(1, 1, 1) | {"words": float("inf")}), 1),
        (lines(report(1, 1, 1) | {"step": 10**400}), 1),
        (lines(report(1, 1, 1) | {"seconds": -1}), 1),
        (lines(report(1, 1, 1) | {"event": "other"}), 1),
        (lines(report(1, 1, 1)) + b"[" * 100_000 + b"\n", 2),
    ],
)
def test_no_log(text: bytes, line: int) -> None:
    with pytest.raises(NeglmError, match=rf"^log, line {line}: this is not the log of a training: give a file"):
        TrainingLog.parse(text, "log")


def test_numbers_that_cannot_be_drawn_are_left_out() -> None:
    log = TrainingLog.parse(lines(report(1, 1, float("nan")), report(2, 2, 7), report(3, 3, 6)), "log")
    assert log.loss("words").y == [7, 6]
    odd = report(1, 1, 5) | {"log_z_std": "wide"}
    assert TrainingLog.parse(lines(odd), "log").log_z("words").spread == [0]


def test_averages() -> None:
    curve = Curve([1, 2, 3, 4, 5], [1, 3, 5, 5, 9], [1, 1, 0, 0, 2])
    assert averaged(curve, 5) == curve
    found = averaged(curve, 3)
    assert found.x == [2, 4, 5]
    assert found.y == [2, 5, 9]
    assert found.spread == pytest.approx([2**0.5, 0, 2])
    assert averaged(curve._replace(spread=[]), 3).spread == []
