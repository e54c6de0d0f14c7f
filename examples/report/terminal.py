"""Records a real run in a terminal, as an SVG.

    python examples/report/terminal.py OUTPUT.svg [--columns 100] [--until TEXT] COMMAND…

Runs the commands in a pseudo-terminal, one after the other, and draws the screen: prompts, commands and their output,
as a terminal of this width shows them. With --until, the drawing is of the moment when the screen first has a line that
matches this regular expression; the commands run to their end all the same. Needs the package pyte.
"""

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

ROWS = 60  # of the terminal; the drawing ends with the last one that is used
CELL, LINE, MARGIN, BAR = 7.8, 18.0, 14.0, 26.0  # pixels: a character, a line, the margin, the title bar
BASELINE = 13.5  # below the top of a line
FONTS = "ui-monospace, 'SFMono-Regular', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PAPER, INK, PROMPT, FRAME = "#12161c", "#d6dbe1", "#6fc3a0", "#2a313b"
COLORS = {"red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "blue": "#61afef", "cyan": "#56b6c2"}
BLOCKS = {"█": 1.0, "░": 0.22}  # opacity: drawn as rectangles, because fonts differ in their blocks


def record(commands: list[str], columns: int, until: str | None) -> list[list[Any]]:
    """Return the cells of the screen, row by row, without empty rows at the end."""
    import pyte

    screen = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    kept: list[list[Any]] | None = None
    for command in commands:
        stream.feed(b"\x1b[32m$\x1b[0m " + command.encode() + b"\r\n")
        for data in _output(command, columns):
            stream.feed(data)
            if kept is None and until and any(re.search(until, line.rstrip()) for line in screen.display):
                kept = _cells(screen)
    if until and kept is None:
        raise SystemExit(f"no line of the screen matched {until}")
    return kept or _cells(screen)


def _output(command: str, columns: int) -> Iterator[bytes]:
    """Run a command in a pseudo-terminal. Yield its output as it comes."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        ["bash", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        while data := os.read(ours, 1 << 16):
            yield data
    except OSError:  # on Linux: the other side is closed
        pass
    os.close(ours)
    if process.wait():
        raise SystemExit(f"{command} failed with exit code {process.returncode}")


def _cells(screen: Any) -> list[list[Any]]:
    rows = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
    while rows and not any(cell.data.strip() for cell in rows[-1]):
        rows.pop()
    return rows


def drawn(rows: list[list[Any]], columns: int, title: str) -> str:
    """Draw the screen as an SVG."""
    width, height = 2 * MARGIN + columns * CELL, BAR + 2 * MARGIN + len(rows) * LINE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONTS}" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}" stroke="{FRAME}"/>',
        *(f'<circle cx="{18 + 18 * i}" cy="16" r="5" fill="{FRAME}"/>' for i in range(3)),
    ]
    for y, row in enumerate(rows):
        top = BAR + MARGIN + y * LINE
        start = 0
        for (color, bold, block), group in groupby(row, key=_style):
            cells = list(group)
            text = "".join(cell.data for cell in cells)
            parts += _run(text, MARGIN + start * CELL, top, color, bold, block)
            start += len(cells)
    return "\n".join([*parts, "</svg>\n"])


def _style(cell: Any) -> tuple[str, bool, float]:
    color = COLORS.get(cell.fg, INK) if cell.fg in COLORS or cell.fg == "default" else f"#{cell.fg}"
    return PROMPT if cell.fg == "green" else color, cell.bold, BLOCKS.get(cell.data, 0.0)


def _run(text: str, x: float, top: float, color: str, bold: bool, block: float) -> list[str]:
    """Draw characters of one style, without blanks around them."""
    if block:
        size = f'width="{len(text) * CELL:.1f}" height="{LINE - 5:.1f}"'
        return [f'<rect x="{x:.1f}" y="{top + 2.5:.1f}" {size} fill="{PROMPT}" opacity="{block}"/>']
    parts = []
    for word in re.finditer(r"\S+(?: \S+)*", text):
        weight = ' font-weight="bold"' if bold else ""
        parts.append(
            f'<text x="{x + word.start() * CELL:.1f}" y="{top + BASELINE:.1f}" fill="{color}"{weight} '
            f'textLength="{len(word[0]) * CELL:.1f}" xml:space="preserve">{escape(word[0])}</text>'
        )
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--until", metavar="TEXT")
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    rows = record(options.commands, options.columns, options.until)
    options.output.write_text(drawn(rows, options.columns, options.commands[-1]), encoding="utf-8")


if __name__ == "__main__":
    main()
