"""A map of words: a dot for each vector in a plane, and the word beside it where there is room."""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.errors import count_of
from neglm_cli.pictures.labels import placed
from neglm_cli.pictures.paper import COLOURS, INK, SOFT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, LEAST_HEIGHT, MOST_HEIGHT = 8.5, 4.5, 8.5  # inches
MARGIN, BELOW = 0.12, 0.36  # inches
BESIDE, ABOVE = 45.0, 12.0  # points at the edges for the names of the outermost dots
LARGEST, SMALLEST = 11.0, 7.0  # points, of the most and the least frequent word
RADIUS = 1.6  # points, of a dot
CAPITAL = 1.0  # of a label's height, in its size
PALE = "#b5b5b5"  # of dots without a name


def draw(points: np.ndarray, words: list[str], counts: np.ndarray, caption: str) -> "Figure":
    """Points (N, 2) with their words, the most frequent first: these are written larger, and find room first."""
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
    places = _spread(points, width, height)
    extents = np.array([(_width(text, size), CAPITAL * size) for text, size in zip(words, sizes, strict=True)])
    corners = placed(places, extents, RADIUS, (0, 0, width, height))
    named = np.array([corner is not None for corner in corners], bool)
    for some, colour in ((named, COLOURS[0]), (~named, PALE)):
        axes.scatter(places[some, 0], places[some, 1], s=(2 * RADIUS) ** 2, color=colour, linewidths=0, zorder=2)
    for text, size, corner, extent in zip(words, sizes, corners, extents, strict=True):
        if corner is not None:
            axes.text(corner[0], corner[1] + 0.22 * extent[1], text, size=size, color=INK, va="baseline", zorder=3)
    if not named.all():
        caption += f"; pale dots: {count_of(int((~named).sum()), 'name')} without room"
    figure.text(MARGIN / WIDTH, 0.1 / whole, caption, size=8, color=SOFT)
    return figure


def _sizes(counts: np.ndarray) -> np.ndarray:
    """By the logarithms of counts: frequencies of words span many powers of ten."""
    logs = np.log(np.maximum(counts, 1).astype(np.float64))
    span = logs.max() - logs.min()
    share = (logs - logs.min()) / span if span > 0 else np.full(len(logs), 0.5)
    return SMALLEST + (LARGEST - SMALLEST) * share


def _paper(points: np.ndarray) -> tuple[float, float]:
    """Width and height, in points of the paper, that suit how far the dots spread."""
    width = 72 * (WIDTH - 2 * MARGIN)
    across, up = np.maximum(np.ptp(points, axis=0), 1e-12)
    height = (width - 2 * BESIDE) * up / across + 2 * ABOVE
    return width, float(np.clip(height, 72 * LEAST_HEIGHT, 72 * MOST_HEIGHT))


def _spread(points: np.ndarray, width: float, height: float) -> np.ndarray:
    """Dots on the paper, in its points. Both directions have the same scale: distances are to be compared."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.array([width - 2 * BESIDE, height - 2 * ABOVE])
    scale = (room / np.maximum(high - low, 1e-12)).min()
    return (points - (low + high) / 2) * scale + np.array([width, height]) / 2


def _width(text: str, size: float) -> float:
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text, size=size).get_extents().width) + 0.25 * size if text.strip() else size
