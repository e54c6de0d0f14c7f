"""Placement of labels without overlap. Boxes are (left, bottom, right, top)."""

from collections.abc import Iterable, Sequence

import numpy as np

# Directions from a point, the preferred one first: right, left, above, below, then the corners.
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions as close as possible to those wanted, in the same order and at least a gap apart.

    Adjacent labels that are too close form a group, centered on the mean of its wanted positions.
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
    positions = [0.0] * len(wanted)
    for group in groups:
        first = _first(group, wanted, gap, low, high)
        for j, i in enumerate(group):
            positions[i] = first + gap * j
    return positions


def _first(group: list[int], wanted: Sequence[float], gap: float, low: float, high: float) -> float:
    mean = sum(wanted[i] for i in group) / len(group)
    first = mean - gap * (len(group) - 1) / 2
    return max(low, min(first, high - gap * (len(group) - 1)))


def place_labels(
    points: np.ndarray, sizes: np.ndarray, radius: float, frame: tuple[float, float, float, float]
) -> list[tuple[float, float] | None]:
    """Return the lower left corners of labels next to their points; None for labels that do not fit.

    Labels are placed greedily, in order: inside the frame, overlapping neither earlier labels nor points.
    """
    boxes = np.empty((0, 4))
    dots = np.concatenate([points - radius, points + radius], axis=1)
    corners: list[tuple[float, float] | None] = []
    for i, ((x, y), (width, height)) in enumerate(zip(points, sizes, strict=True)):
        others = np.delete(dots, i, axis=0)
        for box in _candidates(x, y, width, height, radius):
            if _inside(box, frame) and not _overlaps(box, boxes) and not _overlaps(box, others):
                boxes = np.vstack([boxes, box])
                corners.append((box[0], box[1]))
                break
        else:
            corners.append(None)
    return corners


def _candidates(
    x: float, y: float, width: float, height: float, radius: float
) -> Iterable[tuple[float, float, float, float]]:
    for right, up in DIRECTIONS:
        diagonal = 0.7 if right and up else 1.0
        left = x - width / 2 + right * (width / 2 + diagonal * radius * 1.6)
        bottom = y - height / 2 + up * (height / 2 + diagonal * radius * 1.2)
        yield left, bottom, left + width, bottom + height


def _inside(box: tuple[float, float, float, float], frame: tuple[float, float, float, float]) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _overlaps(box: tuple[float, float, float, float], others: np.ndarray) -> bool:
    left, bottom, right, top = box
    return bool(((others[:, 0] < right) & (others[:, 2] > left) & (others[:, 1] < top) & (others[:, 3] > bottom)).any())
