"""What all comparisons share: options, peers that may be missing, taking turns, and results as JSON lines."""

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
    python: str  # that has it


class Result(NamedTuple):
    """Rates of one of our programs and of a peer, one of each round; higher is better."""

    job: str
    case: str
    ours: str
    peer: str
    unit: str
    our_rates: list[float]
    peer_rates: list[float]

    @property
    def ratios(self) -> list[float]:
        """How many times as fast ours is, in each round."""
        return [mine / theirs for mine, theirs in zip(self.our_rates, self.peer_rates, strict=True)]


def absolute(path: str) -> Path:
    return Path(path).absolute()


def option_parser(text: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that all comparisons have."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=absolute, default=absolute("../shared/data"), help="directory with wiki/, ptb/ and so on"
    )
    parser.add_argument("--rounds", "--repeat", type=int, default=rounds, help="how often each contestant runs")
    parser.add_argument("--small", action="store_true", help="the demo's text, little of it: to try this program")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="a Python with peers this one lacks")
    parser.add_argument("--json", type=absolute, metavar="FILE", help="add results to FILE, one JSON object a line")
    return parser


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    """An empty directory to be in, which has neglm's encoded copies of texts, too."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="neglm-bench-") as directory:
        os.environ["NEGLM_CACHE"] = directory
        os.chdir(directory)
        try:
            yield
        finally:
            os.chdir(before)


def find_peer(package: str, name: str, other_python: str) -> Peer | None:
    """A peer in this Python or the other one; without it, a sentence says how to install it."""
    for python in (sys.executable, other_python):
        done = subprocess.run([python, "-c", VERSION.format(package)], capture_output=True, text=True)
        if done.returncode == 0:
            return Peer(f"{name} {done.stdout.strip()}", python)
    print(f"{name} is not installed, and is left out: pip install {INSTALL[package]}\n", flush=True)
    return None


def output(*command: str) -> bytes:
    """What a command prints."""
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)[:300]} failed:\n{done.stderr.decode()}")
    return done.stdout


def printed_json(*command: str) -> Any:
    """The JSON that a command prints."""
    return json.loads(output(*command))


def seconds(*command: str) -> float:
    """From start to exit."""
    start = time.perf_counter()
    output(*command)
    return time.perf_counter() - start


def demo_text() -> bytes:
    """The demo's corpus, which every machine has."""
    return output(sys.executable, str(HERE.parent / "examples" / "demo" / "python_docs.py"))


def text_of(options: argparse.Namespace, *path: str) -> bytes:
    """A file of the data; the demo's corpus, if --small."""
    if options.small:
        return demo_text()
    found = options.data.joinpath(*path)
    if not found.exists():
        sys.exit(f"{found} is not there: name the directory that has {'/'.join(path)} with --data")
    return bytes(found.read_bytes())


def compare(
    job: str, case: str, unit: str, contestants: Mapping[str, Callable[[], float]], peers: set[str],
    options: argparse.Namespace,
) -> dict[str, list[float]]:  # fmt: skip
    """Let all contestants take turns, and print and keep how fast those that are not peers are beside those that are.

    A contestant returns its rate. A ratio is that of two rates of one round, and the median of the rounds counts;
    every second round goes the other way round, so that nobody always has the same neighbour.
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


def spread(numbers: list[float]) -> str:
    """Median, lowest and highest."""
    middle, lowest, highest = (figure(x) for x in (statistics.median(numbers), min(numbers), max(numbers)))
    return f"{middle} ({lowest} to {highest})"


def figure(number: float) -> str:
    """With three digits, and two decimals at most."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
