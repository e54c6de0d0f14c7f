"""All comparisons with other tools, and one page of them with a picture: what `make bench` runs.

    python benchmarks/page.py [--data DIR] [--rounds N] [--small] [--peers PYTHON] [--output DIR] [--json FILE]

Runs the programs beside this one, then writes bench.md and bench.svg. Without --rounds, each program takes as many as
it finds right. A peer that is not installed is named, with what installs it, and its rows are left out. With --json
FILE, results are also kept there. What the programs measure of neglm alone, and how good vectors are, they say when
they are started by themselves.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from side_by_side import HERE, Result, figure, option_parser, spread

from neglm_cli.pictures.paper import SOFT, WIDTH, grid, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARISONS = (
    ["vocab.py"],
    ["phrases.py"],
    ["embed.py", "--part", "speed", "--sizes", "100"],
    ["train_lm.py", "--part", "ptb"],
    ["train_lm.py", "--part", "1b"],
    ["eval_lm.py"],
)
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
OURS = ("neglm", "numpy", "numba", "llvmlite")


def run_all(options: argparse.Namespace, results: Path) -> list[str]:
    """Run every comparison; returns the programs that failed."""
    shared = ["--data", str(options.data), "--json", str(results), "--peers", options.peers]
    shared += ["--small"] if options.small else []
    shared += ["--rounds", str(options.rounds)] if options.rounds else []
    failed = []
    for program, *part in COMPARISONS:
        name = " ".join([program, *part])
        print(f"== benchmarks/{name}\n", flush=True)
        if subprocess.run([sys.executable, str(HERE / program), *part, *shared]).returncode:
            failed.append(name)
            print(f"benchmarks/{name} failed: its rows are not complete\n", flush=True)
    return failed


def read(path: Path) -> list[Result]:
    return [Result(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return f", commit {done.stdout.decode().strip()}" if done.returncode == 0 else ""


def page(results: list[Result], small: bool) -> str:
    ours = ", ".join(f"{name} {version(name)}" for name in OURS)
    lines = [
        "# Side by side with other tools",
        "",
        "Written by `make bench`. Every contestant runs once in a round, one after the other, with two threads where",
        "it has threads; a ratio is that of two rates of one round. Figures are medians over the rounds, with the",
        "lowest and the highest in parentheses.",
        "",
        "![How many times as fast as each peer: median, lowest and highest of the rounds](bench.svg)",
        "",
        "| job | ours | peer | unit | ours | peer's | times as fast | rounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    if small:
        lines[2:2] = ["**Tried with `--small`: these figures say nothing.**", ""]
    for each in results:
        cells = [
            f"{each.job}: {each.case}", f"`{each.ours}`", each.peer, each.unit, spread(each.our_rates),
            spread(each.peer_rates), spread(each.ratios), str(len(each.ratios)),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([
        *lines,
        "",
        f"- Versions: {ours}, Python {platform.python_version()}{commit()}; those of peers are in the table.",
        f"- Machine: {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}.",
        f"- Date: {time.strftime('%Y-%m-%d')}; load of the last quarter of an hour: {os.getloadavg()[2]:.1f}.",
        "",
    ])  # fmt: skip


def picture(results: list[Result]) -> "Figure":
    """A line for each ratio from its lowest to its highest, a dot at the median, grouped by job."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    figure_ = Figure((WIDTH + 1, 0.62 + 0.27 * len(results)), layout="constrained")
    axes = figure_.subplots()
    lowest, highest = (most(most(each.ratios) for each in results) for most in (min, max))
    for row, each in enumerate(results):
        middle, ratios = statistics.median(each.ratios), each.ratios
        axes.plot([1, middle], [row, row], color="#d0d0d0", linewidth=5, solid_capstyle="butt", zorder=1)
        axes.plot([min(ratios), max(ratios)], [row, row], color=SOFT, linewidth=1.6, zorder=2)
        axes.plot([middle], [row], "o", color="black", markersize=5, zorder=3)
        axes.annotate(
            f"{figure(middle)} ×", (max(1, *ratios), row), xytext=(7, 0), textcoords="offset points", va="center",
            fontsize=8.5,
        )  # fmt: skip
        if row and each.job != results[row - 1].job:
            axes.axhline(row - 0.5, color="#aaaaaa", linewidth=0.6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xticks([tick for tick in TICKS if lowest / 2 < tick < highest * 2])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(0.8, lowest / 1.2), highest * 1.9)
    axes.set_yticks(range(len(results)), [label(each) for each in results])
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.set_xlabel("times as fast as the peer")
    grid(axes, "x")
    axes.tick_params(axis="y", length=0)
    return figure_


def label(result: Result) -> str:
    extra = " --deterministic" if "--deterministic" in result.ours else ""
    return f"{result.job}{extra}, {result.case} / {result.peer}"


def main() -> None:
    parser = option_parser(__doc__, rounds=0)
    parser.add_argument("--output", type=Path, default=HERE / "results", metavar="DIR", help="where the page goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neglm-bench-") as directory:
        path = options.json or Path(directory, "results.jsonl")
        failed = run_all(options, path)
        results = read(path) if path.exists() else []
    if not results:
        sys.exit("there is no result: nothing was written")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "bench.md").write_text(page(results, options.small), encoding="utf-8")
    (options.output / "bench.svg").write_bytes(render(lambda: picture(results), "svg").data)
    print(f"{options.output / 'bench.md'} and bench.svg are written")
    if failed:
        sys.exit(f"these failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
