"""Speed and quality of `neglm filter`, compared with an n-gram model in the kenlm package, on the same text.

    python benchmarks/filter_lm.py --ngram FILE [--data DIR] [--rounds N] [--small] [--peers PYTHON] [--json FILE]

The text is PTB's test set with planted lines: as many again with their words shuffled, and 400 of other languages. FILE
is an n-gram model of PTB's training set, an ARPA or binary file, which KenLM's programs make:

    lmplz -o 5 --skip_symbols < ptb.train.txt > ptb.arpa && build_binary ptb.arpa ptb.bin

Words/s include ends of line and exclude start-up and loading. The area under the ROC curve is the probability that a
planted line has a higher perplexity than a line of the test set. For neglm, a line with more than half of its words
out of the vocabulary counts as infinite: in PTB, <unk> is a frequent word. The language model has the paper's size
(2×300) and is trained for one epoch; with --model FILE, it is a given one.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from planted_lines import planted
from side_by_side import HERE, NEGLM, THREADS, absolute, compare, find_peer, option_parser, output, text_of, workplace

TRAIN = [NEGLM, "train-lm", "train.txt", "--epochs", "1", "--threads", THREADS, "--quiet"]
FILTER = [NEGLM, "filter", "model.safetensors", "lines.txt", "--threads", THREADS, "--output", "out.txt", "--json"]
MOSTLY_OOV = 0.5  # share of unknown words: <unk> is a frequent word of PTB, so their perplexity is low
KINDS = ("test", "shuffled", "foreign")


def filtered(*options: str) -> tuple[float, np.ndarray]:
    """Run `neglm filter`. Return its words/s, and the perplexity of each line; lines of unknown words have infinity."""
    summary: dict[str, Any] = json.loads(output(*FILTER, *options))
    lines = [line.split(b"\t", 3) for line in Path("out.txt").read_bytes().splitlines()]
    perplexities, oov_shares = (np.array([float(line[column]) for line in lines]) for column in (0, 2))
    return float(summary["words_per_second"]), np.where(oov_shares > MOSTLY_OOV, np.inf, perplexities)


def scored_by_kenlm(python: str, ngram: Path) -> tuple[float, np.ndarray]:
    """Score the same lines with the n-gram model."""
    found = json.loads(output(python, str(HERE / "filter_lm_kenlm.py"), str(ngram), "lines.txt"))
    return float(found["words_per_second"]), np.array(found["perplexities"])


def area(low: np.ndarray, high: np.ndarray) -> float:
    """The area under the ROC curve: the share of pairs with low < high; ties count as half."""
    low = np.sort(low)
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(below.mean() / 2 / len(low))


def main() -> None:
    parser = option_parser(__doc__, rounds=3)
    parser.add_argument("--ngram", type=absolute, metavar="FILE", help="an n-gram model of the training text")
    parser.add_argument("--model", type=absolute, metavar="FILE", help="a language model, instead of training one")
    options = parser.parse_args()
    train, test = (text_of(options, "ptb", f"ptb.{part}.txt") for part in ("train", "test"))
    if options.small:
        train, test = train[:200_000], test[200_000:240_000]
    peer = find_peer("kenlm", "kenlm", options.peers) if options.ngram else None
    if not options.ngram:
        print("skipping kenlm: name an n-gram model of the training text with --ngram\n", flush=True)
    with workplace():
        Path("train.txt").write_bytes(train)
        lines, kinds = planted(test.split(b"\n")[:-1])
        Path("lines.txt").write_bytes(b"".join(line + b"\n" for line in lines))
        if options.model:
            shutil.copy(options.model, "model.safetensors")
        else:
            output(NEGLM, "vocab", "train.txt", "--quiet", "--max-vocab", "10000")
            output(*TRAIN)
        contestants = {"neglm filter": filtered, "neglm filter --unnormalized": lambda: filtered("--unnormalized")}
        if peer:
            contestants[peer.name] = lambda: scored_by_kenlm(peer.python, options.ngram)
        report_areas({name: run()[1] for name, run in contestants.items()}, np.array(kinds))
        rates = {name: lambda run=run: run()[0] for name, run in contestants.items()}
        compare("filter", f"2×300, {len(lines):,} lines", "words/s", rates, {peer.name} if peer else set(), options)


def report_areas(perplexities: dict[str, np.ndarray], kinds: np.ndarray) -> None:
    """Print the area under the ROC curve for each kind of planted lines."""
    sizes = ", ".join(f"{np.count_nonzero(kinds == number):,} {name}" for number, name in enumerate(KINDS))
    print(f"area under the ROC curve, {sizes} lines\n  {'':<32}{KINDS[1]:>10}{KINDS[2]:>10}{'both':>10}")
    for name, found in perplexities.items():
        if len(found) != len(kinds):
            sys.exit(f"{name} scored {len(found)} of {len(kinds)} lines")
        low = found[kinds == 0]
        areas = [area(low, found[which]) for which in (kinds == 1, kinds == 2, kinds > 0)]
        print(f"  {name:<32}" + "".join(f"{value:>10.3f}" for value in areas))
    print(flush=True)


if __name__ == "__main__":
    main()
