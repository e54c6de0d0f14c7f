"""Line plots in one or two panels, in the style of neglm's figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from neglm_cli.pictures.paper import SOFT, WIDTH, Look, grid, render
from neglm_cli.pictures.scales import nice_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 2.8  # inches


class Line(NamedTuple):
    label: str
    x: Sequence[float]
    y: Sequence[float]
    gray: bool = False  # True for a baseline


class Panel(NamedTuple):
    title: str
    x_label: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False


def picture(panels: Sequence[Panel]) -> bytes:
    """Draw panels as SVG."""
    return render(lambda: _figure(panels), "svg").data


def _figure(panels: Sequence[Panel]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        colors = iter(range(len(panel.lines)))
        for line in panel.lines:
            look = Look(SOFT, "solid", "x") if line.gray else Look.of(next(colors))
            axes.plot(line.x, line.y, color=look.color, linestyle=look.dashes, marker=look.marker, label=line.label)
        axes.set_xscale("log" if panel.log_x else "linear")
        axes.set_yscale("log" if panel.log_y else "linear")
        axes.set_xticks(ticks := sorted({x for line in panel.lines for x in line.x}), [_shown(tick) for tick in ticks])
        low, high = axes.get_ylim()
        axes.set_yticks(ticks := nice_ticks(low, high, 5, panel.log_y), [_shown(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_title(panel.title)
        axes.set_xlabel(panel.x_label)
        grid(axes)
        if len(panel.lines) > 1:
            axes.legend(frameon=False, fontsize=8.5)
    return figure


def _shown(tick: float) -> str:
    return (f"{tick:,g}" if tick < 10_000 else f"{tick / 1000:,g}K").replace("-", "−")
