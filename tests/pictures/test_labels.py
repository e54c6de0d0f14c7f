"""Placement of labels without overlap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.pictures.labels import place_labels, spread_out


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_labels_are_moved_apart_as_little_as_needed(wanted: list[float]) -> None:
    positions = spread_out(wanted, 0.5, -10, 10)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    gaps = np.diff([positions[i] for i in order])
    assert (gaps > 0.5 - 1e-9).all()
    if (np.diff(sorted(wanted)) >= 0.5).all():
        assert np.allclose(positions, wanted)
    assert abs(np.mean(positions) - np.mean(wanted)) < 1e-9


def test_labels_stay_in_the_frame() -> None:
    assert spread_out([0.95, 1.0], 0.2, 0, 1) == [0.8, 1.0]
    assert spread_out([-3, -3, 0.9], 0.25, 0, 1) == [0, 0.25, 0.9]


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@given(st.integers(0, 1000), st.integers(1, 60))
def test_labels_on_a_map(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    points = random.random((count, 2)) * (200, 100)
    sizes = np.stack([random.integers(5, 40, count), np.full(count, 8)], axis=1)
    corners = place_labels(points, sizes, 1.5, (0, 0, 200, 100))
    boxes = [(*corner, *(np.array(corner) + size)) for corner, size in zip(corners, sizes, strict=True) if corner]
    for i, box in enumerate(boxes):
        assert box[0] >= 0
        assert box[1] >= 0
        assert box[2] <= 200
        assert box[3] <= 100
        assert not any(overlap(box, other) for other in boxes[:i])
        assert not any(overlap(box, (*point, *point)) for point in points)


def test_the_first_label_is_placed_first() -> None:
    points = np.array([[50.0, 50.0], [52.0, 50.0]])
    sizes = np.array([[30.0, 8.0], [30.0, 8.0]])
    first, second = place_labels(points, sizes, 0.5, (0, 0, 100, 100))
    assert first
    assert second
    assert first[0] + 30 < 50  # left of its dot: the other one is at the right
    assert second[0] > 52
    assert place_labels(points, sizes, 0.5, (0, 0, 20, 100)) == [None, None]
