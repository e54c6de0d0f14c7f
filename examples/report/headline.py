"""The first figure of README.md: validation perplexity by epoch, beside the test perplexities, ours and the paper's."""

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from neglm_cli.pictures.labels import spread_out
from neglm_cli.pictures.paper import SOFT, Look, dark, grid, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 8.0, 4.2  # inches
LEFT, ABOVE, BELOW = 0.55, 0.46, 0.52
CURVES, GAP, TESTS = 4.7, 0.14, 0.45  # widths of both panels, and between them
FIRST_EPOCH = 4
TOP = 120.0  # the largest perplexity shown
LINE = 0.168  # inches between labels
LABEL_SIZE = 9.0  # points
LEADER = (0.02, 0.16, 0.22)  # inches: start and end of a line to a label, its text


class Training(NamedTuple):
    """Results of one loss, with one or several seeds."""

    name: str
    validation: Sequence[Sequence[float]]  # perplexities by epoch, of each seed
    tests: Sequence[float]  # perplexity of each seed
    paper: float | None  # test perplexity in the paper


def picture(trainings: Sequence[Training]) -> bytes:
    return render(lambda: _figure(trainings), "svg").data


def _figure(trainings: Sequence[Training]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT))
    height = HEIGHT - ABOVE - BELOW
    left, right = (
        figure.add_axes((start / WIDTH, BELOW / HEIGHT, across / WIDTH, height / HEIGHT))
        for start, across in ((LEFT, CURVES), (LEFT + CURVES + GAP, TESTS))
    )
    results = [value for each in trainings for value in (*each.tests, *([each.paper] if each.paper else []))]
    curves = [value for each in trainings for seed in each.validation for value in seed]
    low = min([*results, *curves]) - 2
    for axes in (left, right):
        axes.set_ylim(low, TOP)
        axes.set_yticks(range(int(-(-low // 5) * 5), int(TOP) + 1, 5))
        grid(axes)
    left.set_yticks(left.get_yticks(), [f"{tick:g}" if tick % 10 == 0 else "" for tick in left.get_yticks()])
    for i, training in enumerate(trainings):
        _draw(left, right, training, Look.of(i), _column(i, len(trainings)))
    longest = max((len(seed) for each in trainings for seed in each.validation), default=FIRST_EPOCH + 1)
    left.set_xlim(FIRST_EPOCH, longest + 0.5)
    left.set_xticks([*range(FIRST_EPOCH + 1, longest, 5), longest])
    left.set_xlabel("epoch")
    papers = [each.paper for each in trainings if each.paper is not None]
    if papers:
        left.text(
            longest,
            max(papers) + 0.4,
            "dotted: test results of the paper",
            ha="right",
            size=LABEL_SIZE - 0.5,
            color=SOFT,
        )
    left.set_title("Validation perplexity, Penn Treebank")
    right.set_title("Test")
    right.set_xlim(0, 1)
    right.set_xticks([])
    right.tick_params(left=False, labelleft=False)
    right.spines["left"].set_visible(False)
    right.set_facecolor("#f6f6f6")
    _label(right, trainings, height)
    return figure


def _draw(left: "Axes", right: "Axes", training: Training, look: Look, column: float) -> None:
    """Draw a curve, the results on the test text as markers, and the paper's result as a line through both panels."""
    if training.paper is not None:
        for axes in (left, right):
            axes.axhline(training.paper, color=look.color, linewidth=1.0, linestyle=(0, (1, 2)), zorder=2)
    by_epoch = [list(values) for values in zip(*training.validation, strict=False)]
    epochs = range(1, len(by_epoch) + 1)
    if len(training.validation) > 1:
        low, high = ([choose(values) for values in by_epoch] for choose in (min, max))
        left.fill_between(epochs, low, high, color=look.color, alpha=0.2, linewidth=0, zorder=2)
    left.plot(
        epochs, [mean(values) for values in by_epoch], color=look.color, linestyle=look.dashes, linewidth=1.8,
        marker=look.marker, markevery=5, markersize=5, markeredgecolor="white", markeredgewidth=0.6, zorder=4,
    )  # fmt: skip
    if training.tests:
        right.plot(
            column, mean(training.tests), look.marker, color=look.color, markersize=7, markeredgecolor="white",
            markeredgewidth=0.7, zorder=4,
        )  # fmt: skip


def _column(i: int, count: int) -> float:
    """Return where the i-th of some markers is: side by side, because results are close to each other."""
    return 0.2 + 0.6 * i / max(1, count - 1)


def _label(axes: "Axes", trainings: Sequence[Training], height: float) -> None:
    """Label results at the right, without overlap: ours in bold."""
    labels: list[tuple[float, str, str, float | None]] = []  # value, text, color, and x of its marker, if it is ours
    for i, each in enumerate(trainings):
        color = Look.of(i).color
        if each.tests:
            at = _column(i, len(trainings)) + 0.1
            labels.append((mean(each.tests), f"{each.name}  {mean(each.tests):.2f}", color, at))
        if each.paper is not None:
            short = each.name.partition(",")[0]
            labels.append((each.paper, f"paper, {short}  {each.paper:.2f}", color, None))
    low, high = axes.get_ylim()
    positions = spread_out([(label[0] - low) / (high - low) for label in labels], LINE / height, 0.0, 1.0)
    start, stop, text = (1 + inches / TESTS for inches in LEADER)
    for (value, label, color, marker), position in zip(labels, positions, strict=True):
        y = (value - low) / (high - low)
        ours = marker is not None
        style = "solid" if ours else (0, (1, 2))
        axes.plot(
            (start if marker is None else marker, start, stop), (y, y, position), transform=axes.transAxes, color=color,
            linewidth=0.9, linestyle=style, clip_on=False, zorder=3,
        )  # fmt: skip
        axes.text(
            text, position, label, transform=axes.transAxes, va="center", size=LABEL_SIZE,
            color=dark(color) if ours else SOFT, weight="bold" if ours else "normal",
        )  # fmt: skip
