"""How fast `neglm vocab` counts: beside `wc -w` and a `collections.Counter` loop, on one file, taking turns.

    python benchmarks/vocab.py [--data DIR] [--repeat N] [--size MB]

Times are whole processes from start to exit, as a user waits for them; the median of the repeats counts.
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
from pathlib import Path

NEGLM = [str(Path(sys.executable).with_name("neglm"))]
COUNTER = """
import sys, collections
counts = collections.Counter()
with open(sys.argv[1], "rb") as file:
    for line in file:
        counts.update(line.split())
print(len(counts))
"""
ENCODE = """
import sys, time
from neglm_cli.text.count import counting
from neglm_cli.text.encode import Encoder
from neglm_cli.text.source import open_corpus
from neglm_cli.text.vocabulary import Vocabulary
corpus, encoder = open_corpus([sys.argv[1]]), Encoder(Vocabulary.load(sys.argv[2]))
list(encoder.encode_corpus(open_corpus([sys.argv[3]]), 2))  # kernels are loaded
with counting(open_corpus([sys.argv[3]]), 2, 1 << 30, lambda count: None): pass
start = time.perf_counter()
for _ in encoder.encode_corpus(corpus, 2): pass
middle = time.perf_counter()
with counting(corpus, 2, 1 << 30, lambda count: None): pass
print(middle - start, time.perf_counter() - middle)
"""


def sample(data: Path) -> bytes:
    """Natural text: Wikipedia if it is there, else the demo's corpus."""
    path = data / "wiki" / "wiki-raw30.txt"
    if path.exists():
        return path.read_bytes()
    print(f"{path} is not there: using Python's documentation, on which the ratios differ", file=sys.stderr)
    script = Path(__file__).parent.parent / "examples" / "demo" / "python_docs.py"
    return subprocess.run([sys.executable, str(script)], check=True, capture_output=True).stdout


def seconds(command: list[str], directory: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def peak_memory(command: list[str], directory: Path) -> int:
    """Bytes resident at the most, measured in a child of its own."""
    probe = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); \
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    output = subprocess.run(
        [sys.executable, "-c", probe, *command], cwd=directory, check=True, capture_output=True
    ).stdout
    return int(output) * 1024


def distinct_words(path: Path, count: int) -> None:
    """A file in which every word is another: the worst case for memory."""
    with open(path, "w", encoding="ascii") as file:
        for start in range(0, count, 10):
            file.write(" ".join(f"word{i:x}" for i in range(start, start + 10)) + "\n")


def report(label: str, times: list[float], size: int) -> float:
    median = statistics.median(times)
    spread = f"{min(times):.2f} to {max(times):.2f}"
    print(f"{label:<34}{median:7.2f} s  ({spread:>12})  {size / median / 1e6:6.0f} MB/s")
    return median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory with wiki/wiki-raw30.txt")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--size", type=int, default=300, help="megabytes of text")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neglm-bench-") as name:
        directory = Path(name)
        text = sample(arguments.data)
        corpus, small, distinct = directory / "corpus.txt", directory / "small.txt", directory / "distinct.txt"
        with open(corpus, "wb") as file:
            for _ in range(max(1, round(arguments.size * 1e6 / len(text)))):
                file.write(text)
        small.write_bytes(text[:1000])
        size = corpus.stat().st_size
        vocab = [*NEGLM, "vocab", "--quiet", "--threads", "2"]
        subprocess.run(
            [*vocab, "corpus.txt"], cwd=directory, check=True
        )  # compiles, if need be, and warms the page cache
        print(
            f"{size / 1e6:.0f} MB of text, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}\n"
        )

        contestants: dict[str, list[str]] = {
            "neglm vocab, two threads": [*vocab, "corpus.txt"],
            "wc -w": ["wc", "-w", "corpus.txt"],
            "wc -w, LC_ALL=C": ["env", "LC_ALL=C", "wc", "-w", "corpus.txt"],
        }
        times: dict[str, list[float]] = {label: [] for label in contestants}
        for _ in range(arguments.repeat):
            for label, command in contestants.items():
                times[label].append(seconds(command, directory))
        counter = [
            seconds([sys.executable, "-c", COUNTER, "corpus.txt"], directory) for _ in range(min(3, arguments.repeat))
        ]
        ours = report("neglm vocab, two threads", times["neglm vocab, two threads"], size)
        peers = {label: report(label, times[label], size) for label in ("wc -w", "wc -w, LC_ALL=C")}
        peers["Counter loop"] = report("Counter loop", counter, size)
        print()
        for label, median in peers.items():
            print(f"neglm vocab is {median / ours:.2f} times as fast as {label}")

        pairs = []
        for _ in range(arguments.repeat):
            command = [sys.executable, "-c", ENCODE, "corpus.txt", "vocab.safetensors", "small.txt"]
            output = subprocess.run(command, cwd=directory, check=True, capture_output=True).stdout
            pairs.append([float(value) for value in output.split()])
        encode, count = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(count / encode for encode, count in pairs)
        print(
            f"\nencoding {size / encode / 1e6:.0f} MB/s, counting {size / count / 1e6:.0f} MB/s, without start-up: ratio {ratio:.2f}"
        )

        start_up = [
            seconds([*vocab, "small.txt", "-o", "small.safetensors"], directory) for _ in range(arguments.repeat)
        ]
        print(f"neglm vocab on a file of 1 KB: {statistics.median(start_up):.2f} s")

        words = json.loads(
            subprocess.run(
                [*NEGLM, "info", "vocab.safetensors", "--json"], cwd=directory, check=True, capture_output=True
            ).stdout
        )["distinct"]
        memory(f"{words:,} distinct words", peak_memory([*vocab, "corpus.txt"], directory), words)
        distinct_words(distinct, 10_000_000)
        memory(
            "10,000,000 distinct words",
            peak_memory([*vocab, "distinct.txt", "-o", "d.safetensors"], directory),
            10_000_000,
        )


def memory(label: str, peak: int, words: int) -> None:
    allowed = 300e6 + 100 * words
    print(f"{label}: {peak / 1e6:,.0f} MB at the most; 300 MB + 100 bytes a word are {allowed / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
