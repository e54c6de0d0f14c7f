"""Density plot of PMI against learned scores."""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.objective.density import Density
from neglm_cli.pictures.paper import COLORS, INK, SOFT, WIDTH
from neglm_cli.pictures.scales import nice_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, LogNorm
    from matplotlib.figure import Figure

LEFT, RIGHT, ABOVE, BELOW = 0.62, 0.95, 0.62, 0.62  # inches
STRIP, GAP = 0.55, 0.14  # of pairs that never occur
BEHIND = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1.2}  # background of labels on the density
MIN_PAIRS = 0.0002  # fraction of all pairs in a column, for a meaningful median
SHADES = ["#e9f1f8", "#a9cbe4", "#4f97c8", "#0f5a97", "#08244a"]
DECADES = 4.0  # from the darkest to the lightest color


def draw(density: Density, title: str, caption: str) -> "Figure":
    from matplotlib.figure import Figure

    columns, rows = density.observed.shape
    strip = STRIP + GAP if density.empty_share else 0.0
    width = WIDTH - LEFT - RIGHT - strip
    height = float(np.clip(width * rows / columns, 0.6 * width, 1.35 * width))
    whole = ABOVE + height + BELOW
    figure = Figure(figsize=(WIDTH, whole))
    shades, norm = _shades(), _norm(density)

    def add_axes(left: float, across: float, bottom: float = BELOW, up: float = height) -> "Axes":
        return figure.add_axes((left / WIDTH, bottom / whole, across / WIDTH, up / whole))

    axes = add_axes(LEFT + strip, width)
    extent = (*density.pmi_edges[[0, -1]].tolist(), *density.score_edges[[0, -1]].tolist())
    image = axes.imshow(
        _mask_zeros(density.observed.T), origin="lower", extent=extent, aspect="auto", interpolation="nearest",
        cmap=shades, norm=norm, zorder=1,
    )  # fmt: skip
    _draw_lines(axes, density)
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    _ticks(axes, "x", *extent[:2])
    axes.set_xlabel("PMI of the observed pairs")
    first = axes
    if density.empty_share:
        first = add_axes(LEFT, STRIP)
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
        first.set_xlabel("never seen")
        axes.tick_params(labelleft=False)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    _ticks(first, "y", *extent[2:])
    first.set_ylabel("learned score")
    bar = figure.colorbar(image, cax=add_axes(WIDTH - RIGHT + 0.16, 0.11, BELOW + height * 0.25, height * 0.5))
    powers = _powers(norm)
    bar.set_ticks(powers, labels=[f"{power * 100:g}%" for power in powers])
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, width=0.6, labelsize=8)
    bar.ax.set_title("pairs per\ncell", size=8, weight="normal", pad=6, loc="left")
    figure.text(LEFT / WIDTH, 1 - 0.24 / whole, title, size=9.5, weight="bold")
    figure.text(LEFT / WIDTH, 1 - 0.44 / whole, caption, size=8.5, color=SOFT)
    return figure


def _draw_lines(axes: "Axes", density: Density) -> None:
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
            "median score", (x[at], y[at]), (6, -26), textcoords="offset points", size=8.5, color="#a34700", zorder=5,
            ha="center",
            arrowprops={"arrowstyle": "-", "color": "#a34700", "linewidth": 0.7}, bbox=BEHIND,
        )  # fmt: skip
    if high > low:
        at_line = low + 0.86 * (high - low)
        axes.annotate(
            "score = PMI", (at_line, at_line), (-16, 14), textcoords="offset points", size=8.5, ha="right", zorder=5,
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


def _ticks(axes: "Axes", axis: str, low: float, high: float) -> None:
    ticks = nice_ticks(low, high, 7)
    labels = [f"{tick:g}".replace("-", "−") for tick in ticks]
    (axes.set_xticks if axis == "x" else axes.set_yticks)(ticks, labels)
    axes.tick_params(length=3, width=0.8)
