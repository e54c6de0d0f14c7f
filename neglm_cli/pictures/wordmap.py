"""A map of words: a dot for each projected vector, labeled where the word fits, in the color of its group."""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.errors import count_of
from neglm_cli.pictures.labels import place_labels
from neglm_cli.pictures.paper import COLORS, INK, SOFT, Paper, dark, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOWEST, HIGHEST = 4.5 / 8.5, 1.0  # height of the map, as a fraction of its width
MARGIN, BELOW = 0.12, 0.24  # inches; below a caption of one line
CAPTION_SIZE = 8.0  # points, at the usual font size
BESIDE, ABOVE = 45.0, 12.0  # points: margins for the labels of the outermost dots, at the usual font size
LARGEST, SMALLEST = 11.0, 7.0  # font sizes, in points, of the most and least frequent words
RADIUS = 1.6  # points, of a dot
CAPITAL = 1.0  # height of a label, as a fraction of its font size
PALE = "#b5b5b5"  # of dots without a label


def draw(
    points: np.ndarray, words: list[str], counts: np.ndarray, caption: str, paper: Paper,
    groups: np.ndarray | None = None,
) -> "Figure":  # fmt: skip
    """Draw points (N, 2) with their words. Frequent words get larger labels and are placed first. groups: int (N,), the
    group of each word, which has a color."""
    from matplotlib.figure import Figure

    scale = paper.scale
    sizes = scale * _sizes(counts)
    width, height = _extent(points, paper)
    dots = _fit(points, width, height, scale)
    extents = np.array(
        [(_label_width(text, size), CAPITAL * size) for text, size in zip(words, sizes, strict=True)]
    ).reshape(-1, 2)
    order = np.argsort(-counts, kind="stable")
    corners = dict(zip(order, place_labels(dots[order], extents[order], RADIUS, (0, 0, width, height)), strict=True))
    unlabeled = [i for i in range(len(words)) if corners[i] is None]
    if unlabeled:
        caption += f"; gray dots: {count_of(len(unlabeled), 'word')} without space for a label"
    caption_size = CAPTION_SIZE * scale
    lines = wrapped(caption, caption_size, paper.width - 2 * MARGIN)
    below = (BELOW + 0.12 * len(lines)) * scale

    whole = MARGIN + height / 72 + below
    figure = Figure(figsize=(paper.width, whole))
    axes = figure.add_axes((MARGIN / paper.width, below / whole, width / 72 / paper.width, height / 72 / whole))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    colors = [COLORS[0 if groups is None else groups[i] % len(COLORS)] for i in range(len(words))]
    shades = [PALE if corners[i] is None else color for i, color in enumerate(colors)]
    axes.scatter(dots[:, 0], dots[:, 1], s=(2 * RADIUS) ** 2, color=shades, linewidths=0, zorder=2)
    for i, (text, size) in enumerate(zip(words, sizes, strict=True)):
        corner = corners[i]
        if corner is not None:
            color = INK if groups is None else dark(colors[i])
            axes.text(
                corner[0], corner[1] + 0.22 * extents[i, 1], text, size=size, color=color, va="baseline", zorder=3
            )  # fmt: skip
    figure.text(MARGIN / paper.width, 0.08 / whole, "\n".join(lines), size=caption_size, color=SOFT, va="bottom")
    return figure


def _sizes(counts: np.ndarray) -> np.ndarray:
    """Return font sizes by the logarithms of counts."""
    logs = np.log(np.maximum(counts, 1).astype(np.float64))
    span = logs.max() - logs.min()
    share = (logs - logs.min()) / span if span > 0 else np.full(len(logs), 0.5)
    return SMALLEST + (LARGEST - SMALLEST) * share


def _extent(points: np.ndarray, paper: Paper) -> tuple[float, float]:
    """Return the width and height of the map, in points, by the aspect ratio of what it shows."""
    width = 72 * (paper.width - 2 * MARGIN)
    paper.check_room(width / 72 - 2 * BESIDE * paper.scale / 72)
    across, up = np.maximum(np.ptp(points, axis=0), 1e-12)
    height = (width - 2 * BESIDE * paper.scale) * up / across + 2 * ABOVE * paper.scale
    return width, float(np.clip(height, 72 * LOWEST * paper.width, 72 * HIGHEST * paper.width))


def _fit(points: np.ndarray, width: float, height: float, scale: float) -> np.ndarray:
    """Scale to the figure, in points, with the same scale for both axes, so that distances are comparable."""
    low, high = points.min(axis=0), points.max(axis=0)
    available = np.array([width - 2 * BESIDE * scale, height - 2 * ABOVE * scale])
    factor = (available / np.maximum(high - low, 1e-12)).min()
    return (points - (low + high) / 2) * factor + np.array([width, height]) / 2


def _label_width(text: str, size: float) -> float:
    """Return the width of a label in points, with some space around it."""
    return 72 * text_width(text, size) + 0.25 * size if text.strip() else size
