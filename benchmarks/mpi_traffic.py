"""What processes send to each other: as measured on this machine, as a model says, and what that means for a network;
and whether several train the model that one trains.

    python benchmarks/mpi_traffic.py --data ../shared/data > benchmarks/mpi/traffic.md

Needs mpirun, beside this Python or on the PATH (pip install 'neglm[mpi]' mpich). Bytes are counted, not timed: how busy
the machine is does not matter.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.gemm import PANEL
from neglm_cli.lm.model import LanguageModel
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.objective.noise import probabilities
from neglm_cli.sgns.averaging import ALL_AFTER, rows_after
from neglm_cli.sgns.trainer import round_size
from neglm_cli.text.vocabulary import Vocabulary

NUMBER = 4  # bytes of a float32, and of a word's id
GOES_ROUND = 2  # a sum is given to those who add it up, and given back
STEPS = 20  # of a minibatch
MINIBATCHES, BATCH = 200, 20  # that train-lm is tried with
# Trainings whose models are compared.
ALIKE = {"Adam, rate 0.001": ("--optimizer", "adam"), "SGD, rate 1": ()}
WIKI_BYTES = 30_000_000
BESIDE = Path(sys.executable).with_name("mpirun")  # of the mpich wheel
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun") or "mpirun"


class Network(NamedTuple):
    name: str
    bandwidth: float  # bytes a second that a process gets for itself
    latency: float  # seconds for a message


# What vendors and measurements of MPI over TCP and over InfiniBand commonly state.
NETWORKS = (Network("10 Gbit/s Ethernet", 1.1e9, 25e-6), Network("100 Gbit/s InfiniBand", 11e9, 1.5e-6))


class Speed(NamedTuple):
    name: str
    words_per_second: float


SPEEDS = (
    Speed("two cores", 13_000),  # measured: README
    Speed("a GPU", 200_000),  # expected, not measured: benchmarks/gpu/estimate.md
)


def sum_bytes(numbers: float, processes: int) -> float:
    """That a process sends for a sum of so many float32."""
    return GOES_ROUND * (processes - 1) / processes * NUMBER * numbers


def layer_numbers(shape: Shape) -> int:
    """Gradients of the layers, with the padding that the processor's kernels want."""
    columns = padded(shape.hidden) // UNITS * PANEL
    return shape.layers * columns * (max(shape.inputs) + shape.hidden + 1)


def expected_different(shares: np.ndarray, draws: float) -> float:
    """Different words among so many that are drawn."""
    return float(-np.expm1(draws * np.log1p(-np.minimum(shares, 1 - 1e-12))).sum())


def train_bytes(counts: np.ndarray, shape: Shape, batch: int, k: int, noise: str, processes: int) -> float:
    """That a process sends for each word of a minibatch."""
    text, drawn = probabilities(counts, 1), probabilities(counts, 1)
    words = batch * STEPS
    inputs = expected_different(text, words)
    if noise == "softmax":
        outputs, width, ids = float(shape.words), padded(shape.hidden + 1), 0.0
    else:
        draws = words * k if noise == "token" else k
        outputs, width = expected_different(1 - (1 - text) ** words * (1 - drawn) ** draws, 1), shape.hidden + 1
        mine = words / processes
        own = 1 - (1 - text) ** mine * (1 - drawn) ** (draws / processes)
        ids = (processes - 1) * NUMBER * float(own.sum()) if noise == "token" else 0.0
    numbers = layer_numbers(shape) + inputs * shape.embedding + outputs * width
    return (sum_bytes(numbers, processes) + ids) / words


def embed_bytes(words: int, size: int, processes: int) -> float:
    """That a process sends for each word of the corpus that it trains on."""
    rows = sum(rows_after(number, words) for number in range(1, ALL_AFTER + 1)) / ALL_AFTER
    return 2 * sum_bytes(rows * size, processes) / round_size(processes)


# --- measuring ------------------------------------------------------------------------------------------


def run(processes: int, *arguments: str, cwd: Path, launcher: tuple[str, ...] = (MPIRUN,)) -> dict[str, Any]:
    command = [sys.executable, "-m", "neglm_cli", *arguments, "--json", "--quiet"]
    if processes > 1:
        command = [*launcher, "-n", str(processes), *command]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=cwd, check=True, capture_output=True).stdout)
    return found


def train(processes: int, *options: str, here: Path, launcher: tuple[str, ...] = (MPIRUN,)) -> dict[str, Any]:
    return run(
        processes, "train-lm", "ptb.txt", *options, "--epochs", "1", "--threads", "1", "-o", f"{processes}.model",
        cwd=here, launcher=launcher,
    )  # fmt: skip


def prepare(data: Path, here: Path, minibatches: int = MINIBATCHES) -> None:
    """So many words of PTB that an epoch has these minibatches, with the vocabulary of all of it."""
    run(1, "vocab", str(data / "ptb/ptb.train.txt"), cwd=here)
    words = (data / "ptb/ptb.train.txt").read_text().replace("\n", " <eos> ").split()
    (here / "ptb.txt").write_text(" ".join(words[: minibatches * BATCH * STEPS + 1]).replace(" <eos> ", "\n"))


def agreement(data: Path, here: Path) -> Iterator[tuple[str, int, float, float]]:
    """Options, processes, the largest difference from one process of any parameter, and the test perplexity."""
    for name, options in ALIKE.items():
        for processes in (1, 2, 3, 4):
            train(processes, *options, here=here)
            found = run(1, "eval", f"{processes}.model", "--test", str(data / "ptb/ptb.test.txt"), cwd=here)
            one, other = (LanguageModel.load(str(here / f"{number}.model")).tensors for number in (1, processes))
            real = [key for key, tensor in one.items() if tensor.dtype == np.float32]
            largest = max(float(np.abs(one[key] - other[key]).max()) for key in real)
            yield name, processes, largest, found["test"][0]["perplexity"]


def measured(data: Path, here: Path) -> Iterator[tuple[str, int, float, float]]:
    """Command, processes, bytes for a word as measured, and as the model says."""
    counts = Vocabulary.load(str(here / "vocab.safetensors")).counts
    shape = Shape(len(counts), 300, 300, 2)
    for noise in ("token", "step", "batch", "softmax"):
        options = ["--loss", "softmax"] if noise == "softmax" else ["--noise", noise]
        for processes in (2, 4):
            found = train(processes, *options, here=here)
            k = 100 * (STEPS if noise == "step" else 1)
            expected = train_bytes(counts, shape, 20, k, noise, processes)
            yield f"train-lm, {noise}", processes, found["bytes_sent"] / found["tokens"], expected
    with open(data / "wiki/wiki100.txt", "rb") as file:
        (here / "wiki.txt").write_bytes(file.read(WIKI_BYTES))
    for processes in (2, 4):
        found = run(processes, "vocab", "wiki.txt", "-o", "v", cwd=here)
        yield "vocab", processes, found["bytes_sent"] / (found["tokens"] / processes), _vocab_bytes(here, processes)
    for processes in (2, 4):
        found = run(
            processes, "embed", "wiki.txt", "--vocab", "v", "--epochs", "1", "--threads", "1", "-o", "e", cwd=here
        )
        own = found["tokens"] / processes
        yield "embed, size 100", processes, found["bytes_sent"] / own, embed_bytes(found["vocabulary"], 100, processes)


def _vocab_bytes(here: Path, processes: int) -> float:
    """The first process gives most of its different words to others: 16 bytes each, and their letters."""
    text = (here / "wiki.txt").read_bytes()
    part = text[: len(text) // processes]
    words = set(part.split())
    letters = sum(map(len, words))
    return (processes - 1) / processes * (16 * len(words) + letters) / len(part.split())


# --- the network ----------------------------------------------------------------------------------------


def zipf(words: int) -> np.ndarray:
    return np.maximum((1e9 / np.arange(1, words + 1)).astype(np.int64), 1)


def most_nodes(shape: Shape, batch: int, noise: str, network: Network, speed: Speed) -> str:
    """Nodes up to which sending takes less time than computing, when each has a batch of its own of this size."""
    counts = zipf(shape.words)
    last = 1
    for nodes in (2, 4, 8, 16, 32, 64, 128, 256):
        words = batch * nodes * STEPS
        sending = train_bytes(counts, shape, batch * nodes, 100, noise, nodes) * words / network.bandwidth
        sending += 14 * (nodes - 1) * network.latency  # collective calls, each a message to everyone at worst
        if sending > batch * STEPS / speed.words_per_second:
            break
        last = nodes
    return {1: "–", 256: "256 or more"}.get(last, str(last))


INTRODUCTION = """# What processes send to each other

Made by `benchmarks/mpi_traffic.py`. Bytes that the first process sent, for each word of the minibatch (`train-lm`:
PTB, 2×300, batch 20, k 100) or of its own part of the text (`vocab`, `embed`: 30 MB of Wikipedia), on one machine;
beside what the model in that file says. `eval` sends a few hundred bytes in all: sums.

| command, noise words | processes | measured | model |
|---|---|---|---|"""

AGREEMENT = """
## One model

The paper's model after 200 minibatches of PTB: how far any parameter is from that of one process, and the test
perplexity. One, two and four processes add up gradients in the same order (`lm/cpu/batch_parts.py`), so that their
models are the same, bit for bit. Three have another order, and the last bits differ. With Adam the models stay near
each other. With SGD at the paper's rate of 1, training begins chaotically: such a difference grows fast, and these are
different models.

| optimiser | processes | largest difference | test perplexity |
|---|---|---|---|"""

ESTIMATE = """
## Where the network takes over: an estimate

Nothing here was measured on a network, but two hosts with a link of 1 to 10 Gbit/s between them trained as fast as the
model says ([network.md](network.md)). It is the model above, for words that follow Zipf's law. Each node keeps a batch
of the given size, so the whole batch grows with the nodes. The table has the number of nodes up to which sending takes
less time than computing; that the two overlap in part, and that processes wait for each other, is left out. Bandwidths
and latencies are such as vendors and published measurements of MPI give."""


def page(data: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        prepare(data, here)
        yield INTRODUCTION
        for name, processes, found, expected in measured(data, here):
            yield f"| {name} | {processes} | {found:,.1f} | {expected:,.1f} |"
        yield AGREEMENT
        for name, processes, largest, perplexity in agreement(data, here):
            yield f"| {name} | {processes} | {largest:.1g} | {perplexity:,.3f} |"
    yield ESTIMATE
    yield "; ".join(f"{net.name}: {net.bandwidth / 1e9:g} GB/s, {net.latency * 1e6:g} µs" for net in NETWORKS) + "."
    speeds = ", ".join(f"{speed.name} {speed.words_per_second:,.0f}" for speed in SPEEDS)
    yield f"Words a second of a node: {speeds} (the first measured, the second [expected](../gpu/estimate.md))."
    yield ""
    head = [f"{network.name}, {speed.name}" for network in NETWORKS for speed in SPEEDS]
    yield f"| model | batch of a node | noise words | {' | '.join(head)} |"
    yield "|---|---|---|" + "---|" * len(head)
    for words, hidden, layers, batch in ((10_000, 300, 2, 20), (64_000, 512, 1, 1000), (800_000, 512, 1, 1000)):
        shape = Shape(words, hidden, hidden, layers)
        for noise in ("token", "batch"):
            cells = [most_nodes(shape, batch, noise, network, speed) for network in NETWORKS for speed in SPEEDS]
            yield f"| {layers}×{hidden}, {words:,} words | {batch:,} | {noise} | {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    for line in page(parser.parse_args().data.resolve()):
        print(line, flush=True)
