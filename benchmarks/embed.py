"""Speed of `neglm embed` and quality of its vectors, compared with gensim and fastText at the same settings.

    python benchmarks/embed.py [--data DIR] [--rounds N] [--seeds N] [--sizes 100,300]
                               [--part speed|quality|both|subwords]

Speed: each contestant trains for one epoch per round; words/s exclude counting and writing. Ratios compare rates of the
same round, and the result is the median over rounds.
Quality: five epochs for every seed, all evaluated by `neglm eval`; figures are means over seeds, in points.
Subwords: speed and quality with n-grams of 3 to 6 characters in 2,000,000 buckets, compared with fastText alone. Rare
words are forms such as `dances` that occur fewer than five times, so that they are not in the vocabulary, of words that
occur a thousand times; the figure is the share of forms with that word among their ten nearest neighbors.
In the other parts, fastText trains without subwords (maxn 0), like word2vec. It does not report its training time, so
its rate is that of the second epoch: the difference between runs of two epochs and of one. Each run is a separate
process, since a second training in one process ended with NaN. It takes no seed from Python; with two threads, every
run differs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from side_by_side import (
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

SETTINGS = ["--window", "5", "--k", "5", "--sample", "1e-4", "--min-count", "5", "--threads", THREADS]
GENSIM = """
import json, sys, time
from gensim.models import Word2Vec
from gensim.models.word2vec import LineSentence
size, epochs, seed = map(int, sys.argv[1:])
model = Word2Vec(vector_size=size, window=5, negative=5, sample=1e-4, min_count=5, sg=1, hs=0, workers=2, seed=seed)
model.build_vocab(LineSentence("corpus.txt"))
start = time.perf_counter()
model.train(LineSentence("corpus.txt"), total_words=model.corpus_total_words, epochs=epochs)
seconds = time.perf_counter() - start
model.wv.save_word2vec_format("trained.bin", binary=True)
print(json.dumps({"per_second": model.corpus_total_words * epochs / seconds}))
"""
FASTTEXT = """
import json, sys, time
import fasttext
size, epochs = map(int, sys.argv[1:3])
ngrams = dict(minn=3, maxn=6, bucket=2_000_000) if sys.argv[3:] == ["subwords"] else dict(minn=0, maxn=0, bucket=0)
start = time.perf_counter()
model = fasttext.train_unsupervised("corpus.txt", model="skipgram", dim=size, ws=5, neg=5, t=1e-4, minCount=5, lr=0.025,
    thread=2, epoch=epochs, verbose=0, **ngrams)
seconds = time.perf_counter() - start
if ngrams["maxn"]:
    model.save_model("trained.bin")
words = [word for word in model.words if word != "</s>"]
with open("trained.vec", "w", encoding="utf-8") as file:
    print(len(words), size, file=file)
    for word in words:
        print(word, *(format(x, ".6g") for x in model.get_word_vector(word)), file=file)
print(json.dumps({"seconds": seconds}))
"""
OURS, DETERMINISTIC, SUBWORDS = "neglm embed", "neglm embed --deterministic", "neglm embed --subwords"
OPTIONS = {
    OURS: [],
    DETERMINISTIC: ["--deterministic"],
    SUBWORDS: ["--subwords", "3-6", "--buckets", "2000000"],
}
SUFFIXES = ("s", "ed", "ing", "ly", "er", "ness")
FORMS = 500  # rare words that are evaluated
PROGRAMS = {"gensim": (GENSIM, "trained.bin"), "fastText": (FASTTEXT, "trained.vec")}
FIGURES = ("WordSim-353", "SimLex-999", "analogies")


def train(contestant: str | Peer, size: int, epochs: int, seed: int) -> None:
    """Train on corpus.txt, and write the vectors to trained.safetensors."""
    if isinstance(contestant, Peer):
        program, vectors = PROGRAMS[contestant.name.split()[0]]
        output(contestant.python, "-c", program, str(size), str(epochs), str(seed))
        output(NEGLM, "import", vectors, "-o", "trained.safetensors", "--quiet")
    else:
        output(*command(contestant, size, epochs, seed))


def command(contestant: str, size: int, epochs: int, seed: int) -> list[str]:
    options = OPTIONS[contestant]
    arguments = ["--size", str(size), "--epochs", str(epochs), "--seed", str(seed)]
    return [NEGLM, "embed", "--json", *SETTINGS, *options, *arguments, "-o", "trained.safetensors"]


def our_rate(contestant: str, size: int) -> float:
    """Train one epoch. Return words per second."""
    return float(printed_json(*command(contestant, size, 1, 1))["words_per_second"])


def gensim_rate(peer: Peer, size: int) -> float:
    return float(printed_json(peer.python, "-c", GENSIM, str(size), "1", "1")["per_second"])


def fasttext_rate(peer: Peer, size: int, words: int, *subwords: str) -> float:
    one, two = (printed_json(peer.python, "-c", FASTTEXT, str(size), epochs, *subwords)["seconds"] for epochs in "12")
    if two <= one:
        sys.exit("two epochs of fastText took no longer than one: the machine is too busy, or the text too short")
    return float(words / (two - one))


def quality(data: Path) -> tuple[float, float, float]:
    """Evaluate WordSim-353 and SimLex-999 (Spearman) and analogies (3CosAdd), in points."""
    sets = [str(data / "similarity" / name) for name in ("ws353.tsv", "simlex999.tsv")]
    questions = str(data / "analogy" / "questions-words.txt")
    files = ["--similarity", *sets, "--analogy", questions]
    result = printed_json(NEGLM, "eval", "trained.safetensors", *files, "--fold-case", "--method", "add", "--json")
    similar = [entry["spearman"] for entry in result["similarity"]]
    accuracy = result["analogy"][0]["total"]["add"]["accuracy"]
    return 100 * similar[0], 100 * similar[1], 100 * accuracy


def main() -> None:
    parser = option_parser(__doc__, rounds=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sizes", default="100,300")
    parser.add_argument("--part", choices=["speed", "quality", "both", "subwords"], default="both")
    options = parser.parse_args()
    text = text_of(options, "wiki", "wiki100.txt")
    sizes = [int(size) for size in options.sizes.split(",")]
    found = [find_peer("gensim", "gensim", options.peers), find_peer("fasttext", "fastText", options.peers)]
    peers = [peer for peer in found if peer]
    with workplace():
        Path("corpus.txt").write_bytes(text)
        output(NEGLM, "vocab", "corpus.txt", "--quiet")
        for contestant in (OURS, DETERMINISTIC):
            our_rate(contestant, sizes[0])  # compiles kernels, and writes the encoded copy
        if options.part == "subwords":
            compare_subwords(sizes[0], found[1], text, options)
            return
        for size in sizes:
            if options.part != "quality":
                compare_speed(size, peers, len(text.split()), options)
            if options.part != "speed" and not options.small:
                compare_quality(size, peers, options)


def compare_speed(size: int, peers: list[Peer], words: int, options: argparse.Namespace) -> None:
    runs = {contestant: partial(our_rate, contestant, size) for contestant in (OURS, DETERMINISTIC)}
    for peer in peers:
        gensim = peer.name.startswith("gensim")
        runs[peer.name] = partial(gensim_rate, peer, size) if gensim else partial(fasttext_rate, peer, size, words)
    rates = compare("embed", f"size {size}", "words/s", runs, {peer.name for peer in peers}, options)
    share = statistics.median(a / b for a, b in zip(rates[DETERMINISTIC], rates[OURS], strict=True))
    print(f"  --deterministic runs at {share:.2f} of the speed\n", flush=True)


def compare_subwords(size: int, peer: Peer | None, text: bytes, options: argparse.Namespace) -> None:
    runs: dict[str, Callable[[], float]] = {SUBWORDS: partial(our_rate, SUBWORDS, size)}
    runs[SUBWORDS]()  # compiles kernels
    if peer:
        runs[peer.name] = partial(fasttext_rate, peer, size, len(text.split()), "subwords")
    compare("embed", f"size {size}, subwords", "words/s", runs, {peer.name} if peer else set(), options)
    if options.small:
        return
    forms = rare_forms(text)
    for seed in range(1, options.seeds + 1):
        for name in runs:
            if peer and name == peer.name:
                output(peer.python, "-c", FASTTEXT, str(size), "5", "subwords")
                output(NEGLM, "import", "trained.bin", "-o", "trained.safetensors", "--quiet")
            else:
                output(*command(name, size, 5, seed))
            figures = (*quality(options.data), 100 * rare_words(forms))
            print(f"  {name}, seed {seed}: " + ", ".join(f"{x:.2f}" for x in figures), flush=True)


def rare_forms(text: bytes) -> dict[bytes, bytes]:
    """Return inflected forms that occur fewer than five times, each with its base, in an order that is no alphabet."""
    counts = Counter(text.split())
    found = {
        base + suffix: base
        for base, count in counts.items()
        if count >= 1000
        for suffix in map(str.encode, SUFFIXES)
        if 0 < counts.get(base + suffix, 0) < 5
    }
    return dict(sorted(found.items(), key=lambda pair: zlib.crc32(pair[0]))[:FORMS])


def rare_words(forms: dict[bytes, bytes]) -> float:
    """Return the share of forms whose base is among their ten nearest neighbors."""
    asked = [NEGLM, "nearest", "--vectors", "trained.safetensors", "--json", "--top", "10"]
    answers = subprocess.run(asked, input=b"\n".join(forms) + b"\n", stdout=subprocess.PIPE, check=True).stdout
    found = [{each["word"] for each in json.loads(line)["neighbors"]} for line in answers.splitlines()]
    return statistics.mean(base.decode() in near for base, near in zip(forms.values(), found, strict=True))


def compare_quality(size: int, peers: list[Peer], options: argparse.Namespace) -> None:
    contestants: list[str | Peer] = [OURS, DETERMINISTIC, *peers]
    names = [contestant.name if isinstance(contestant, Peer) else contestant for contestant in contestants]
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    for seed in range(1, options.seeds + 1):
        for contestant, name in zip(contestants, names, strict=True):
            train(contestant, size, 5, seed)
            found[name].append(quality(options.data))
            print(f"  {name}, size {size}, seed {seed}: " + ", ".join(f"{x:.2f}" for x in found[name][-1]), flush=True)
    print(f"size {size}: five epochs, mean of {options.seeds} seeds (minimum, maximum)")
    print(f"  {'':<30}" + "".join(f"{name:>24}" for name in FIGURES))
    for name, figures in found.items():
        columns = [f"{statistics.mean(c):.2f} ({min(c):.2f}, {max(c):.2f})" for c in zip(*figures, strict=True)]
        print(f"  {name:<30}" + "".join(f"{column:>24}" for column in columns))
    print(flush=True)


if __name__ == "__main__":
    main()
