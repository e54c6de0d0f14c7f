"""Speed of `neglm train-lm`, compared with PyTorch with the same model, text and threads, in turn.

    python benchmarks/train_lm.py [--data DIR] [--rounds N] [--part all|ptb|gemm|vocabulary|1b] [--peers PYTHON]

ptb: 2×300, batch 20, 20 steps, k = 100, dropout 0.5, SGD with clipping, on the first words of PTB: independent noise
words, noise words shared by the minibatch, and the full softmax. Words/s exclude startup. Ratios compare rates of the
same round, and the result is the median over rounds.
gemm: GFLOP/s of the LSTM's products, relative to the best of NumPy's sgemm on this machine.
vocabulary: words/s of the same model with a vocabulary of 10,000 and of 800,000 words.
1b: 1×512, batch 1000, 64,000 words, Adam.
"""

import argparse
import statistics
import sys
from pathlib import Path

from side_by_side import (
    HERE,
    NEGLM,
    THREADS,
    Peer,
    compare,
    find_peer,
    option_parser,
    output,
    printed_json,
    text_of,
    workplace,
)

MINIBATCHES = 150


def neglm_rate(*options: str) -> float:
    """Train one epoch. Return words per second."""
    command = (NEGLM, "train-lm", "--epochs", "1", "--threads", THREADS, "--json", "-o", "model.safetensors", *options)
    return float(printed_json(*command)["words_per_second"])


def contest(case: str, mine: list[str], path: str, theirs: list[str], peer: Peer, options: argparse.Namespace) -> None:
    """Compare one of our trainings with the same one in PyTorch."""
    program = [peer.python, str(HERE / "train_lm_pytorch.py"), path, "words.txt", *theirs]
    neglm_rate(path, *mine)  # compiles kernels, and writes the encoded copy
    runs = {
        "neglm train-lm": lambda: neglm_rate(path, *mine),
        peer.name: lambda: float(printed_json(*program)["words_per_second"]),
    }
    compare("train-lm", case, "words/s", runs, {peer.name}, options)


def write_words(vocabulary: str) -> None:
    """Write the vocabulary's words, one per line, for the peer."""
    text = output(NEGLM, "info", vocabulary, "--words")
    Path("words.txt").write_bytes(b"".join(line.split(b"\t")[0] + b"\n" for line in text.splitlines()))


def ptb(text: bytes, peer: Peer, options: argparse.Namespace) -> None:
    Path("train.txt").write_bytes(text)
    output(NEGLM, "vocab", "train.txt", "--quiet")
    write_words("vocab.safetensors")
    minibatches = 10 if options.small else MINIBATCHES
    lines, words = [], 0
    for line in text.splitlines(keepends=True):
        if words >= 400 * minibatches + 20:
            break
        lines.append(line)
        words += len(line.split()) + 1
    Path("part.txt").write_bytes(b"".join(lines))
    same = ["300", "2", "20", "100", "0.5", "sgd", str(minibatches)]
    for case, mine, mode in (
        ("2×300, independent noise", ["--noise", "token"], "token"),
        ("2×300, shared noise", ["--noise", "batch"], "batch"),
        ("2×300, softmax", ["--loss", "softmax"], "softmax"),
    ):
        contest(case, mine, "part.txt", [mode, *same], peer, options)


def gemm(rounds: int) -> None:
    """Compare the LSTM's products with the best sgemm, in separate processes, so that their threads don't interfere."""
    best, layer = [], []
    for _ in range(rounds):
        best.append(printed_json(sys.executable, str(HERE / "lstm_rate.py"), "sgemm")["rate"])
        layer.append(printed_json(sys.executable, str(HERE / "lstm_rate.py"), "lstm")["rate"])
    share = statistics.median(a / b for a, b in zip(layer, best, strict=True))
    print(
        f"LSTM, 2×300, forward and backward: {statistics.median(layer):.0f} GFLOP/s; sgemm of NumPy, 2048³: "
        f"{statistics.median(best):.0f} GFLOP/s; ratio {share:.0%}\n",
        flush=True,
    )


def zipf_text(path: str, vocabulary: int, words: int) -> None:
    """Write a text whose words follow Zipf's law, and vocab-PATH with all of them, seen or not."""
    import numpy as np

    counts = np.maximum(4_000_000 // np.arange(1, vocabulary - 1), 1)
    Path("list.tsv").write_text("".join(f"w{i}\t{count}\n" for i, count in enumerate(counts.tolist())))
    output(NEGLM, "vocab", "--merge", "list.tsv", "-o", f"vocab-{path}", "--quiet")
    drawn = np.random.default_rng(0).choice(len(counts), words, p=counts / counts.sum())
    lines = [" ".join(f"w{i}" for i in drawn[first : first + 20]) for first in range(0, words, 20)]
    Path(path).write_text("\n".join(lines) + "\n")


def vocabulary_sizes(options: argparse.Namespace) -> None:
    sizes = {"small": 10_000, "large": 80_000 if options.small else 800_000}
    for name, size in sizes.items():
        zipf_text(name, size, 6_000 if options.small else 120_000)
        neglm_rate(name, "--vocab", f"vocab-{name}")
    rates = [[neglm_rate(name, "--vocab", f"vocab-{name}") for name in sizes] for _ in range(options.rounds)]
    small, large = (statistics.median(column) for column in zip(*rates, strict=True))
    share = statistics.median(b / a for a, b in rates)
    print(
        f"2×300, k 100: {small:,.0f} words/s with {sizes['small']:,} words in the vocabulary, {large:,.0f} with "
        f"{sizes['large']:,}; ratio {share:.2f}\n",
        flush=True,
    )


def one_billion(peer: Peer, options: argparse.Namespace) -> None:
    rows, minibatches = ("100", 3) if options.small else ("1000", 10)
    zipf_text("billion", 64_000, 22 * int(rows) * (minibatches + 2))
    write_words("vocab-billion")
    mine = ["--preset", "1b", "--batch", rows, "--vocab", "vocab-billion"]
    same = ["512", "1", rows, "100", "0.1", "adam", str(minibatches)]
    for case, noise in (("1×512, independent noise", "token"), ("1×512, shared noise", "batch")):
        contest(case, [*mine, "--noise", noise], "billion", [noise, *same], peer, options)


def main() -> None:
    parser = option_parser(__doc__, rounds=5)
    parser.add_argument("--part", choices=["all", "ptb", "gemm", "vocabulary", "1b"], default="all")
    options = parser.parse_args()
    parts = {"ptb", "gemm", "vocabulary", "1b"} if options.part == "all" else {options.part}
    text = text_of(options, "ptb", "ptb.train.txt") if "ptb" in parts else b""
    peer = find_peer("torch", "PyTorch", options.peers) if parts & {"ptb", "1b"} else None
    with workplace():
        if "ptb" in parts and peer:
            ptb(text, peer, options)
        if "gemm" in parts:
            gemm(options.rounds)
        if "vocabulary" in parts:
            vocabulary_sizes(options)
        if "1b" in parts and peer:
            one_billion(peer, options)


if __name__ == "__main__":
    main()
