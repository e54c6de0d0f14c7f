"""Start-up of commands, from process start to exit, with compiled kernels; and the first start, without them.

    python benchmarks/start_up.py [--rounds N] [--tree DIR] [--cold] [--small]

Commands run in turns, on files so small that nothing but the start counts; each figure is the median over rounds.
--tree also runs another checkout's commands, in turns with this one's. --cold measures the first start of three
commands instead, each with an empty cache of kernels. Importing NumPy, Numba and gensim is there to compare.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from side_by_side import NEGLM, absolute, demo_text, option_parser, workplace

TRAIN = ["train-lm", "corpus.txt", "--hidden", "10", "--epochs", "1", "--device", "cpu", "--no-cache", "-q"]
COMMANDS = {
    "--help": ["--help"],
    "info": ["info", "vectors.safetensors"],
    "nearest": ["nearest", "next"],
    "score, one line": ["score", "line.txt", "--device", "cpu"],
    "vocab, 1 KB": ["vocab", "line.txt", "-o", "other", "-q"],
    "eval, 1 KB": ["eval", "--test", "line.txt", "--device", "cpu"],
    "train-lm, 1 KB": [*TRAIN, "-o", "other.model"],
}
IMPORTS = ("numpy", "numba", "gensim")
PREPARATION = (
    ["vocab", "corpus.txt", "-q"],
    ["embed", "--size", "10", "--epochs", "1", "--min-count", "1", "--no-cache", "-q"],
    [*TRAIN, "-o", "model.safetensors"],
)
FIRST_STARTS = {name: COMMANDS[name] for name in ("vocab, 1 KB", "train-lm, 1 KB")} | {"embed": PREPARATION[1]}
KILOBYTE = 1000
LINE = b"the next line of the text\n"


def seconds(command: list[str], **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        command, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def measure(contestants: dict[str, tuple[list[str], dict[str, str]]], rounds: int) -> None:
    """Run all contestants in turns, after one run that does not count; print medians, minima and maxima."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, (command, environment) in contestants.items():
            found = seconds(command, **environment)
            if number:
                taken[name].append(found)
    for name, each in taken.items():
        print(f"  {name:<34}{statistics.median(each):6.3f} s  ({min(each):.3f} to {max(each):.3f})", flush=True)


def main() -> None:
    parser = option_parser(__doc__, rounds=11)
    parser.add_argument("--tree", type=absolute, metavar="DIR", help="another checkout to compare with")
    parser.add_argument("--cold", action="store_true", help="measure the first start, with empty caches")
    options = parser.parse_args()
    trees: dict[str, dict[str, str]] = {"": {}}
    if options.tree:
        trees[f" ({options.tree.name})"] = {"PYTHONPATH": str(options.tree)}
    with workplace():
        Path("corpus.txt").write_bytes(demo_text()[:KILOBYTE] + LINE)
        Path("line.txt").write_bytes(LINE)
        for environment in trees.values():
            for command in PREPARATION:
                seconds([NEGLM, *command], **environment)
        if options.cold:
            measure_first_starts(trees, options.rounds)
            return
        contestants = {
            name + tree: ([NEGLM, *command], environment)
            for name, command in COMMANDS.items()
            for tree, environment in trees.items()
        }
        contestants |= {
            f"import {name}": ([sys.executable, "-c", f"import {name}"], {}) for name in IMPORTS if find_spec(name)
        }
        measure(contestants, 1 if options.small else options.rounds)


def measure_first_starts(trees: dict[str, dict[str, str]], rounds: int) -> None:
    for name, command in FIRST_STARTS.items():
        for tree, environment in trees.items():
            each = []
            for _ in range(rounds):
                with tempfile.TemporaryDirectory() as empty:
                    each.append(seconds([NEGLM, *command], NUMBA_CACHE_DIR=empty, **environment))
            print(
                f"  {name + tree:<34}{statistics.median(each):6.2f} s  ({min(each):.2f} to {max(each):.2f})", flush=True
            )


if __name__ == "__main__":
    main()
