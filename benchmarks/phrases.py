"""How fast `neglm phrases` joins a text: beside gensim's `Phrases`, on one file, taking turns.

    python benchmarks/phrases.py [--data DIR] [--repeat N]

Both do the same job: count words and pairs, score pairs by normalised PMI (which gensim has, too), and write the text
with its phrases joined, in one pass. Times are whole processes from start to exit. In every round each contestant runs
once; a ratio is that of two times of one round, and the median of the rounds counts.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THRESHOLD, MIN_COUNT = 0.5, 5
RULE = ["--score", "npmi", "--threshold", str(THRESHOLD), "--min-count", str(MIN_COUNT), "--passes", "1"]
NEGLM = [str(Path(sys.executable).with_name("neglm")), "phrases", "corpus.txt", "--quiet", "--threads", "2"]
GENSIM = f"""
from gensim.models.phrases import Phrases
from gensim.models.word2vec import LineSentence
sentences = LineSentence("corpus.txt")
phrases = Phrases(sentences, min_count={MIN_COUNT}, threshold={THRESHOLD}, scoring="npmi", delimiter="_").freeze()
with open("gensim.txt", "w", encoding="utf-8") as file:
    for sentence in sentences:
        file.write(" ".join(phrases[sentence]) + "\\n")
"""
CONTESTANTS = {
    "neglm phrases, two threads": [*NEGLM, *RULE, "-o", "neglm.txt"],
    "gensim's Phrases": [sys.executable, "-c", GENSIM],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def words(path: str) -> int:
    """How many words and phrases there are: it tells whether both have joined the same."""
    with open(path, "rb") as file:
        return sum(len(line.split()) for line in file)


def contest(rounds: int, size: int) -> None:
    times = [{name: seconds(command) for name, command in CONTESTANTS.items()} for _ in range(rounds)]
    ours = next(iter(CONTESTANTS))
    for name in CONTESTANTS:
        column = [row[name] for row in times]
        ratios = [row[name] / row[ours] for row in times]
        median, spread = statistics.median(column), f"{min(column):.2f} to {max(column):.2f}"
        print(
            f"{name:<28}{median:6.2f} s ({spread:>14})  {size / median / 1e6:5.1f} MB/s  "
            f"{statistics.median(ratios):6.2f} × the time of neglm ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory with wiki/wiki100.txt")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    arguments = parser.parse_args()
    corpus = (arguments.data / "wiki" / "wiki100.txt").absolute()
    with tempfile.TemporaryDirectory(prefix="neglm-bench-") as directory:
        os.chdir(directory)
        os.symlink(corpus, "corpus.txt")
        size = os.path.getsize("corpus.txt")
        machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
        print(f"{size / 1e6:.0f} MB of text, {machine}, load {os.getloadavg()[0]:.1f}, {arguments.repeat} rounds\n")
        seconds(CONTESTANTS["neglm phrases, two threads"])  # compiles, if need be, and warms the page cache
        contest(arguments.repeat, size)
        print(f"\nwords and phrases in the output: {words('neglm.txt'):,}, and {words('gensim.txt'):,} by gensim")
        print("(LineSentence breaks lines after 10,000 words, and pairs there are lost to gensim)")
        os.chdir("/")


if __name__ == "__main__":
    main()
