"""Writes a vocabulary of any size that follows Zipf's law, and a text drawn from it.

    python zipf.py SIZE WORDS

Writes words-SIZE.tsv, lines of word TAB count, and text-SIZE.txt.
"""

import sys
from pathlib import Path

import numpy as np

MOST_FREQUENT = 4_000_000  # count of the first word; the n-th occurs 1/n as often, at least once
LINE = 20  # words per line


def main() -> None:
    size, words = (int(argument) for argument in sys.argv[1:])
    counts = np.maximum(MOST_FREQUENT // np.arange(1, size - 1), 1)  # neglm adds <unk> and <eos>
    Path(f"words-{size}.tsv").write_text("".join(f"w{i}\t{count}\n" for i, count in enumerate(counts.tolist())))
    drawn = np.random.default_rng(1).choice(len(counts), words, p=counts / counts.sum())
    lines = [" ".join(f"w{i}" for i in drawn[first : first + LINE]) for first in range(0, words, LINE)]
    Path(f"text-{size}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
