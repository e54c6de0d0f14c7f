"""A map of words: a dot for each projected vector, labeled where the word fits."""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.errors import count_of
from neglm_cli.pictures.labels import place_labels
from neglm_cli.pictures.paper import COLORS, INK, SOFT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MIN_HEIGHT, MAX_HEIGHT = 8.5, 4.5, 8.5  # inches
MARGIN, BELOW = 0.12, 0.36  # inches
BESIDE, ABOVE = 45.0, 12.0  # points: margins for the labels of the outermost dots
LARGEST, SMALLEST = 11.0, 7.0  # font sizes, in points, of the most and least frequent words
RADIUS = 1.6  # points, of a dot
CAPITAL = 1.0  # height of a label, as a fraction of its font size
PALE = "#b5b5b5"  # of dots without a label


def draw(points: np.ndarray, words: list[str], counts: np.ndarray, caption: str) -> "Figure":
    """Draw points (N, 2) with their words, the most frequent first, which get larger labels and are placed first."""
    from matplotlib.figure import Figure

    width, height = _paper(points)
    whole = MARGIN + height / 72 + BELOW
    figure = Figure(figsize=(WIDTH, whole))
    axes = figure.add_axes((MARGIN / WIDTH, BELOW / whole, width / 72 / WIDTH, height / 72 / whole))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)

    sizes = _sizes(counts)
    dots = _fit(points, width, height)
    extents = np.array([(_width(text, size), CAPITAL * size) for text, size in zip(words, sizes, strict=True)])
    corners = place_labels(dots, extents, RADIUS, (0, 0, width, height))
    named = np.array([corner is not None for corner in corners], bool)
    for some, color in ((named, COLORS[0]), (~named, PALE)):
        axes.scatter(dots[some, 0], dots[some, 1], s=(2 * RADIUS) ** 2, color=color, linewidths=0, zorder=2)
    for text, size, corner, extent in zip(words, sizes, corners, extents, strict=True):
        if corner is not None:
            axes.text(corner[0], corner[1] + 0.22 * extent[1], text, size=size, color=INK, va="baseline", zorder=3)
    if not named.all():
        caption += f"; gray dots: {count_of(int((~named).sum()), 'word')} without space for a label"
    figure.text(MARGIN / WIDTH, 0.1 / whole, caption, size=8, color=SOFT)
    return figure


def _sizes(counts: np.ndarray) -> np.ndarray:
    """Return font sizes by the logarithms of counts."""
    logs = np.log(np.maximum(counts, 1).astype(np.float64))
    span = logs.max() - logs.min()
    share = (logs - logs.min()) / span if span > 0 else np.full(len(logs), 0.5)
    return SMALLEST + (LARGEST - SMALLEST) * share


def _paper(points: np.ndarray) -> tuple[float, float]:
    """Return the width and height of the figure, in points, by the aspect ratio of the map."""
    width = 72 * (WIDTH - 2 * MARGIN)
    across, up = np.maximum(np.ptp(points, axis=0), 1e-12)
    height = (width - 2 * BESIDE) * up / across + 2 * ABOVE
    return width, float(np.clip(height, 72 * MIN_HEIGHT, 72 * MAX_HEIGHT))


def _fit(points: np.ndarray, width: float, height: float) -> np.ndarray:
    """Scale to the figure, in points, with the same scale for both axes, so that distances are comparable."""
    low, high = points.min(axis=0), points.max(axis=0)
    available = np.array([width - 2 * BESIDE, height - 2 * ABOVE])
    scale = (available / np.maximum(high - low, 1e-12)).min()
    return (points - (low + high) / 2) * scale + np.array([width, height]) / 2


def _width(text: str, size: float) -> float:
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text, size=size).get_extents().width) + 0.25 * size if text.strip() else size
