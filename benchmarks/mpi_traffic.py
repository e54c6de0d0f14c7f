"""Communication volume of several ranks: measured on this machine, predicted by a model, and its consequences for
networks; and agreement of their models with that of a single rank.

    python benchmarks/mpi_traffic.py --data ../shared/data > benchmarks/mpi/traffic.md

Needs mpirun, next to this Python or on the PATH (pip install 'neglm[mpi]' mpich). Nothing is timed, so the load of the
machine does not matter.
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

VALUE = 4  # bytes of a float32, and of a word id
ALLREDUCE_PASSES = 2  # reduce-scatter and allgather
STEPS = 20  # per minibatch
MINIBATCHES, BATCH = 200, 20  # of train-lm
# Options of the trainings whose models are compared.
COMPARED = {"Adam, rate 0.001": ("--optimizer", "adam"), "SGD, rate 1": ()}
WIKI_BYTES = 30_000_000
BESIDE = Path(sys.executable).with_name("mpirun")  # of the mpich wheel
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun") or "mpirun"


class Network(NamedTuple):
    name: str
    bandwidth: float  # bytes per second and rank
    latency: float  # seconds per message


# Typical of vendors' data and of published measurements of MPI over TCP and InfiniBand.
NETWORKS = (Network("10 Gbit/s Ethernet", 1.1e9, 25e-6), Network("100 Gbit/s InfiniBand", 11e9, 1.5e-6))


class Speed(NamedTuple):
    name: str
    words_per_second: float


SPEEDS = (
    Speed("two cores", 13_000),  # measured: README
    Speed("a GPU", 200_000),  # a guess: none has been measured
)


def allreduce_bytes(values: float, ranks: int) -> float:
    """Return the bytes that a rank sends for an allreduce of float32 values."""
    return ALLREDUCE_PASSES * (ranks - 1) / ranks * VALUE * values


def layer_values(shape: Shape) -> int:
    """Return the number of gradients of the layers, with the padding of the CPU kernels."""
    columns = padded(shape.hidden) // UNITS * PANEL
    return shape.layers * columns * (max(shape.inputs) + shape.hidden + 1)


def expected_distinct(shares: np.ndarray, draws: float) -> float:
    """Return the expected number of distinct words in a sample."""
    return float(-np.expm1(draws * np.log1p(-np.minimum(shares, 1 - 1e-12))).sum())


def train_bytes(counts: np.ndarray, shape: Shape, batch: int, k: int, noise: str, ranks: int) -> float:
    """Return the bytes that a rank sends per word of a minibatch."""
    text, drawn = probabilities(counts, 1), probabilities(counts, 1)
    words = batch * STEPS
    inputs = expected_distinct(text, words)
    if noise == "softmax":
        outputs, width, ids = float(shape.words), padded(shape.hidden + 1), 0.0
    else:
        draws = words * k if noise == "token" else k
        outputs, width = expected_distinct(1 - (1 - text) ** words * (1 - drawn) ** draws, 1), shape.hidden + 1
        mine = words / ranks
        own = 1 - (1 - text) ** mine * (1 - drawn) ** (draws / ranks)
        ids = (ranks - 1) * VALUE * float(own.sum()) if noise == "token" else 0.0
    values = layer_values(shape) + inputs * shape.embedding + outputs * width
    return (allreduce_bytes(values, ranks) + ids) / words


def embed_bytes(words: int, size: int, ranks: int) -> float:
    """Return the bytes that a rank sends per word that it trains on."""
    rows = sum(rows_after(number, words) for number in range(1, ALL_AFTER + 1)) / ALL_AFTER
    return 2 * allreduce_bytes(rows * size, ranks) / round_size(ranks)


# --- measuring ------------------------------------------------------------------------------------------


def run(ranks: int, *arguments: str, cwd: Path, launcher: tuple[str, ...] = (MPIRUN,)) -> dict[str, Any]:
    command = [sys.executable, "-m", "neglm_cli", *arguments, "--json", "--quiet"]
    if ranks > 1:
        command = [*launcher, "-n", str(ranks), *command]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=cwd, check=True, capture_output=True).stdout)
    return found


def train(ranks: int, *options: str, here: Path, launcher: tuple[str, ...] = (MPIRUN,)) -> dict[str, Any]:
    return run(
        ranks, "train-lm", "ptb.txt", *options, "--epochs", "1", "--threads", "1", "-o", f"{ranks}.model",
        cwd=here, launcher=launcher,
    )  # fmt: skip


def prepare(data: Path, here: Path, minibatches: int = MINIBATCHES) -> None:
    """Write the words of PTB for one epoch of these minibatches, and the vocabulary of all of PTB."""
    run(1, "vocab", str(data / "ptb/ptb.train.txt"), cwd=here)
    words = (data / "ptb/ptb.train.txt").read_text().replace("\n", " <eos> ").split()
    (here / "ptb.txt").write_text(" ".join(words[: minibatches * BATCH * STEPS + 1]).replace(" <eos> ", "\n"))


def agreement(data: Path, here: Path) -> Iterator[tuple[str, int, float, float]]:
    """Yield options, ranks, the largest difference of any parameter from a single rank, and the test perplexity."""
    for name, options in COMPARED.items():
        for ranks in (1, 2, 3, 4):
            train(ranks, *options, here=here)
            found = run(1, "eval", f"{ranks}.model", "--test", str(data / "ptb/ptb.test.txt"), cwd=here)
            one, other = (LanguageModel.load(str(here / f"{number}.model")).tensors for number in (1, ranks))
            real = [key for key, tensor in one.items() if tensor.dtype == np.float32]
            largest = max(float(np.abs(one[key] - other[key]).max()) for key in real)
            yield name, ranks, largest, found["test"][0]["perplexity"]


def measured(data: Path, here: Path) -> Iterator[tuple[str, int, float, float]]:
    """Yield command, ranks, and bytes per word, measured and predicted."""
    counts = Vocabulary.load(str(here / "vocab.safetensors")).counts
    shape = Shape(len(counts), 300, 300, 2)
    for noise in ("token", "step", "batch", "softmax"):
        options = ["--loss", "softmax"] if noise == "softmax" else ["--noise", noise]
        for ranks in (2, 4):
            found = train(ranks, *options, here=here)
            k = 100 * (STEPS if noise == "step" else 1)
            expected = train_bytes(counts, shape, 20, k, noise, ranks)
            yield f"train-lm, {noise}", ranks, found["bytes_sent"] / found["tokens"], expected
    with open(data / "wiki/wiki100.txt", "rb") as file:
        (here / "wiki.txt").write_bytes(file.read(WIKI_BYTES))
    for ranks in (2, 4):
        found = run(ranks, "vocab", "wiki.txt", "-o", "v", cwd=here)
        yield "vocab", ranks, found["bytes_sent"] / (found["tokens"] / ranks), _vocab_bytes(here, ranks)
    for ranks in (2, 4):
        found = run(ranks, "embed", "wiki.txt", "--vocab", "v", "--epochs", "1", "--threads", "1", "-o", "e", cwd=here)
        own = found["tokens"] / ranks
        yield "embed, size 100", ranks, found["bytes_sent"] / own, embed_bytes(found["vocabulary"], 100, ranks)


def _vocab_bytes(here: Path, ranks: int) -> float:
    """Predict bytes per word: rank 0 sends most of its distinct words to others, 16 bytes each plus their own bytes."""
    text = (here / "wiki.txt").read_bytes()
    part = text[: len(text) // ranks]
    words = set(part.split())
    length = sum(map(len, words))
    return (ranks - 1) / ranks * (16 * len(words) + length) / len(part.split())


# --- the network ----------------------------------------------------------------------------------------


def zipf(words: int) -> np.ndarray:
    return np.maximum((1e9 / np.arange(1, words + 1)).astype(np.int64), 1)


def most_nodes(shape: Shape, batch: int, noise: str, network: Network, speed: Speed) -> str:
    """Return the number of nodes up to which communication takes less time than computation, with this batch per
    node."""
    counts = zipf(shape.words)
    last = 1
    for nodes in (2, 4, 8, 16, 32, 64, 128, 256):
        words = batch * nodes * STEPS
        sending = train_bytes(counts, shape, batch * nodes, 100, noise, nodes) * words / network.bandwidth
        sending += 14 * (nodes - 1) * network.latency  # collective calls, each a message to every rank at worst
        if sending > batch * STEPS / speed.words_per_second:
            break
        last = nodes
    return {1: "–", 256: "256 or more"}.get(last, str(last))


INTRODUCTION = """# Communication volume

Generated by `benchmarks/mpi_traffic.py`. Bytes sent by rank 0, per word of the minibatch (`train-lm`: PTB, 2×300, batch
20, k 100) or of its own shard of the text (`vocab`, `embed`: 30 MB of Wikipedia), measured on one machine and predicted
by the model in that file. `eval` sends a few hundred bytes in total.

| command, noise words | ranks | measured | model |
|---|---|---|---|"""

AGREEMENT = """
## Agreement

The paper's model after 200 minibatches of PTB: the largest difference of any parameter from a single rank, and the test
perplexity. One, two and four ranks sum gradients in the same order (`lm/cpu/batch_parts.py`), so that their models are
identical, bit for bit. Three ranks have another order, and the last bits differ. With Adam the models stay close. With
SGD at the paper's learning rate of 1, training is chaotic at first: the difference grows quickly, and the models
diverge.

| optimizer | ranks | largest difference | test perplexity |
|---|---|---|---|"""

ESTIMATE = """
## Network limits: an estimate

Nothing here was measured on a network, but two hosts with a link of 1 to 10 Gbit/s trained as fast as the model
predicts ([network.md](network.md)). This is the model above, for words that follow Zipf's law. Each node has a batch of
the given size, so the total batch grows with the number of nodes. The table shows the number of nodes up to which
communication takes less time than computation, ignoring partial overlap and waiting. Bandwidths and latencies are
typical of vendors' data and published measurements of MPI."""


def page(data: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        prepare(data, here)
        yield INTRODUCTION
        for name, ranks, found, expected in measured(data, here):
            yield f"| {name} | {ranks} | {found:,.1f} | {expected:,.1f} |"
        yield AGREEMENT
        for name, ranks, largest, perplexity in agreement(data, here):
            yield f"| {name} | {ranks} | {largest:.1g} | {perplexity:,.3f} |"
    yield ESTIMATE
    yield "; ".join(f"{net.name}: {net.bandwidth / 1e9:g} GB/s, {net.latency * 1e6:g} µs" for net in NETWORKS) + "."
    speeds = ", ".join(f"{speed.name} {speed.words_per_second:,.0f}" for speed in SPEEDS)
    yield f"Words per second of a node: {speeds} (the first measured, the second [expected](../gpu/estimate.md))."
    yield ""
    head = [f"{network.name}, {speed.name}" for network in NETWORKS for speed in SPEEDS]
    yield f"| model | batch per node | noise words | {' | '.join(head)} |"
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
