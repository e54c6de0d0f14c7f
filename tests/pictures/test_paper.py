"""Names, formats, styles and lines of text."""

from itertools import combinations

import pytest

from neglm_cli.pictures.paper import Look, fitting_size, format_of, names_of, text_width, wrapped


def test_formats() -> None:
    assert [format_of(name) for name in ("a.svg", "b/c.PNG", "a.b.pdf", "-")] == ["svg", "png", "pdf", "svg"]
    assert [format_of(name) for name in ("a.gif", "svg.txt", "picture", ".", "")] == [None] * 5


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a/train.log"], ["train.log"]),
        (["runs/a/train.log", "runs/b/train.log"], ["a", "b"]),
        (["x/neglm.log", "x/nce.log"], ["neglm", "nce"]),
        (["neglm.log", "nce.json"], ["neglm.log", "nce.json"]),
        (["a/one.log", "b/two.log"], ["a/one", "b/two"]),
        (["same", "same"], ["same", "same"]),
        (["log", "b/log"], ["log", "b/log"]),
    ],
)
def test_short_names(paths: list[str], names: list[str]) -> None:
    assert names_of(paths) == names


def test_lines_differ_without_colors() -> None:
    looks = [Look.of(i) for i in range(20)]
    assert len({(str(look.dashes), look.marker) for look in looks}) == len(looks)
    assert len(set(looks)) == len(looks)
    for one, other in combinations(looks[:5], 2):
        assert one.color != other.color
        assert one.dashes != other.dashes
        assert one.marker != other.marker


def test_text_is_wrapped_to_a_width() -> None:
    text = "gray dots: 7 words without space for a label, and a_very_long_word_that_fits_nowhere at all"
    lines = wrapped(text, 8, 1.5)
    assert " ".join(lines) == text
    assert len(lines) > 3
    assert all(text_width(line, 8) <= 1.5 or " " not in line for line in lines)
    assert wrapped("short", 8, 1.5) == ["short"]


def test_text_is_made_smaller_to_fit() -> None:
    title = "Training loss, nats per word"
    assert fitting_size(title, 9, 10) == 9
    size = fitting_size(title, 9, 1.5, bold=True)
    assert 5 < size < 9
    assert text_width(title, size, bold=True) == pytest.approx(1.5, rel=0.02)
    assert fitting_size(title, 9, 0.1) == 5
