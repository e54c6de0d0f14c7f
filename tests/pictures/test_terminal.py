"""Curves of Braille dots."""

from neglm_cli.pictures.log import TrainingLog
from neglm_cli.pictures.terminal import Canvas, picture
from tests.pictures.making import lines, report, training


def test_dots() -> None:
    canvas = Canvas(2, 1)
    canvas.dot(0, 0)
    canvas.dot(3, 3)
    canvas.dot(-1, 0)
    canvas.dot(4, 4)
    assert canvas.lines(braille=True) == ["⡀⠈"]
    assert canvas.lines(braille=False) == ["**"]
    canvas = Canvas(3, 1)
    canvas.line(0, 3, 3, 0)
    assert canvas.lines(braille=True) == ["⠑⢄⠀"]
    assert canvas.lines(braille=False) == ["** "]


def test_a_steep_line_that_leaves_the_canvas() -> None:
    canvas = Canvas(1, 1)
    canvas.line(0, 1e9, 1, 0)
    assert canvas.lines(braille=True) == ["⢀"]


def test_a_decreasing_curve() -> None:
    log = TrainingLog.parse(lines(*(report(100 * i, 10 * i, 10 - i / 5) for i in range(1, 20))), "train.log")
    rows = picture(log, "words", 60, 20, braille=True)
    curve = [row.right for row in rows if row.kind == "curve"][:7]
    firsts = [min(i for i, char in enumerate(line) if char != "⠀") for line in curve if line.strip("⠀")]
    assert len(firsts) >= 5
    assert firsts == sorted(firsts)
    assert firsts[0] < 5
    assert firsts[-1] > 35
    assert rows[0].left == "train.log: epoch 2, 760,000 words, 3 min, 4,000 words/s"
    assert rows[-1].right.split() == ["0", "760", "thousand", "words"]


def test_it_fits_the_terminal() -> None:
    log = TrainingLog.parse(lines(*training(3)), "log")
    for columns, height, panels in ((80, 40, 3), (30, 18, 3), (80, 14, 2), (20, 8, 1)):
        rows = picture(log, "time", columns, height, braille=True)
        assert len(rows) <= height
        assert all(len(row.left + row.right) <= columns for row in rows if row.kind == "curve")
        assert len([row for row in rows if row.kind == "title"]) == 1 + panels
    assert "finished" in rows[0].left
    titles = [row.left.strip() + row.right for row in picture(log, "time", 80, 40, braille=True) if row.kind == "title"]
    assert titles[1:] == ["Training loss  5.00", "Validation perplexity  best 100.0", "log Z  0.10"]


def test_every_report_if_requested_or_before_the_first_epoch_ends() -> None:
    log = TrainingLog.parse(lines(*training(3)), "log")
    assert "Training loss  4.69" in [row.left.strip() + row.right for row in picture(log, "time", 80, 40, True, True)]
    young = TrainingLog.parse(lines(*training(2)[:15]), "log")
    assert young.epochs == 1
    assert "Training loss  5.33" in [row.left.strip() + row.right for row in picture(young, "time", 80, 40, True)]


def test_without_braille_it_is_ascii() -> None:
    log = TrainingLog.parse(lines(*training(2)), "log")
    for row in picture(log, "words", 60, 30, braille=False):
        assert row.kind == "title" or (row.left + row.right).isascii()
