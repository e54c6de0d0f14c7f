"""Speed of `neglm vocab`, compared with `wc -w` and a `collections.Counter` loop, on the same file, in turn.

    python benchmarks/vocab.py [--data DIR] [--rounds N] [--size MB] [--small] [--json FILE]

Rates are of whole processes from start to exit. Each contestant runs once per round; ratios compare rates of the same
round, and the result is the median over rounds.
"""

import platform
import shutil
import statistics
import sys
from functools import partial
from pathlib import Path

from side_by_side import NEGLM, THREADS, compare, demo_text, option_parser, output, printed_json, seconds, workplace

VOCAB = [NEGLM, "vocab", "--quiet", "--threads", THREADS]
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
from neglm_cli.text.corpus import open_corpus
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
DISTINCT = 10_000_000


def sample(data: Path, small: bool) -> bytes:
    """Return natural text: Wikipedia if available, else the demo's corpus."""
    path = data / "wiki" / "wiki-raw30.txt"
    if path.exists() and not small:
        return path.read_bytes()
    if not small:
        print(f"{path} does not exist: using Python's documentation, for which ratios differ\n")
    return demo_text()


def contestants() -> dict[str, list[str]]:
    loop = f"Counter loop, Python {platform.python_version()}"
    found = {"neglm vocab": [*VOCAB, "corpus.txt"], loop: [sys.executable, "-c", COUNTER, "corpus.txt"]}
    if shutil.which("wc") is None:
        print("skipping wc, which is not installed: it is part of coreutils\n")
        return found
    first = output("wc", "--version").decode().splitlines()[0]  # wc (GNU coreutils) 9.1
    version = first.split()[-1]
    return found | {
        f"wc -w {version}": ["wc", "-w", "corpus.txt"],
        f"wc -w {version}, LC_ALL=C": ["env", "LC_ALL=C", "wc", "-w", "corpus.txt"],
    }


def encoding(rounds: int, size: int) -> None:
    times = [float(line) for line in output(sys.executable, "-c", ENCODE, str(rounds)).split()]
    encode, count = times[::2], times[1::2]
    ratio = statistics.median(c / e for e, c in zip(encode, count, strict=True))
    rates = [size / statistics.median(column) / 1e6 for column in (encode, count)]
    print(f"without startup: encoding {rates[0]:.0f} MB/s, counting {rates[1]:.0f} MB/s, ratio {ratio:.2f}")


def start_up(rounds: int) -> None:
    times = [seconds(*VOCAB, "small.txt", "-o", "small.safetensors") for _ in range(rounds)]
    print(f"a file of 1 KB: {statistics.median(times):.2f} s")


def memory(path: str) -> None:
    peak = int(output(sys.executable, "-c", PEAK, *VOCAB, path, "-o", "memory.safetensors")) * 1024
    words = printed_json(NEGLM, "info", "memory.safetensors", "--json")["metadata"]["distinct_words"]
    allowed = (300e6 + 100 * words) / 1e6
    print(f"{words:,} distinct words: peak {peak / 1e6:,.0f} MB (300 MB + 100 bytes per word: {allowed:,.0f} MB)")


def main() -> None:
    parser = option_parser(__doc__, rounds=7)
    parser.add_argument("--size", type=int, default=300, help="megabytes of text")
    options = parser.parse_args()
    text = sample(options.data, options.small)
    copies = 1 if options.small else max(1, round(options.size * 1e6 / len(text)))
    with workplace():
        with open("corpus.txt", "wb") as file:
            for _ in range(copies):
                file.write(text)
            size = file.tell()
        Path("small.txt").write_bytes(text[:1000])
        output(*VOCAB, "corpus.txt")  # compiles kernels and warms the page cache
        commands = contestants()

        def rate(command: list[str]) -> float:
            return size / seconds(*command) / 1e6

        runs = {name: partial(rate, command) for name, command in commands.items()}
        compare("vocab", f"{size / 1e6:.0f} MB of text", "MB/s", runs, set(list(runs)[1:]), options)
        encoding(options.rounds, size)
        start_up(options.rounds)
        memory("corpus.txt")
        with open("distinct.txt", "w", encoding="ascii") as words:  # all words distinct: the worst case
            count = DISTINCT // 100 if options.small else DISTINCT
            words.writelines(f"word{i:x}{' ' if i % 10 else chr(10)}" for i in range(count))
        memory("distinct.txt")


if __name__ == "__main__":
    main()
