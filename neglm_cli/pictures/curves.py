"""Learning curves, in stacked panels."""

import math
from typing import TYPE_CHECKING, NamedTuple

from neglm_cli.pictures.labels import spread_out
from neglm_cli.pictures.log import By, TrainingLog
from neglm_cli.pictures.panels import Panel, last_of, limits, panels
from neglm_cli.pictures.paper import INK, SOFT, WIDTH, Look, grid
from neglm_cli.pictures.scales import clock, nice_ticks, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL, GAP, ABOVE, BELOW, LEFT = 1.75, 0.42, 0.36, 0.5, 0.6  # inches
LABEL_SIZE = 8.5  # points
LINE = 1.25 * LABEL_SIZE / 72  # inches between labels
MARKS = 8  # per curve
LONGEST = 28  # maximum characters of a run's name


class End(NamedTuple):
    """The end of a curve, and its label."""

    x: float
    y: float
    label: str
    look: Look


def draw(logs: list[TrainingLog], names: list[str], by: By, reports: bool = False) -> "Figure":
    from matplotlib.figure import Figure

    drawn = panels(logs, by, reports)
    names = [name if len(name) <= LONGEST else "…" + name[-LONGEST + 1 :] for name in names]
    labels = [_labels(panel, names) for panel in drawn]
    right = (0.36 if len(logs) > 1 else 0.25) + max(_width(label) for row in labels for label in row)
    panel_height = max(PANEL, LINE * (len(logs) + 1))  # all names must fit
    height = ABOVE + len(drawn) * panel_height + (len(drawn) - 1) * GAP + BELOW
    figure = Figure(figsize=(WIDTH, height))
    last = last_of(drawn)
    unit = clock(last) if by == "time" else words(last)
    for i, (panel, row) in enumerate(zip(drawn, labels, strict=True)):
        bottom = height - ABOVE - (i + 1) * panel_height - i * GAP
        axes = figure.add_axes((LEFT / WIDTH, bottom / height, (WIDTH - LEFT - right) / WIDTH, panel_height / height))
        axes.set_title(panel.title)
        axes.set_xlim(0, last * 1.015 if last else 1)
        _label_ends(axes, _draw_panel(axes, panel, row, last), LINE / panel_height)
        ticks = [tick for tick in nice_ticks(0, last / unit.size, 7) if tick * unit.size <= last]
        axes.set_xticks([tick * unit.size for tick in ticks], [f"{tick:g}" for tick in ticks])
        if i < len(drawn) - 1:
            axes.tick_params(labelbottom=False)
        else:
            axes.set_xlabel(unit.name)
    return figure


def _draw_panel(axes: "Axes", panel: Panel, labels: list[str], last: float) -> list[End]:
    several = sum(bool(curve.x) for curve in panel.curves) > 1
    ends: list[End] = []
    for i, (curve, label) in enumerate(zip(panel.curves, labels, strict=True)):
        if not curve.x:
            continue
        look = Look.of(i)
        few = len(curve.x) <= 60 if panel.best else len(curve.x) < 3
        step = math.ceil(len(curve.x) / MARKS)
        marks = None if few and not several else (i * step // len(labels) if len(curve.x) > 2 else 0, step)
        axes.plot(
            curve.x, curve.y, color=look.color, linestyle=look.dashes, zorder=3 + i,
            marker=look.marker if few or several else None, markevery=marks, markersize=3.5 if few else 4.5,
            markeredgecolor="white", markeredgewidth=0.6,
        )  # fmt: skip
        if curve.spread:
            low, high = ([y + sign * s for y, s in zip(curve.y, curve.spread, strict=True)] for sign in (-1, 1))
            axes.fill_between(curve.x, low, high, color=look.color, alpha=0.16, linewidth=0, zorder=2)
        if panel.best:
            best = min(range(len(curve.y)), key=curve.y.__getitem__)
            axes.plot(
                curve.x[best], curve.y[best], "o", color=look.color, markerfacecolor="none", markersize=9, zorder=9,
                markeredgewidth=1.1, clip_on=False,
            )  # fmt: skip
        ends.append(End(curve.x[-1], curve.y[-1], label, look))
    if panel.zero:
        axes.axhline(0, color=SOFT, linewidth=0.8, zorder=1)
    _scale(axes, panel, last)
    grid(axes)
    return ends


def _scale(axes: "Axes", panel: Panel, last: float) -> None:
    from matplotlib.ticker import NullLocator

    low, high, logarithmic = limits(panel, last)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(low, high)
    ticks = nice_ticks(low, high, 6 if logarithmic else 5, logarithmic)
    axes.set_yticks(ticks, [f"{tick:,.10g}".replace("-", "−") for tick in ticks])


def _label_ends(axes: "Axes", ends: list[End], gap: float) -> None:
    """Place labels on the right, without overlap, each with its curve's marker and a thin line from the curve's end."""
    to_axes = axes.transData + axes.transAxes.inverted()
    points = [to_axes.transform((end.x, end.y)) for end in ends]
    positions = spread_out([y for _, y in points], gap, 0.0, 1.0)
    for end, (x, y), position in zip(ends, points, positions, strict=True):
        color = end.look.color
        if x < 0.97:
            axes.plot(
                (x, 1.0), (y, y), transform=axes.transAxes, color=color, linewidth=0.8, linestyle=(0, (1, 3)), zorder=2
            )
        axes.plot(
            (1.004, 1.022), (y, position), transform=axes.transAxes, color=color, linewidth=0.8, clip_on=False, zorder=2
        )
        if len(ends) > 1:  # markers identify curves without color
            axes.plot(
                1.034, position, end.look.marker, transform=axes.transAxes, color=color, markersize=4.5,
                markeredgewidth=0, clip_on=False,
            )  # fmt: skip
        left = 1.05 if len(ends) > 1 else 1.028
        axes.text(left, position, end.label, transform=axes.transAxes, va="center", size=LABEL_SIZE, color=_dark(color))


def _dark(color: str) -> str:
    """Return a darker shade of a curve's color, for the thin strokes of text."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = to_rgb(color)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    factor = min(1.0, 0.38 / luminance) if luminance else 1.0
    return str(to_hex((red * factor, green * factor, blue * factor))) if luminance else INK


def _labels(panel: Panel, names: list[str]) -> list[str]:
    """Return the label of each curve: its value, after its name if there are several."""
    values = [panel.value(curve) if curve.y else "" for curve in panel.curves]
    return [f"{name}  {value}" for name, value in zip(names, values, strict=True)] if len(names) > 1 else values


def _width(text: str) -> float:
    """Return the width of a label in inches."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text, size=LABEL_SIZE).get_extents().width) / 72 if text.strip() else 0.0
