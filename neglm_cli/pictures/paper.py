"""Style of all figures: size, fonts, a color-blind-safe palette, and reproducible files."""

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
FONT_SIZE = 9.0  # points
MIN_ROOM = 0.7  # inches, of a plot
SMALLEST_FONT = 5.0  # points, of a line that is made to fit

# Widths of columns, in inches; -wide spans both columns.
COLUMNS = {
    "acl": 3.03, "acl-wide": 6.3, "icml": 3.25, "icml-wide": 6.75, "ieee": 3.49, "ieee-wide": 7.14, "neurips": 5.5,
}  # fmt: skip

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
    "font.size": FONT_SIZE,
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


SCALED = (
    "font.size",
    "axes.titlesize",
    "axes.titlepad",
    "axes.labelsize",
    "xtick.labelsize",
    "ytick.labelsize",
)  # with the font size


class Paper(NamedTuple):
    """The width of a figure, and the size of its text."""

    width: float = WIDTH  # inches
    font_size: float = FONT_SIZE  # points

    @property
    def scale(self) -> float:
        """The factor by which text, and the margins around it, are larger than usual."""
        return self.font_size / FONT_SIZE

    def check_room(self, inches: float) -> None:
        """Raise if this is all the width that text leaves to a plot."""
        if inches < MIN_ROOM:
            raise NeglmError(
                f"a figure {self.width:g} inches wide has no room for text of {self.font_size:g} points: choose a "
                "larger --width or a smaller --font-size"
            )


USUAL = Paper()


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


def render(draw: Callable[[], "Figure"], form: str, font_size: float = FONT_SIZE) -> Picture:
    """Render a figure. The bytes depend only on what is drawn, not on the date or the user's settings."""
    file = io.BytesIO()
    with _settings(font_size / FONT_SIZE), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw().savefig(file, format=form, dpi=DOTS_PER_INCH, metadata=METADATA[form], facecolor="white")
    missing = form != "svg" and any("missing from font" in str(warning.message) for warning in caught)
    return Picture(file.getvalue(), missing)


@contextmanager
def _settings(scale: float) -> Iterator[None]:
    import matplotlib
    from matplotlib import font_manager

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # suppress messages about its caches
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        installed = set(font_manager.get_font_names())
        families = [font for font in FONTS if font in installed]
        matplotlib.rcParams.update(STYLE | {"font.family": [*families, "sans-serif"]})
        scaled: dict[Any, Any] = {name: scale * STYLE[name] for name in SCALED}
        matplotlib.rcParams.update(scaled)
        yield


def dark(color: str) -> str:
    """Return a darker shade of a color, for the thin strokes of text."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = to_rgb(color)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    factor = min(1.0, 0.38 / luminance) if luminance else 1.0
    return str(to_hex((red * factor, green * factor, blue * factor))) if luminance else INK


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return the width of a line of text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    font = FontProperties(weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().width) / 72


def fitting_size(text: str, size: float, width: float, bold: bool = False) -> float:
    """Return the font size, at most `size`, at which a line has at most this width in inches."""
    needed = text_width(text, size, bold)
    return size if needed <= width else max(SMALLEST_FONT, size * width / needed)


def wrapped(text: str, size: float, width: float) -> list[str]:
    """Break text into lines of at most this width in inches."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


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
