"""Where labels go, so that they do not lie on each other. Plain geometry: boxes are (left, bottom, right, top)."""

from collections.abc import Iterable, Sequence

import numpy as np

# Around a point, the nicest place first: right, left, above, below, then the corners.
PLACES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near to those wanted as can be, in the same order and at least a gap from each other.

    Neighbours that are too near become a group that stands around the mean of what its members want.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[list[int]] = []
    for i in order:
        groups.append([i])
        while len(groups) > 1 and _first(groups[-1], wanted, gap, low, high) < (
            _first(groups[-2], wanted, gap, low, high) + gap * len(groups[-2])
        ):
            last = groups.pop()
            groups[-1] += last
    places = [0.0] * len(wanted)
    for group in groups:
        first = _first(group, wanted, gap, low, high)
        for j, i in enumerate(group):
            places[i] = first + gap * j
    return places


def _first(group: list[int], wanted: Sequence[float], gap: float, low: float, high: float) -> float:
    mean = sum(wanted[i] for i in group) / len(group)
    first = mean - gap * (len(group) - 1) / 2
    return max(low, min(first, high - gap * (len(group) - 1)))


def placed(
    points: np.ndarray, sizes: np.ndarray, radius: float, frame: tuple[float, float, float, float]
) -> list[tuple[float, float] | None]:
    """The lower left corners of labels beside their points, or None for those that find no room.

    The first come first. A label keeps clear of the labels before it and of all points, and stays in the frame.
    """
    boxes = np.empty((0, 4))
    dots = np.concatenate([points - radius, points + radius], axis=1)
    corners: list[tuple[float, float] | None] = []
    for i, ((x, y), (width, height)) in enumerate(zip(points, sizes, strict=True)):
        others = np.delete(dots, i, axis=0)
        for box in _around(x, y, width, height, radius):
            if _inside(box, frame) and not _meets(box, boxes) and not _meets(box, others):
                boxes = np.vstack([boxes, box])
                corners.append((box[0], box[1]))
                break
        else:
            corners.append(None)
    return corners


def _around(
    x: float, y: float, width: float, height: float, radius: float
) -> Iterable[tuple[float, float, float, float]]:
    for right, up in PLACES:
        slant = 0.7 if right and up else 1.0
        left = x - width / 2 + right * (width / 2 + slant * radius * 1.6)
        bottom = y - height / 2 + up * (height / 2 + slant * radius * 1.2)
        yield left, bottom, left + width, bottom + height


def _inside(box: tuple[float, float, float, float], frame: tuple[float, float, float, float]) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _meets(box: tuple[float, float, float, float], others: np.ndarray) -> bool:
    left, bottom, right, top = box
    return bool(((others[:, 0] < right) & (others[:, 2] > left) & (others[:, 1] < top) & (others[:, 3] > bottom)).any())
