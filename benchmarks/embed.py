"""How fast `neglm embed` trains, and how good its vectors are: beside gensim, with the same settings, taking turns.

    python benchmarks/embed.py [--data DIR] [--rounds N] [--seeds N] [--sizes 100,300] [--part speed|quality|both]

Speed: every round trains each contestant for one epoch; words/s are those of the training alone, without counting
and without writing. A ratio is that of two rates of one round, and the median of the rounds counts.
Quality: five epochs for every seed, evaluated by `neglm eval` for all; figures are means over the seeds, in points.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NEGLM = str(Path(sys.executable).with_name("neglm"))
SETTINGS = ["--window", "5", "--k", "5", "--sample", "1e-4", "--min-count", "5", "--threads", "2"]
GENSIM = """
import json, sys, time
from gensim.models import Word2Vec
from gensim.models.word2vec import LineSentence
path, size, epochs, seed, output = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
model = Word2Vec(vector_size=size, window=5, negative=5, sample=1e-4, min_count=5, sg=1, hs=0, workers=2, seed=seed)
model.build_vocab(LineSentence(path))
start = time.perf_counter()
model.train(LineSentence(path), total_words=model.corpus_total_words, epochs=epochs)
seconds = time.perf_counter() - start
model.wv.save_word2vec_format(output, binary=True)
print(json.dumps({"per_second": model.corpus_total_words * epochs / seconds}))
"""
OURS, DETERMINISTIC, PEER = "neglm embed", "neglm embed --deterministic", "gensim"
FIGURES = ("WordSim-353", "SimLex-999", "analogies")


def run(*command: str) -> Any:
    """The JSON that a command prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout) if done.stdout else None


def train(who: str, corpus: Path, size: int, epochs: int, seed: int) -> float:
    """Train, and leave the vectors in trained.safetensors; returns words per second."""
    if who == PEER:
        result = run(sys.executable, "-c", GENSIM, str(corpus), str(size), str(epochs), str(seed), "trained.bin")
        run(NEGLM, "import", "trained.bin", "-o", "trained.safetensors", "--quiet")
    else:
        options = ["--deterministic"] if who == DETERMINISTIC else []
        numbers = ["--size", str(size), "--epochs", str(epochs), "--seed", str(seed)]
        result = run(NEGLM, "embed", "--json", *SETTINGS, *options, *numbers, "-o", "trained.safetensors")
    return float(result["per_second"])


def quality(data: Path) -> tuple[float, float, float]:
    """WordSim-353 and SimLex-999 (Spearman) and analogies (3CosAdd), in points."""
    sets = [str(data / "similarity" / name) for name in ("ws353.tsv", "simlex999.tsv")]
    questions = str(data / "analogy" / "questions-words.txt")
    files = ["--similarity", *sets, "--analogy", questions]
    result = run(NEGLM, "eval", "trained.safetensors", *files, "--fold-case", "--method", "add", "--json")
    similar = [entry["spearman"] for entry in result["similarity"]]
    accuracy = result["analogy"][0]["total"]["add"]["accuracy"]
    return 100 * similar[0], 100 * similar[1], 100 * accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sizes", default="100,300")
    parser.add_argument("--part", choices=["speed", "quality", "both"], default="both")
    options = parser.parse_args()
    data = options.data.resolve()
    corpus = data / "wiki" / "wiki100.txt"
    if not corpus.exists():
        sys.exit(f"{corpus} is not there: name the directory that has wiki/wiki100.txt with --data")
    try:
        import gensim
    except ImportError:
        sys.exit("gensim is not installed: pip install gensim")
    sizes = [int(size) for size in options.sizes.split(",")]
    print(
        f"{corpus.name}, {corpus.stat().st_size:,} bytes; gensim {gensim.__version__}; "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        run(NEGLM, "vocab", str(corpus), "--quiet")
        train(OURS, corpus, sizes[0], 1, 1)  # compiles, and makes the encoded copy
        train(DETERMINISTIC, corpus, sizes[0], 1, 1)
        for size in sizes:
            if options.part != "quality":
                compare_speed(corpus, size, options.rounds)
            if options.part != "speed":
                compare_quality(corpus, data, size, options.seeds)


def compare_speed(corpus: Path, size: int, rounds: int) -> None:
    rates: dict[str, list[float]] = {OURS: [], PEER: [], DETERMINISTIC: []}
    for number in range(rounds):
        for who, found in rates.items():
            found.append(train(who, corpus, size, 1, number + 1))
    print(f"size {size}: million words/s, median of {rounds} (lowest, highest), and times {PEER}")
    for who, found in rates.items():
        ratio = statistics.median(mine / peer for mine, peer in zip(found, rates[PEER], strict=True))
        print(
            f"  {who:<30}{statistics.median(found) / 1e6:6.2f} ({min(found) / 1e6:.2f}, {max(found) / 1e6:.2f})"
            f"{ratio:8.2f}"
        )
    share = statistics.median(a / b for a, b in zip(rates[DETERMINISTIC], rates[OURS], strict=True))
    print(f"  --deterministic has {share:.2f} of the speed\n", flush=True)


def compare_quality(corpus: Path, data: Path, size: int, seeds: int) -> None:
    found: dict[str, list[tuple[float, float, float]]] = {OURS: [], DETERMINISTIC: [], PEER: []}
    for seed in range(1, seeds + 1):
        for who, figures in found.items():
            train(who, corpus, size, 5, seed)
            figures.append(quality(data))
            print(f"  {who}, size {size}, seed {seed}: " + ", ".join(f"{x:.2f}" for x in figures[-1]), flush=True)
    print(f"size {size}: five epochs, mean of {seeds} seeds (lowest, highest)")
    print(f"  {'':<30}" + "".join(f"{name:>24}" for name in FIGURES))
    for who, figures in found.items():
        columns = [f"{statistics.mean(c):.2f} ({min(c):.2f}, {max(c):.2f})" for c in zip(*figures, strict=True)]
        print(f"  {who:<30}" + "".join(f"{column:>24}" for column in columns))
    print(flush=True)


if __name__ == "__main__":
    main()
