"""Style of all figures: fonts, a color-blind-safe palette, and reproducible files."""

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
# Omit matplotlib's metadata, which has dates and versions.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
DOTS_PER_INCH = 200

INK, SOFT, FAINT = "#222222", "#666666", "#dddddd"
WIDTH = 7.0  # inches

# Okabe and Ito's palette, without yellow, which is hard to see on white. Colors also differ in grayscale.
COLORS = ("#0072B2", "#D55E00", "#000000", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.8)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")

# Words may be in any script: fonts are tried in this order.
FONTS = (
    "DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Noto Sans Arabic",
    "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Arial Unicode MS", "Arial", "Helvetica",
)  # fmt: skip

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a word may contain dollar signs
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlepad": 7,
    "axes.labelsize": 9,
    "axes.unicode_minus": True,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # text stays searchable, and the viewer chooses fonts
    "svg.hashsalt": "neglm",
    "pdf.fonttype": 42,
}


class Look(NamedTuple):
    """The style of one of several curves. Each of the three attributes distinguishes it from the next ones."""

    color: str
    dashes: Any
    marker: str

    @staticmethod
    def of(i: int) -> "Look":
        return Look(COLORS[i % len(COLORS)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)])


def format_of(path: str) -> str | None:
    """Return the format of a figure by its file name; SVG for standard output; None if unknown."""
    if path in STANDARD_OUTPUT:
        return "svg"
    suffix = path.rpartition(".")[2].lower()
    return suffix if suffix in FORMATS else None


def need_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "matplotlib":
            raise NeglmError("figures need matplotlib, which is not installed: pip install 'neglm[plot]'") from error
        raise NeglmError(f"matplotlib does not work ({error}); reinstall it: pip install 'neglm[plot]'") from error


class Picture(NamedTuple):
    data: bytes  # of the file
    missing: bool  # True if no font has some character


def render(draw: Callable[[], "Figure"], form: str) -> Picture:
    """Render a figure. The bytes depend only on what is drawn, not on the date or the user's settings."""
    file = io.BytesIO()
    with _settings(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw().savefig(file, format=form, dpi=DOTS_PER_INCH, metadata=METADATA[form], facecolor="white")
    missing = form != "svg" and any("missing from font" in str(warning.message) for warning in caught)
    return Picture(file.getvalue(), missing)


@contextmanager
def _settings() -> Iterator[None]:
    import matplotlib
    from matplotlib import font_manager

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # suppress messages about its caches
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        installed = set(font_manager.get_font_names())
        families = [font for font in FONTS if font in installed]
        matplotlib.rcParams.update(STYLE | {"font.family": [*families, "sans-serif"]})
        yield


def grid(axes: "Axes", axis: Any = "y") -> None:
    """Draw faint grid lines at the ticks, below everything else."""
    axes.grid(axis=axis, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=3, width=0.8)


def names_of(paths: list[str]) -> list[str]:
    """Return short names for files: their paths without common prefix and suffix."""
    parts = [shown(path).split("/") for path in paths]
    if len(set(paths)) < 2:
        return [split[-1] for split in parts]
    while all(len(split) > 1 for split in parts) and len({split[-1] for split in parts}) == 1:
        parts = [split[:-1] for split in parts]
    while all(len(split) > 1 for split in parts) and len({split[0] for split in parts}) == 1:
        parts = [split[1:] for split in parts]
    names = ["/".join(split) for split in parts]
    stems = [name.rpartition(".") for name in names]
    if len({suffix for _, _, suffix in stems}) == 1 and all(stem.strip("./") for stem, _, _ in stems):
        names = [stem for stem, _, _ in stems]
    return names
