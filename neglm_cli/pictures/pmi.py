"""Density plot of PMI against learned scores."""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.objective.density import Density
from neglm_cli.pictures.paper import COLORS, INK, SOFT, USUAL, WIDTH, Paper, wrapped
from neglm_cli.pictures.scales import nice_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, LogNorm
    from matplotlib.figure import Figure

LEFT, RIGHT, ABOVE, BELOW = 0.62, 0.95, 0.44, 0.62  # inches, at the usual font size
CAPTION = 0.18  # inches, per line
STRIP, GAP = 0.55, 0.14  # inches, of pairs that never occur, in a figure of the usual width
BEHIND = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1.2}  # background of labels on the density
MIN_PAIRS = 0.0002  # fraction of all pairs in a column, for a meaningful median
SHADES = ["#e9f1f8", "#a9cbe4", "#4f97c8", "#0f5a97", "#08244a"]
TICK = 0.4  # inches that a tick label needs
DECADES = 4.0  # from the darkest to the lightest color


def draw(density: Density, title: str, caption: str, paper: Paper = USUAL) -> "Figure":
    from matplotlib.figure import Figure

    columns, rows = density.observed.shape
    scale, paper_width = paper.scale, paper.width
    left, right, below = LEFT * scale, RIGHT * scale, BELOW * scale
    bar_width, gap = (inches * paper_width / WIDTH for inches in (STRIP, GAP))
    strip = bar_width + gap if density.empty_share else 0.0
    width = paper_width - left - right - strip
    paper.check_room(width)
    height = float(np.clip(width * rows / columns, 0.6 * width, 1.35 * width))
    lines = wrapped(caption, 8.5 * scale, paper_width - left - 0.06)
    whole = (ABOVE + CAPTION * len(lines)) * scale + height + below
    figure = Figure(figsize=(paper_width, whole))
    shades, norm = _shades(), _norm(density)

    def add_axes(start: float, across: float, bottom: float = below, up: float = height) -> "Axes":
        return figure.add_axes((start / paper_width, bottom / whole, across / paper_width, up / whole))

    axes = add_axes(left + strip, width)
    extent = (*density.pmi_edges[[0, -1]].tolist(), *density.score_edges[[0, -1]].tolist())
    image = axes.imshow(
        _mask_zeros(density.observed.T), origin="lower", extent=extent, aspect="auto", interpolation="nearest",
        cmap=shades, norm=norm, zorder=1,
    )  # fmt: skip
    _draw_lines(axes, density, scale)
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    _ticks(axes, "x", width / scale, *extent[:2])
    axes.set_xlabel("PMI of the observed pairs")
    first = axes
    if density.empty_share:
        first = add_axes(left, bar_width)
        first.stairs(
            density.empty,
            density.score_edges,
            orientation="horizontal",
            fill=True,
            color=SHADES[2],
            linewidth=0,
            zorder=1,
        )
        first.set_xlim(0, density.empty.max() * 1.02)
        first.set_ylim(extent[2:])
        first.set_xticks([density.empty.max() / 2], ["−∞"])
        first.set_xlabel("never seen" if bar_width > 0.45 * scale else "never\nseen")
        axes.tick_params(labelleft=False)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    _ticks(first, "y", height / scale, *extent[2:])
    first.set_ylabel("learned score")
    bar = figure.colorbar(
        image, cax=add_axes(paper_width - right + 0.16 * scale, 0.11, below + height * 0.25, height * 0.5)
    )
    powers = _powers(norm)
    bar.set_ticks(powers, labels=[f"{power * 100:g}%" for power in powers])
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, width=0.6, labelsize=8 * scale)
    bar.ax.set_title("pairs per\ncell", size=8 * scale, weight="normal", pad=6, loc="left")
    figure.text(left / paper_width, 1 - 0.24 * scale / whole, title, size=9.5 * scale, weight="bold")
    for i, line in enumerate(lines):
        y = 1 - (0.44 + CAPTION * i) * scale / whole
        figure.text(left / paper_width, y, line, size=8.5 * scale, color=SOFT)
    return figure


def _draw_lines(axes: "Axes", density: Density, scale: float) -> None:
    from matplotlib.patheffects import withStroke

    around = [withStroke(linewidth=3.2, foreground="white", alpha=0.85)]
    low, high = (f(density.pmi_edges[i], density.score_edges[i]) for f, i in ((max, 0), (min, -1)))
    if high > low:
        axes.plot((low, high), (low, high), color="white", linewidth=2.6, alpha=0.85, zorder=3)
        axes.plot((low, high), (low, high), color=INK, linewidth=1.1, linestyle=(0, (4, 2.5)), zorder=3)
    middle = (density.pmi_edges[:-1] + density.pmi_edges[1:]) / 2
    enough = density.observed.sum(axis=1) >= MIN_PAIRS
    x, y = middle[enough], density.median[enough]
    axes.plot(x, y, color=COLORS[1], linewidth=2, zorder=4, path_effects=around, solid_capstyle="round")
    if len(x):
        at = int(len(x) * 0.75)
        axes.annotate(
            "median score", (x[at], y[at]), (6 * scale, -26 * scale), textcoords="offset points", size=8.5 * scale,
            color="#a34700", zorder=5, ha="center",
            arrowprops={"arrowstyle": "-", "color": "#a34700", "linewidth": 0.7}, bbox=BEHIND,
        )  # fmt: skip
    if high > low:
        at_line = low + 0.86 * (high - low)
        axes.annotate(
            "score = PMI", (at_line, at_line), (-16 * scale, 14 * scale), textcoords="offset points", size=8.5 * scale,
            ha="right", zorder=5,
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.7}, bbox=BEHIND,
        )  # fmt: skip


def _shades() -> "Colormap":
    """Return a colormap from light to dark blue, with monotonic lightness, so that it also works in grayscale."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ink", SHADES)


def _norm(density: Density) -> "LogNorm":
    from matplotlib.colors import LogNorm

    most = float(density.observed.max())
    return LogNorm(most / 10**DECADES, most, clip=True)


def _powers(norm: "LogNorm") -> list[float]:
    low, high = float(norm.vmin or 0), float(norm.vmax or 1)
    return [tick for tick in (10.0**power for power in range(-12, 1)) if low <= tick <= high]


def _mask_zeros(shares: np.ndarray) -> np.ndarray:
    """Replace zeros by NaN: empty cells stay white."""
    return np.where(shares > 0, shares, np.nan)


def _ticks(axes: "Axes", axis: str, inches: float, low: float, high: float) -> None:
    """Set as many ticks as fit on an axis of this length, at the usual font size."""
    ticks = nice_ticks(low, high, max(2, min(7, int(inches / TICK))))
    labels = [f"{tick:g}".replace("-", "−") for tick in ticks]
    (axes.set_xticks if axis == "x" else axes.set_yticks)(ticks, labels)
    axes.tick_params(length=3, width=0.8)
