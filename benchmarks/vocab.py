"""How fast `neglm vocab` counts: beside `wc -w` and a `collections.Counter` loop, on one file, taking turns.

    python benchmarks/vocab.py [--data DIR] [--repeat N] [--size MB]

Times are whole processes from start to exit, as a user waits for them. In every round each contestant runs
once; a ratio is that of two times of one round, and the median of the rounds counts.
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
VOCAB = [*NEGLM, "vocab", "--quiet", "--threads", "2"]
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
encoder = Encoder(Vocabulary.load("vocab.safetensors"))
def encode(path):
    start = time.perf_counter()
    for _ in encoder.encode_corpus(open_corpus([path]), 2): pass
    return time.perf_counter() - start
def count(path):
    start = time.perf_counter()
    with counting(open_corpus([path]), 2, 1 << 30, lambda read: None): pass
    return time.perf_counter() - start
encode("small.txt"), count("small.txt")  # loads the kernels
print(*(f"{encode('corpus.txt')} {count('corpus.txt')}" for _ in range(int(sys.argv[1]))))
"""
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
CONTESTANTS = {
    "neglm vocab, two threads": [*VOCAB, "corpus.txt"],
    "wc -w": ["wc", "-w", "corpus.txt"],
    "wc -w, LC_ALL=C": ["env", "LC_ALL=C", "wc", "-w", "corpus.txt"],
    "Counter loop": [sys.executable, "-c", COUNTER, "corpus.txt"],
}
DISTINCT = 10_000_000


def sample(data: Path) -> bytes:
    """Natural text: Wikipedia if it is there, else the demo's corpus."""
    path = data / "wiki" / "wiki-raw30.txt"
    if path.exists():
        return path.read_bytes()
    print(f"{path} is not there: using Python's documentation, on which the ratios differ\n")
    script = Path(__file__).parent.parent / "examples" / "demo" / "python_docs.py"
    return output([sys.executable, str(script)])


def output(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    output(command)
    return time.perf_counter() - start


def contest(rounds: int, size: int) -> None:
    times = [{name: seconds(command) for name, command in CONTESTANTS.items()} for _ in range(rounds)]
    ours = next(iter(CONTESTANTS))
    for name in CONTESTANTS:
        column = [row[name] for row in times]
        median, spread = statistics.median(column), f"{min(column):.2f} to {max(column):.2f}"
        ratio = statistics.median(row[name] / row[ours] for row in times)
        speed = size / median / 1e6
        print(f"{name:<26}{median:6.2f} s ({spread:>14})  {speed:4.0f} MB/s  {ratio:6.2f} × the time of neglm")


def encoding(rounds: int, size: int) -> None:
    numbers = [float(number) for number in output([sys.executable, "-c", ENCODE, str(rounds)]).split()]
    encode, count = numbers[::2], numbers[1::2]
    ratio = statistics.median(c / e for e, c in zip(encode, count, strict=True))
    rates = [size / statistics.median(column) / 1e6 for column in (encode, count)]
    print(f"\nwithout start-up: encoding {rates[0]:.0f} MB/s, counting {rates[1]:.0f} MB/s, ratio {ratio:.2f}")


def start_up(rounds: int) -> None:
    times = [seconds([*VOCAB, "small.txt", "-o", "small.safetensors"]) for _ in range(rounds)]
    print(f"a file of 1 KB: {statistics.median(times):.2f} s")


def memory(path: str) -> None:
    peak = int(output([sys.executable, "-c", PEAK, *VOCAB, path, "-o", "memory.safetensors"])) * 1024
    words = json.loads(output([*NEGLM, "info", "memory.safetensors", "--json"]))["distinct"]
    allowed = (300e6 + 100 * words) / 1e6
    print(f"{words:,} distinct words: at most {peak / 1e6:,.0f} MB (300 MB + 100 bytes a word are {allowed:,.0f} MB)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory with wiki/wiki-raw30.txt")
    parser.add_argument("--repeat", type=int, default=7, help="rounds")
    parser.add_argument("--size", type=int, default=300, help="megabytes of text")
    arguments = parser.parse_args()
    text = sample(arguments.data.absolute())
    with tempfile.TemporaryDirectory(prefix="neglm-bench-") as directory:
        os.chdir(directory)
        with open("corpus.txt", "wb") as file:
            for _ in range(max(1, round(arguments.size * 1e6 / len(text)))):
                file.write(text)
            size = file.tell()
        Path("small.txt").write_bytes(text[:1000])
        output([*VOCAB, "corpus.txt"])  # compiles, if need be, and warms the page cache
        machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
        print(f"{size / 1e6:.0f} MB of text, {machine}, {arguments.repeat} rounds\n")
        contest(arguments.repeat, size)
        encoding(arguments.repeat, size)
        start_up(arguments.repeat)
        memory("corpus.txt")
        with open("distinct.txt", "w", encoding="ascii") as words:  # every word another: the worst case
            words.writelines(f"word{i:x}{' ' if i % 10 else chr(10)}" for i in range(DISTINCT))
        memory("distinct.txt")
        os.chdir("/")


if __name__ == "__main__":
    main()
