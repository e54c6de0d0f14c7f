"""Names, formats and styles."""

from itertools import combinations

import pytest

from neglm_cli.pictures.paper import Look, format_of, names_of


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
