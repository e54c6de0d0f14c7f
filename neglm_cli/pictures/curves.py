"""Learning curves, in stacked panels."""

import math
from typing import TYPE_CHECKING, NamedTuple

from neglm_cli.pictures.labels import spread_out
from neglm_cli.pictures.log import By, TrainingLog
from neglm_cli.pictures.panels import Curve, Panel, last_of, limits, panels
from neglm_cli.pictures.paper import SOFT, USUAL, Look, Paper, dark, fitting_size, grid, text_width
from neglm_cli.pictures.scales import clock, nice_ticks, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 1.75  # inches: the height of a panel
GAP, ABOVE, BELOW, LEFT = 0.42, 0.36, 0.5, 0.6  # inches, at the usual font size
MIN_PLOT = 2.4  # inches, at the usual font size: a narrower plot has the names of curves below it
LABEL_SIZE = 8.5  # points, at the usual font size
LINE = 1.25 * LABEL_SIZE / 72  # inches between labels
HANDLE, MARGIN, BETWEEN = 0.34, 0.06, 0.16  # inches: a sample of a line in the legend, the margin, between names
LEADERS = 0.02, 0.09, 0.14, 0.21  # inches from the plot: start and end of a line to a label, its marker, its text
TICK = 0.45  # inches that a tick label needs
MARKS = 8  # per curve
LONGEST = 28  # maximum characters of a run's name


class End(NamedTuple):
    """The end of a curve, and its label."""

    x: float
    y: float
    label: str
    look: Look


def draw(
    logs: list[TrainingLog], names: list[str], by: By, reports: bool = False, paper: Paper = USUAL
) -> "Figure":  # fmt: skip
    from matplotlib.figure import Figure

    drawn = panels(logs, by, reports)
    scale, width = paper.scale, paper.width
    gap, above, below, left, line = (scale * inches for inches in (GAP, ABOVE, BELOW, LEFT, LINE))
    names = [name if len(name) <= LONGEST else "…" + name[-LONGEST + 1 :] for name in names]
    labels = [_labels(panel, names) for panel in drawn]
    legend: list[list[int]] = []
    if width - left - _right(labels, scale) < MIN_PLOT * scale and len(names) > 1:
        labels = [[_value(panel, curve) for curve in panel.curves] for panel in drawn]
        legend = _rows(names, width - 2 * MARGIN, scale)
    right = _right(labels, scale)
    panel_height = max(PANEL, line * (len(logs) + 1))  # all names must fit
    under = below + len(legend) * line + (0.5 * line if legend else 0.0)
    height = above + len(drawn) * panel_height + (len(drawn) - 1) * gap + under
    figure = Figure(figsize=(width, height))
    last = last_of(drawn)
    unit = clock(last) if by == "time" else words(last)
    plot = width - left - right
    paper.check_room(plot)
    for i, (panel, row) in enumerate(zip(drawn, labels, strict=True)):
        bottom = height - above - (i + 1) * panel_height - i * gap
        axes = figure.add_axes((left / width, bottom / height, plot / width, panel_height / height))
        _title(axes, panel.title, plot, paper)
        axes.set_xlim(0, last * 1.015 if last else 1)
        _label_ends(axes, _draw_panel(axes, panel, row, last), line / panel_height, plot, scale)
        most = max(2, min(7, int(plot / (TICK * scale))))
        ticks = [tick for tick in nice_ticks(0, last / unit.size, most) if tick * unit.size <= last]
        axes.set_xticks([tick * unit.size for tick in ticks], [f"{tick:g}" for tick in ticks])
        if i < len(drawn) - 1:
            axes.tick_params(labelbottom=False)
        else:
            axes.set_xlabel(unit.name)
    _draw_legend(figure, names, legend, paper)
    return figure


def _right(labels: list[list[str]], scale: float) -> float:
    """Return the margin at the right, in inches, that labels need."""
    several = max(map(len, labels)) > 1
    widest = max(text_width(label, LABEL_SIZE * scale) for row in labels for label in row)
    return (0.36 if several else 0.25) * scale + widest


def _title(axes: "Axes", title: str, plot: float, paper: Paper) -> None:
    """Set a title above the plot; if it is too long, it starts at the left edge of the figure, in smaller type."""
    size = 9.5 * paper.scale
    if text_width(title, size, bold=True) <= paper.width - LEFT * paper.scale - MARGIN:
        axes.set_title(title)
        return
    size = fitting_size(title, size, paper.width - 2 * MARGIN, bold=True)
    axes.set_title(title, x=(MARGIN - LEFT * paper.scale) / plot, ha="left", fontsize=size)


def _rows(names: list[str], width: float, scale: float) -> list[list[int]]:
    """Return the curves in each row of a legend of this width."""
    rows: list[list[int]] = []
    free = 0.0
    for i, name in enumerate(names):
        needed = (HANDLE + BETWEEN) * scale + text_width(name, LABEL_SIZE * scale)
        if not rows or needed > free:
            rows.append([])
            free = width + BETWEEN * scale
        rows[-1].append(i)
        free -= needed
    return rows


def _draw_legend(figure: "Figure", names: list[str], rows: list[list[int]], paper: Paper) -> None:
    """Draw samples of the curves with their names, at the bottom of the figure."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    scale = paper.scale
    for row, curves in enumerate(rows):
        x, y = MARGIN, (MARGIN + (len(rows) - row - 0.5) * LINE * scale) / height
        for i in curves:
            look = Look.of(i)
            figure.add_artist(
                Line2D(
                    [x / width, (x + HANDLE / 2 * scale * 0.8) / width, (x + HANDLE * scale * 0.8) / width], [y] * 3,
                    color=look.color, linestyle=look.dashes, marker=look.marker, markevery=[1], markersize=4.5,
                    markeredgecolor="white", markeredgewidth=0.6,
                )
            )  # fmt: skip
            size = LABEL_SIZE * scale
            figure.text((x + HANDLE * scale) / width, y, names[i], va="center", size=size, color=dark(look.color))
            x += (HANDLE + BETWEEN) * scale + text_width(names[i], size)


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


def _label_ends(axes: "Axes", ends: list[End], gap: float, plot: float, scale: float) -> None:
    """Place labels on the right, without overlap, each with its curve's marker and a thin line from the curve's end.
    plot: the width of the axes, in inches."""
    to_axes = axes.transData + axes.transAxes.inverted()
    points = [to_axes.transform((end.x, end.y)) for end in ends]
    positions = spread_out([y for _, y in points], gap, 0.0, 1.0)
    start, stop, mark, text = (1 + scale * inches / plot for inches in LEADERS)
    for end, (x, y), position in zip(ends, points, positions, strict=True):
        color = end.look.color
        if x < 0.97:
            axes.plot(
                (x, 1.0), (y, y), transform=axes.transAxes, color=color, linewidth=0.8, linestyle=(0, (1, 3)), zorder=2
            )
        axes.plot(
            (start, stop), (y, position), transform=axes.transAxes, color=color, linewidth=0.8, clip_on=False, zorder=2
        )
        if len(ends) > 1:  # markers identify curves without color
            axes.plot(
                mark, position, end.look.marker, transform=axes.transAxes, color=color, markersize=4.5,
                markeredgewidth=0, clip_on=False,
            )  # fmt: skip
        axes.text(
            text if len(ends) > 1 else stop + (text - mark) / 3, position, end.label, transform=axes.transAxes,
            va="center", size=LABEL_SIZE * scale, color=dark(color),
        )  # fmt: skip


def _labels(panel: Panel, names: list[str]) -> list[str]:
    """Return the label of each curve: its value, after its name if there are several."""
    values = [panel.value(curve) if curve.y else "" for curve in panel.curves]
    return [f"{name}  {value}" for name, value in zip(names, values, strict=True)] if len(names) > 1 else values


def _value(panel: Panel, curve: Curve) -> str:
    """Return the label of a curve whose name is elsewhere."""
    return panel.value(curve).removeprefix("best ") if curve.y else ""
