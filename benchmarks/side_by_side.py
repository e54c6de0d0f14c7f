"""Shared by all comparisons: options, optional peers, rounds, and results as JSON lines."""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
NEGLM = str(Path(sys.executable).with_name("neglm"))
THREADS = "2"
INSTALL = {
    "gensim": "gensim",
    "fasttext": "fasttext (or fasttext-wheel, without a C++ compiler)",
    "kenlm": "kenlm",
    "torch": "torch==2.13.0 safetensors",
}
VERSION = """
import {0}
from importlib.metadata import packages_distributions, version
print(version(packages_distributions()["{0}"][0]))
"""


class Peer(NamedTuple):
    """Another tool: a Python package."""

    name: str  # with its version
    python: str  # the interpreter it is installed for


class Result(NamedTuple):
    """Rates of one of our programs and of a peer, one per round; higher is better."""

    job: str
    case: str
    ours: str
    peer: str
    unit: str
    our_rates: list[float]
    peer_rates: list[float]

    @property
    def ratios(self) -> list[float]:
        """Our rate divided by the peer's, for each round."""
        return [mine / theirs for mine, theirs in zip(self.our_rates, self.peer_rates, strict=True)]


def absolute(path: str) -> Path:
    return Path(path).absolute()


def option_parser(text: str | None, rounds: int) -> argparse.ArgumentParser:
    """Return a parser with the common options."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=absolute, default=absolute("../shared/data"), help="directory with wiki/, ptb/ and so on"
    )
    parser.add_argument("--rounds", "--repeat", type=int, default=rounds, help="runs of each contestant")
    parser.add_argument("--small", action="store_true", help="use a little of the demo's text, as a smoke test")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="a Python with more peers")
    parser.add_argument("--json", type=absolute, metavar="FILE", help="append results to FILE, as JSON lines")
    return parser


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    """Change to an empty directory, which also has neglm's cache."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="neglm-bench-") as directory:
        os.environ["NEGLM_CACHE"] = directory
        os.chdir(directory)
        try:
            yield
        finally:
            os.chdir(before)


def find_peer(package: str, name: str, other_python: str) -> Peer | None:
    """Find a peer in this Python or the other one. If it is missing, print how to install it."""
    for python in (sys.executable, other_python):
        done = subprocess.run([python, "-c", VERSION.format(package)], capture_output=True, text=True)
        if done.returncode == 0:
            return Peer(f"{name} {done.stdout.strip()}", python)
    print(f"skipping {name}, which is not installed: pip install {INSTALL[package]}\n", flush=True)
    return None


def output(*command: str) -> bytes:
    """Run a command. Return its output."""
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)[:300]} failed:\n{done.stderr.decode()}")
    return done.stdout


def printed_json(*command: str) -> Any:
    """Run a command. Parse its output as JSON."""
    return json.loads(output(*command))


def seconds(*command: str) -> float:
    """Run a command. Return the seconds from start to exit."""
    start = time.perf_counter()
    output(*command)
    return time.perf_counter() - start


def demo_text() -> bytes:
    """Return the demo's corpus, which every machine can generate."""
    return output(sys.executable, str(HERE.parent / "examples" / "demo" / "python_docs.py"))


def text_of(options: argparse.Namespace, *path: str) -> bytes:
    """Read a data file; with --small, the demo's corpus."""
    if options.small:
        return demo_text()
    found = options.data.joinpath(*path)
    if not found.exists():
        sys.exit(f"{found} does not exist: name the directory that contains {'/'.join(path)} with --data")
    return bytes(found.read_bytes())


def compare(
    job: str, case: str, unit: str, contestants: Mapping[str, Callable[[], float]], peers: set[str],
    options: argparse.Namespace,
) -> dict[str, list[float]]:  # fmt: skip
    """Run all contestants in turn, and print and store the speed of ours relative to each peer.

    A contestant returns its rate. Ratios compare rates of the same round, and the result is the median over rounds.
    Every second round is in reverse order, so that predecessors vary.
    """
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(options.rounds):
        for name in list(contestants)[:: -1 if number % 2 else 1]:
            rates[name].append(contestants[name]())
    print(f"{job}, {case}: {unit}, median of {options.rounds} (lowest to highest)")
    for name, found in rates.items():
        print(f"  {name:<44}{spread(found)}")
    for name in contestants:
        for peer in contestants:
            if name not in peers and peer in peers:
                keep(Result(job, case, name, peer, unit, rates[name], rates[peer]), options.json)
    print(flush=True)
    return rates


def keep(result: Result, path: Path | None) -> None:
    print(f"  {result.ours} is {spread(result.ratios)} times as fast as {result.peer}")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(result._asdict()) + "\n")


def spread(values: list[float]) -> str:
    """Format median, minimum and maximum."""
    middle, lowest, highest = (figure(x) for x in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({lowest} to {highest})"


def figure(number: float) -> str:
    """Format with three digits, and at most two decimals."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
