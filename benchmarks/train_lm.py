"""How fast `neglm train-lm` trains: beside PyTorch, with the same model, text and threads, taking turns.

    python benchmarks/train_lm.py [--data DIR] [--rounds N] [--part all|ptb|gemm|vocabulary|1b]

ptb: 2×300, batch 20, 20 steps, k = 100, dropout 0.5, SGD with clipping, on the first words of PTB: independent noise
words, noise words shared by the minibatch, and the full softmax. Words/s are those of the training alone, without
start-up; a ratio is that of two rates of one round, and the median of the rounds counts.
gemm: the rate of the LSTM's products, as a share of the best that NumPy's sgemm reaches on this machine.
vocabulary: words/s with 10,000 and with 800,000 words in the vocabulary, the same model.
1b: 1×512, batch 1000, 64,000 words, Adam.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NEGLM = str(Path(sys.executable).with_name("neglm"))
THREADS = "2"
MINIBATCHES = 150
WORDS = 400 * MINIBATCHES + 20  # of PTB


def run(*command: str) -> Any:
    """The JSON that a command prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout) if done.stdout else None


def neglm_rate(*options: str) -> float:
    """Words per second of one epoch."""
    command = (NEGLM, "train-lm", "--epochs", "1", "--threads", THREADS, "--json", "-o", "model.safetensors", *options)
    return float(run(*command)["words_per_second"])


def peer_rate(path: str, *options: str) -> float:
    return float(
        run(sys.executable, str(HERE / "train_lm_pytorch.py"), path, "words.txt", *options)["words_per_second"]
    )


def compare(name: str, rounds: int, mine: list[str], path: str, peers: list[str]) -> None:
    neglm_rate(path, *mine)  # compiles, and makes the encoded copy
    rates = [(neglm_rate(path, *mine), peer_rate(path, *peers)) for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*rates, strict=True))
    ratios = [a / b for a, b in rates]
    print(
        f"  {name:<34}{ours:>9,.0f}{theirs:>10,.0f}{statistics.median(ratios):>8.2f}  "
        f"({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )


def write_words(vocabulary: str) -> None:
    """The vocabulary's words, one a line, for the peer."""
    text = subprocess.run((NEGLM, "info", vocabulary, "--words"), check=True, stdout=subprocess.PIPE).stdout
    Path("words.txt").write_bytes(b"".join(line.split(b"\t")[0] + b"\n" for line in text.splitlines()))


def ptb(data: Path, rounds: int) -> None:
    source = data / "ptb" / "ptb.train.txt"
    if not source.exists():
        sys.exit(f"{source} is not there: name the directory that has ptb/ptb.train.txt with --data")
    run(NEGLM, "vocab", str(source), "--quiet")
    write_words("vocab.safetensors")
    lines, words = [], 0
    with open(source, "rb") as file:
        while words < WORDS:
            lines.append(file.readline())
            words += len(lines[-1].split()) + 1
    Path("part.txt").write_bytes(b"".join(lines))
    same = ["300", "2", "20", "100", "0.5", "sgd", str(MINIBATCHES)]
    print(f"PTB, 2×300: words/s, median of {rounds}, and the ratio (lowest and highest)")
    print(f"  {'':<34}{'neglm':>9}{'PyTorch':>10}{'ratio':>8}")
    compare("independent noise words", rounds, ["--noise", "token"], "part.txt", ["token", *same])
    compare("noise words shared by a minibatch", rounds, ["--noise", "batch"], "part.txt", ["batch", *same])
    compare("full softmax", rounds, ["--loss", "softmax"], "part.txt", ["softmax", *same])
    print(flush=True)


def gemm(rounds: int) -> None:
    """The LSTM's products beside the best sgemm: in processes of their own, whose threads do not meet."""
    best, layer = [], []
    for _ in range(rounds):
        best.append(run(sys.executable, str(HERE / "lstm_rate.py"), "sgemm")["rate"])
        layer.append(run(sys.executable, str(HERE / "lstm_rate.py"), "lstm")["rate"])
    share = statistics.median(a / b for a, b in zip(layer, best, strict=True))
    print(
        f"LSTM, 2×300, forward and backward: {statistics.median(layer):.0f} GFLOP/s; sgemm of NumPy, 2048³: "
        f"{statistics.median(best):.0f} GFLOP/s; {share:.0%} of it\n",
        flush=True,
    )


def zipf_text(path: str, vocabulary: int, words: int) -> None:
    """A text whose words have Zipf's frequencies, and vocab-PATH of all of them, seen or not."""
    import numpy as np

    counts = np.maximum(4_000_000 // np.arange(1, vocabulary - 1), 1)
    Path("list.tsv").write_text("".join(f"w{i}\t{count}\n" for i, count in enumerate(counts.tolist())))
    run(NEGLM, "vocab", "--merge", "list.tsv", "-o", f"vocab-{path}", "--quiet")
    drawn = np.random.default_rng(0).choice(len(counts), words, p=counts / counts.sum())
    lines = [" ".join(f"w{i}" for i in drawn[first : first + 20]) for first in range(0, words, 20)]
    Path(path).write_text("\n".join(lines) + "\n")


def vocabulary_sizes(rounds: int) -> None:
    sizes = {"small": 10_000, "large": 800_000}
    for name, size in sizes.items():
        zipf_text(name, size, 120_000)
        neglm_rate(name, "--vocab", f"vocab-{name}")
    rates = [[neglm_rate(name, "--vocab", f"vocab-{name}") for name in sizes] for _ in range(rounds)]
    small, large = (statistics.median(column) for column in zip(*rates, strict=True))
    share = statistics.median(b / a for a, b in rates)
    print(
        f"2×300, k 100: {small:,.0f} words/s with 10,000 words in the vocabulary, {large:,.0f} with 800,000; "
        f"{share:.2f} of it\n",
        flush=True,
    )


def one_billion(rounds: int) -> None:
    zipf_text("billion", 64_000, 22_000 * 12)
    write_words("vocab-billion")
    mine = ["--preset", "1b", "--vocab", "vocab-billion"]
    print(f"1×512, batch 1000, 64,000 words, Adam: words/s, median of {rounds}, and the ratio (lowest and highest)")
    print(f"  {'':<34}{'neglm':>9}{'PyTorch':>10}{'ratio':>8}")
    same = ["512", "1", "1000", "100", "0.1", "adam", "10"]
    compare("independent noise words", rounds, [*mine, "--noise", "token"], "billion", ["token", *same])
    compare("noise words shared by a minibatch", rounds, [*mine, "--noise", "batch"], "billion", ["batch", *same])
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=["all", "ptb", "gemm", "vocabulary", "1b"], default="all")
    options = parser.parse_args()
    data = options.data.resolve()
    if options.part in ("all", "ptb", "1b") and importlib.util.find_spec("torch") is None:
        sys.exit("PyTorch is not installed: pip install torch==2.13.0")
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}, {THREADS} threads; "
        f"{time.strftime('%Y-%m-%d')}\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        if options.part in ("all", "ptb"):
            ptb(data, options.rounds)
        if options.part in ("all", "gemm"):
            gemm(options.rounds)
        if options.part in ("all", "vocabulary"):
            vocabulary_sizes(options.rounds)
        if options.part in ("all", "1b"):
            one_billion(options.rounds)


if __name__ == "__main__":
    main()
